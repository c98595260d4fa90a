// The command otm-create; see package submit.
package main

import (
	"context"
	"os"

	"otm/internal/cli"
	"otm/internal/submit"
)

func main() {
	s, args := cli.OSStreams(), os.Args[1:]
	os.Exit(cli.Run(context.Background(), submit.Create("otm-create", cli.Version(), s, args), args, s, submit.Explain))
}
