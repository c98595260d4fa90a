package app

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/skills"
)

// promptCommand is otm prompt.
func promptCommand(s cli.Streams) *cobra.Command {
	var agent string
	c := &cobra.Command{
		Use:   "prompt",
		Short: "Print the text that teaches an agent to use OTM",
		Long: `Print the text that teaches an agent to take tasks and report on them, and an
orchestrator to give tasks, split work and review results. Put it into the system
prompt or AGENTS.md. It is the text of the skill with the directory and a list of
the configured agents. Without --agent it calls the agent "$OTM_AGENT", a variable
that is set for agents that OTM starts.`,
		Example: "  otm prompt --agent devdas >> ~/agents/devdas/AGENTS.md",
		RunE: withHome(s, func(ctx context.Context, h *Home, _ []string) error {
			if agent != "" && len(h.Agents()) > 0 {
				a, err := aiAgent(h, agent, "otm prompt --agent")
				if err != nil {
					return err
				}
				agent = a.Name
			}
			_, err := fmt.Fprint(s.Out, promptFor(agent, messageDir(h), h.Agents()))
			return err
		}),
	}
	c.Flags().StringVar(&agent, "agent", "", "the agent that will read the text")
	return c
}

// The skill speaks of its reader by a variable that is set for agents that OTM
// starts.
const (
	skillSelf     = `"$OTM_AGENT"`
	skillSelfSaid = "`$OTM_AGENT` below is your own name; if it is not set, write your name in its place.\n"
)

// skillCommand matches a command of the skill: each begins a line.
var skillCommand = regexp.MustCompile(`(?m)^ *(otm-create|otm-update|otm [a-z]+)\b`)

// promptFor is the text of the skill for an agent; "": for the agent that
// OTM_AGENT names. dir is "" if the commands find the data directory by
// themselves.
func promptFor(agent, dir string, agents pipeline.Agents) string {
	_, text, _ := strings.Cut(strings.TrimPrefix(skills.OTM, "---\n"), "\n---\n\n")
	if dir != "" {
		dir := " --dir " + safe.Escape(safe.Quote(dir))
		text = skillCommand.ReplaceAllStringFunc(text, func(command string) string { return command + dir })
	}
	if agent != "" {
		text = strings.NewReplacer(skillSelfSaid, "", skillSelf, safe.Escape(safe.Quote(agent))).Replace(text)
	}
	if len(agents) == 0 {
		return text
	}
	text += "\n## Who is there\n\nThe names in the examples are examples. Tasks can be given to:\n\n"
	for _, a := range agents {
		kind := ""
		if a.Person {
			kind = ", a person"
		}
		text += fmt.Sprintf("* %s%s\n", safe.Escape(a.Name), kind)
	}
	return text
}
