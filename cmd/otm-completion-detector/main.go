// The command otm-completion-detector; see package app.
package main

import (
	"os"

	"otm/internal/app"
	"otm/internal/cli"
)

func main() {
	os.Exit(app.Main(append([]string{"otm-completion-detector"}, os.Args[1:]...), cli.OSStreams()))
}
