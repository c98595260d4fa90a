package app

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/install"
	"otm/internal/submit"
	"otm/pipeline"
)

// Commands are all commands, for programs that describe them, as manual pages.
func Commands() []*cobra.Command {
	s := cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }}
	var all []*cobra.Command
	for _, name := range install.Programs {
		all = append(all, commandNamed(name, s, nil))
	}
	return all
}

// completionCommand prints completion scripts.
func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a shell's completion script",
		Long:  "Print a script that completes otm and the programs beside it in a shell: commands,\nflags, agents and task ids.",
		Example: `  otm completion bash > ~/.local/share/bash-completion/completions/otm
  source <(otm completion zsh)`,
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args: func(c *cobra.Command, args []string) error {
			if err := cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs)(c, args); err != nil {
				return cli.Errorf(cli.Usage, "%w", err).Hint("otm completion bash")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			var script bytes.Buffer
			others := install.Programs[1:]
			switch args[0] {
			case "bash":
				if err := c.Root().GenBashCompletionV2(&script, true); err != nil {
					return err
				}
				fmt.Fprintf(&script, "\ncomplete -o default -F __start_otm %s\n", strings.Join(others, " "))
			case "zsh":
				if err := c.Root().GenZshCompletion(&script); err != nil {
					return err
				}
				all := strings.Join(install.Programs, " ")
				text := strings.Replace(script.String(), "#compdef otm\ncompdef _otm otm\n", "#compdef "+all+"\ncompdef _otm "+all+"\n", 1)
				script.Reset()
				script.WriteString(text)
			default:
				if err := c.Root().GenFishCompletion(&script, true); err != nil {
					return err
				}
				for _, name := range others {
					fmt.Fprintf(&script, "complete -c %s -n '__otm_prepare_completions' -f -a '$__otm_comp_results'\n", name)
				}
			}
			_, err := script.WriteTo(c.OutOrStdout())
			return err
		},
	}
}

// addCompletions has the commands of otm complete agents, task ids and statuses.
func addCompletions(root *cobra.Command, s cli.Streams) {
	for _, c := range root.Commands() {
		if c.Flags().Lookup("agent") != nil {
			c.RegisterFlagCompletionFunc("agent", submit.CompleteAgents(s.Getenv)) // fails for an unknown flag only
		}
		if c.Flags().Lookup("status") != nil {
			c.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(statusWords(), cobra.ShellCompDirectiveNoFileComp))
		}
		switch c.Name() {
		case "show", "why", "history":
			c.ValidArgsFunction = submit.CompleteIDs(s.Getenv)
		case "retry":
			c.ValidArgsFunction = submit.CompleteFailed(s.Getenv)
		}
	}
}

func statusWords() []string {
	var words []string
	for _, s := range pipeline.Statuses {
		words = append(words, string(s))
	}
	return words
}
