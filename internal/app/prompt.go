package app

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/safe"
)

// promptCommand is otm prompt.
func promptCommand(s cli.Streams) *cobra.Command {
	var agent string
	c := &cobra.Command{
		Use:     "prompt",
		Short:   "Print the text that teaches an agent to use OTM",
		Long:    "Print the text that teaches an agent how to take tasks and report on them. Put it\ninto the agent's system prompt or its AGENTS.md.",
		Example: "  otm prompt --agent devdas >> ~/agents/devdas/AGENTS.md",
		RunE: func(c *cobra.Command, _ []string) error {
			if agent == "" {
				return cli.Errorf(cli.Usage, "--agent is missing").Hint("otm prompt --agent devdas")
			}
			h, err := home(c, s)
			if err != nil {
				return err
			}
			a, err := h.aiAgent(agent, "otm prompt")
			if err != nil {
				return err
			}
			dir := ""
			if h.messageDir() != "" {
				dir = " --dir " + safe.Escape(safe.Quote(h.Dir))
			}
			replacer := strings.NewReplacer("{agent}", safe.Quote(a.Name), "{dir}", dir)
			_, err = fmt.Fprint(s.Out, replacer.Replace(promptText))
			return err
		},
	}
	c.Flags().StringVar(&agent, "agent", "", "whom the text is for (required)")
	return c
}

const promptText = `## Your tasks

You get tasks through OTM. When you are told that a task was dispatched, or when
a session begins and task-dispatch.json stands in your workspace:

1. Take the next task:

   otm next{dir} --agent {agent}

   It prints one task with its id and numbered steps. If it prints
   "no task waiting", stop. If it begins with "continue", go on with that task.

2. Do the steps in order. Report each one as soon as it is done, by its number:

   otm-update{dir} --task-id T-00033 --subtask-done 1

3. If you cannot go on, say why, and then take the next task:

   otm-update{dir} --task-id T-00033 --status blocked --reason 'Waiting for the API key'

4. When all steps are done, say what came of it:

   otm-update{dir} --task-id T-00033 --status agent_done --result 'Merged as #12'

5. Begin again at 1.

Rules

- A command that exits with 0 has been taken down; do not repeat it. With 64
  nothing was written: read the line that begins with "otm: hint:".
- Put text into single quotes. In double quotes the shell would run what stands
  in backticks or in $(...). Text that holds a single quote goes in on stdin,
  as JSON, with the quoted 'EOF' that keeps the shell away from it:

   otm-update{dir} --task-id T-00034 --from - <<'EOF'
   {"status":"blocked","reason":"The client's key isn't there"}
   EOF

- To give a task to another agent, with its steps:

   otm-create{dir} --title 'Review the login page' --agent 'name' \
     --subtask 'Check the form' --subtask 'Check the error texts'

   or, for any text:

   otm-create{dir} --from - <<'EOF'
   {"title":"Review the login page","agent":"name","subtasks":["Check the form"]}
   EOF

   It prints the task's id. Do not create it again if you are not sure: give
   --key with a name of your own for the task, and the same key gives the same
   id.
- Do not edit files under OTM's directory, and do not change task-dispatch.json.
`
