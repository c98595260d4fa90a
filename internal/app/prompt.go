package app

import (
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
prompt or AGENTS.md. It is the text of the skill with the configured names and
directory. Without --agent it calls the agent "$OTM_AGENT", a variable that is set
for agents that OTM starts.`,
		Example: "  otm prompt --agent devdas >> ~/agents/devdas/AGENTS.md",
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := home(c, s)
			if err != nil {
				return err
			}
			if agent != "" && len(h.Config.Agents) > 0 {
				a, err := aiAgent(h, agent, "otm prompt --agent")
				if err != nil {
					return err
				}
				agent = a.Name
			}
			_, err = fmt.Fprint(s.Out, promptFor(agent, messageDir(h), h.Config.Agents))
			return err
		},
	}
	c.Flags().StringVar(&agent, "agent", "", "the agent that will read the text")
	return c
}

// Names in the text of the skill that are replaced by configured ones.
const (
	skillSelf     = `"$OTM_AGENT"`
	skillSelfSaid = "`$OTM_AGENT` below is your own name; if it is not set, write your name in its place.\n"
	skillAgent    = "archibald"
	skillPerson   = "robin"
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
	// The examples name configured agents, preferably others than the reader.
	other, person := skillAgent, skillPerson
	for i := len(agents) - 1; i >= 0; i-- {
		switch a := agents[i]; {
		case a.Person:
			person = a.Name
		case other == skillAgent || pipeline.FoldName(a.Name) != pipeline.FoldName(agent):
			other = a.Name
		}
	}
	names := []string{
		"--agent " + skillAgent, "--agent " + safe.Escape(safe.Quote(other)), `"` + skillAgent + `"`, `"` + other + `"`,
		"--agent " + skillPerson, "--agent " + safe.Escape(safe.Quote(person)),
	}
	if agent != "" {
		names = append(names, skillSelfSaid, "", skillSelf, safe.Escape(safe.Quote(agent)))
	}
	return strings.NewReplacer(names...).Replace(text)
}
