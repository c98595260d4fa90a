package app

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"otm/core"
	"otm/internal/cli"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/drop"
)

// sayCommand is otm say.
func sayCommand(s cli.Streams) *cobra.Command {
	var tag, agent string
	var mentions []string
	var unblock bool
	c := &cobra.Command{
		Use:   "say ID TEXT",
		Short: "Write a message on a task",
		Long: `Write a message in the thread of a task. It changes no status. otm next shows it to
the agent that has the task, and to the agents that are mentioned. People of
otm.toml who are mentioned are told over [notify]. In the shell of an agent, where
OTM_AGENT is set, and with --agent it is that agent's message.
--unblock answers a blocked agent and lets it go on, as otm unblock does.`,
		Example: "  otm say T-00035 'The logo has changed' --mention archibald\n  otm say --unblock T-00035 'Green.'",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) < 2:
				return cli.Errorf(cli.Usage, "want a task id and a text").Hint("otm say T-00035 'The logo has changed'")
			case len(args) > 2:
				return cli.Errorf(cli.Usage, "the text has to be one word for the shell: quote it").Hint("otm say %s %s", safe.Quote(args[0]), safe.Quote(strings.Join(args[1:], " ")))
			}
			return nil
		},
	}
	forPeople(c, s, func(ctx context.Context, h *Home, as *acting, args []string) error {
		id, err := taskArg(args)
		if err != nil {
			return err
		}
		if !unblock {
			by, err := as.author(agent)
			if err != nil {
				return err
			}
			return say(ctx, h, by, id, pipeline.Message{Text: args[1], Tag: pipeline.Tag(tag), Mentions: mentions})
		}
		if tag != "" || agent != "" || len(mentions) > 0 {
			return cli.Errorf(cli.Usage, "--unblock takes no --tag, --agent or --mention: it is a person's answer").Hint("otm say --unblock %v %s", id, safe.Quote(args[1]))
		}
		if _, err := as.actor(); err != nil {
			return err
		}
		answer := taskCommandNamed("unblock")
		edits, err := answer.edits(h, id.String(), "", args[1])
		if err != nil {
			return err
		}
		return answer.all(ctx, as, []pipeline.TaskID{id}, edits)
	})
	c.Flags().StringVar(&tag, "tag", "", strings.Join(pipeline.Texts(pipeline.Tags), ", ")+" (default note)")
	c.Flags().StringVar(&agent, "agent", "", "the agent whose message it is (default: $OTM_AGENT; else a person's)")
	c.Flags().StringArrayVar(&mentions, "mention", nil, "an agent that is shown it too, or a person who is told; repeat it for more")
	c.Flags().BoolVar(&unblock, "unblock", false, "answer a blocked agent, and let it go on")
	jsonFlag(c, "print the result as a JSON array")
	c.RegisterFlagCompletionFunc("tag", cobra.FixedCompletions(pipeline.Texts(pipeline.Tags), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// author returns whose message it is: that of an agent, or else that of a person. A message
// is no review: without a token and a terminal it is that of the user of the system.
func (as *acting) author(agent string) (core.Actor, error) {
	if agent = cmp.Or(agent, as.h.Getenv("OTM_AGENT")); agent != "" {
		a, err := aiAgent(as.h, agent, "otm say --agent")
		if err != nil {
			return core.Actor{}, err
		}
		return core.ByAgent(a.Name), nil
	}
	if as.file == "" && as.h.Getenv(tokenFileEnv) == "" && !as.onTerminal() {
		return core.ByPerson(self()), nil
	}
	return as.actor()
}

// say writes a message in the thread of a task.
func say(ctx context.Context, h *Home, by core.Actor, id pipeline.TaskID, m pipeline.Message) error {
	if err := checkMessage(h, &m); err != nil {
		return err
	}
	o, err := sayOn(ctx, h, core.Command{At: h.Now(), By: by, Task: id, Do: core.Say{Message: m}})
	if err != nil {
		return err
	}
	t := o.Task
	results := []steered{{TaskID: id.String(), From: t.Status, Status: t.Status, changed: "  said: " + safe.Escape(t.LastMessage.String())}}
	return h.answer(results, func() error { return printSteered(h, results) })
}

// checkMessage checks a message, and writes the names that it mentions as they are
// configured. The error is a *cli.Error.
func checkMessage(h *Home, m *pipeline.Message) error {
	m.Tag = cmp.Or(m.Tag, pipeline.TagNote)
	var invalid *drop.InvalidError
	if err := drop.CheckMessage(m); errors.As(err, &invalid) {
		what := map[string]string{"note": "the text", "mentions": "--mention"}[invalid.Name()]
		return cli.Errorf(cli.Usage, "%s %s", cmp.Or(what, "--"+invalid.Name()), invalid.Reason)
	}
	for i, name := range m.Mentions {
		a := h.Agents().Named(name)
		if a == nil {
			return noAgent(h, name, "--mention %s")
		}
		m.Mentions[i] = a.Name
	}
	return nil
}

// sayOn carries out the command of a message.
func sayOn(ctx context.Context, h *Home, c core.Command) (o core.Outcome, err error) {
	store, err := h.OpenStore(ctx)
	if err != nil {
		return o, err
	}
	outcomes, err := store.Do(ctx, c)
	switch {
	case err != nil:
		return o, err
	case errors.Is(outcomes[0].Err, core.ErrNoTask):
		return o, cli.Errorf(cli.Failed, "%v is no task that OTM knows", c.Task).Hint("otm list")
	case outcomes[0].Err != nil:
		return o, cli.Errorf(cli.Failed, "%w", outcomes[0].Err).Hint("otm show %v", c.Task)
	}
	return outcomes[0], nil
}
