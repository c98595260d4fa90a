// The command otm-update; see package submit.
package main

import (
	"context"
	"os"

	"otm/internal/cli"
	"otm/internal/submit"
)

func main() {
	s, args := cli.OSStreams(), os.Args[1:]
	os.Exit(cli.Run(context.Background(), submit.Update("otm-update", cli.Version(), s, args), args, s, submit.Explain))
}
