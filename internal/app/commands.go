package app

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"otm/heartbeat"
	"otm/internal/cli"
)

// Commands are all commands, for those who describe them: manual pages and
// completions.
func Commands() []*cobra.Command {
	s := cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }}
	var all []*cobra.Command
	for _, name := range []string{"otm", "otm-create", "otm-update", heartbeat.Injector, heartbeat.Dispatcher, heartbeat.Detector} {
		all = append(all, commandNamed(name, s, nil))
	}
	return all
}
