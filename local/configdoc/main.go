// Command configdoc writes the page of all configuration keys, docs/config.md, from package config.
package main

import (
	"fmt"
	"os"

	"github.com/tidemark/tidemark/shared/config"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: configdoc FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], []byte(config.Document()), 0o644); err != nil { //nolint:gosec // a page of the repository, which everybody reads
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
