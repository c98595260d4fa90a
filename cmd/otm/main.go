// The command otm; see package app.
package main

import (
	"os"

	"otm/internal/app"
	"otm/internal/cli"
)

func main() {
	os.Exit(app.Main(os.Args, cli.OSStreams()))
}
