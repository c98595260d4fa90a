// The command otm; see package app.
package main

import (
	"os"

	"otm/internal/api"
	"otm/internal/app"
	"otm/internal/cli"
)

func main() {
	app.NewAPI = api.New
	os.Exit(app.Main(os.Args, cli.OSStreams()))
}
