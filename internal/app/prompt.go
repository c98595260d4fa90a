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
		Long: `Print the text that teaches an agent how to take tasks and report on them, and an
orchestrator how to give tasks, split work and review what came of it. Put it
into the system prompt or AGENTS.md. It is that of the skill, with the names and
the directory that are configured here. Without --agent it calls the agent
"$OTM_AGENT", which is set for those that OTM starts.`,
		Example: "  otm prompt --agent devdas >> ~/agents/devdas/AGENTS.md",
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := home(c, s)
			if err != nil {
				return err
			}
			if agent != "" && len(h.Config.Agents) > 0 {
				a, err := h.aiAgent(agent, "otm prompt --agent")
				if err != nil {
					return err
				}
				agent = a.Name
			}
			_, err = fmt.Fprint(s.Out, h.prompt(agent))
			return err
		},
	}
	c.Flags().StringVar(&agent, "agent", "", "whom the text is for")
	return c
}

// Where the skill's text names an agent, and what is said in place of a name.
const (
	skillSelf     = `"$OTM_AGENT"`
	skillSelfSaid = "`$OTM_AGENT` below is your own name; if it is not set, write your name in its place.\n"
	skillAgent    = "archibald"
	skillPerson   = "robin"
)

// skillCommand is a command of the skill: all stand at the beginning of a line.
var skillCommand = regexp.MustCompile(`(?m)^ *(otm-create|otm-update|otm [a-z]+)\b`)

// prompt is the skill for an agent. For "" it is for whoever OTM_AGENT names.
func (h *Home) prompt(agent string) string {
	_, text, _ := strings.Cut(strings.TrimPrefix(skills.OTM, "---\n"), "\n---\n\n")
	if h.messageDir() != "" {
		dir := " --dir " + safe.Escape(safe.Quote(h.Dir))
		text = skillCommand.ReplaceAllStringFunc(text, func(command string) string { return command + dir })
	}
	// In its examples it names those who are there, and first of all others.
	other, person := skillAgent, skillPerson
	for i := len(h.Config.Agents) - 1; i >= 0; i-- {
		switch a := h.Config.Agents[i]; {
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
