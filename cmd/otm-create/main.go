// The command otm-create; see package submit.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"otm/internal/cli"
	"otm/internal/submit"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, args := cli.OSStreams(), os.Args[1:]
	return cli.Run(ctx, submit.Create("otm-create", cli.Version(), s, args), args, s, submit.Explain)
}
