package main

import (
	"fmt"
	"os"

	"local-cluster/internal/component"
)

func main() {
	code, ok := component.Run(os.Args[1], os.Args[2:])
	if !ok {
		fmt.Fprintln(os.Stderr, "unknown")
		os.Exit(2)
	}
	os.Exit(code)
}
