package app

import (
	"bytes"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/install"
	"otm/pipeline"
)

// Commands are all commands, for programs that describe them, as manual pages.
func Commands() []*cobra.Command {
	s := cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }}
	return pipeline.Map(install.Programs, func(name string) *cobra.Command { return commandNamed(name, s, nil) })
}

// completionCommand prints the completion scripts of all programs. The scripts
// ask the programs.
func completionCommand() *cobra.Command {
	write := map[string]func(*cobra.Command, io.Writer) error{
		"bash": func(c *cobra.Command, w io.Writer) error { return c.GenBashCompletionV2(w, true) },
		"zsh":  (*cobra.Command).GenZshCompletion,
		"fish": func(c *cobra.Command, w io.Writer) error { return c.GenFishCompletion(w, true) },
	}
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print a shell's completion script",
		Long:      "Print a script that completes the commands and flags of otm and of the programs\nbeside it in a shell.",
		Example:   "  source <(otm completion bash)",
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args: func(c *cobra.Command, args []string) error {
			if err := cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs)(c, args); err != nil {
				return cli.Errorf(cli.Usage, "%w", err).Hint("otm completion bash")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			var script bytes.Buffer
			for _, program := range Commands() {
				if err := write[args[0]](program, &script); err != nil {
					return err
				}
			}
			_, err := script.WriteTo(c.OutOrStdout())
			return err
		},
	}
}
