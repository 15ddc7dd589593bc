package component

import (
	"context"
	"fmt"
	"os"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/auth/token"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
)

// runRegistry takes the path of a configuration file in the format of the distribution project.
//
// The Go API is used because the flags of its own command clash with Kubernetes' logging flags.
func runRegistry() int {
	if err := serveRegistry(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "registry: %v\n", err)
		return 1
	}
	return 0
}

func serveRegistry(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("takes one argument, the path of its configuration file")
	}
	file, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	config, err := configuration.Parse(file)
	if err != nil {
		return fmt.Errorf("reading %s: %w", args[0], err)
	}
	server, err := registry.NewRegistry(context.Background(), config)
	if err != nil {
		return err
	}
	return server.ListenAndServe()
}
