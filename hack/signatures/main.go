// Signatures asks containers/image what it accepts and refuses of the rows that the tests of
// src/image/policy have written, and prints its answers beside ours. It ends with 1 if any differs.
//
// Usage: signatures FOLDER
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/image"
	"go.podman.io/image/v5/signature"
	"go.podman.io/image/v5/types"
)

type row struct {
	What, Policy string
	// Our answer: why it is refused, or nothing.
	Ours string
	// We refuse it on purpose, and they do not.
	Stricter bool
	// Without an image only the policy is read.
	Image      string
	Manifest   []byte
	Registries []string
	Signatures []attachment
}

type attachment struct {
	Payload     []byte
	Annotations map[string]string
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: signatures FOLDER")
	}
	files, err := filepath.Glob(filepath.Join(os.Args[1], "*.json"))
	check(err)
	rows, differ := 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(err)
		var read []row
		check(json.Unmarshal(text, &read))
		for _, row := range read {
			theirs, prefix := row.theirs(), "same   "
			switch theyAccept, weAccept := theirs == nil, row.Ours == ""; {
			case row.Stricter && theyAccept && !weAccept:
				prefix = "STRICT "
			case row.Stricter || theyAccept != weAccept:
				prefix = "DIFFERS"
				differ++
			}
			rows++
			fmt.Printf("%s %s\n  containers/image: %s\n  olm-controller:   %s\n",
				prefix, row.What, answer(fmt.Sprint(theirs), theirs == nil), answer(row.Ours, row.Ours == ""))
		}
	}
	fmt.Printf("%d rows, %d differ\n", rows, differ)
	if rows == 0 || differ > 0 {
		os.Exit(1)
	}
}

func answer(reason string, accepts bool) string {
	if accepts {
		return "accepts"
	}
	return "refuses: " + reason
}

// theirs returns why containers/image refuses the row.
func (r row) theirs() error {
	policy, err := signature.NewPolicyFromBytes([]byte(r.Policy))
	if err != nil || r.Image == "" {
		return err
	}
	settings, err := os.MkdirTemp("", "signatures")
	check(err)
	defer os.RemoveAll(settings)
	registries := filepath.Join(settings, "registries.d")
	check(os.Mkdir(registries, 0o700))
	for index, text := range r.Registries {
		check(os.WriteFile(filepath.Join(registries, fmt.Sprintf("%d.yaml", index)), []byte(text), 0o600))
	}
	// Whatever the image is called, its registry is this one.
	server := httptest.NewServer(r.registry())
	defer server.Close()
	proxy, err := url.Parse(server.URL)
	check(err)
	system := &types.SystemContext{
		RegistriesDirPath:           registries,
		SystemRegistriesConfPath:    os.DevNull,
		SystemRegistriesConfDirPath: filepath.Join(settings, "registries.conf.d"),
		AuthFilePath:                filepath.Join(settings, "auth.json"),
		DockerPerHostCertDirPath:    filepath.Join(settings, "certs.d"),
		DockerInsecureSkipTLSVerify: types.OptionalBoolTrue,
		DockerProxyURL:              proxy,
	}
	ctx := context.Background()
	reference, err := docker.ParseReference("//" + r.Image)
	check(err)
	source, err := reference.NewImageSource(ctx, system)
	if err != nil {
		return err
	}
	defer source.Close()
	checks, err := signature.NewPolicyContext(policy)
	check(err)
	defer func() { check(checks.Destroy()) }()
	allowed, err := checks.IsRunningImageAllowed(ctx, image.UnparsedInstance(source, nil))
	if err == nil && !allowed {
		err = errors.New("not allowed")
	}
	return err
}

// registry serves the image, and what is attached to it as cosign attaches it.
func (r row) registry() http.Handler {
	config := []byte("{}")
	blobs := map[string][]byte{digest.FromBytes(config).String(): config}
	descriptor := func(kind string, content []byte) v1.Descriptor {
		return v1.Descriptor{MediaType: kind, Digest: digest.FromBytes(content), Size: int64(len(content))}
	}
	attached := v1.Manifest{MediaType: v1.MediaTypeImageManifest, Config: descriptor(v1.MediaTypeImageConfig, config)}
	attached.SchemaVersion = 2
	for _, it := range r.Signatures {
		layer := descriptor("application/vnd.dev.cosign.simplesigning.v1+json", it.Payload)
		layer.Annotations = it.Annotations
		attached.Layers = append(attached.Layers, layer)
		blobs[layer.Digest.String()] = it.Payload
	}
	signatures, err := json.Marshal(attached)
	check(err)
	tag := strings.Replace(digest.FromBytes(r.Manifest).String(), ":", "-", 1) + ".sig"
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		_, last, _ := strings.Cut(request.URL.Path, "/manifests/")
		blob, isBlob := blobs[request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:]]
		content := r.Manifest
		switch {
		case request.Method == http.MethodConnect: // TLS
			http.Error(w, "plain HTTP only", http.StatusMethodNotAllowed)
			return
		case request.URL.Path == "/v2/":
			return
		case isBlob:
			content = blob
		case last == tag && len(r.Signatures) > 0:
			content = signatures
		case last == "" || strings.HasSuffix(last, ".sig"):
			http.NotFound(w, request)
			return
		}
		w.Header().Set("Content-Type", v1.MediaTypeImageManifest)
		w.Write(content)
	})
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
