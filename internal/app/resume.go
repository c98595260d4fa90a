package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"otm/core"
	"otm/dispatch"
	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/slacklist"
)

// resumeCommand is otm resume.
func resumeCommand(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "resume AGENT...",
		Short: "Start agents again that are paused or left alone",
		Long: `End the pause of an agent, forget that its last runs ended without progress, and
have the dispatcher start it at once if it has work. Without this, OTM waits longer
after each such run, and after three in a row starts the agent for a probe only,
every 30 minutes, until one succeeds or its configuration changes.`,
		Example: "  otm resume devdas",
		Args: func(_ *cobra.Command, names []string) error {
			if len(names) == 0 {
				return cli.Errorf(cli.Usage, "no agent is named").Hint("otm resume devdas")
			}
			return nil
		},
	}
	forPeople(c, s, func(ctx context.Context, h *Home, as *acting, names []string) error {
		agents, by, err := as.agents(names)
		if err != nil {
			return err
		}
		return resume(ctx, h, by, agents)
	})
	return c
}

// pauseCommand is otm pause.
func pauseCommand(s cli.Streams) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "pause [AGENT...]",
		Short: "Neither start agents nor give them tasks, until otm resume",
		Long: `Pause agents, or all if none is named: OTM does not start or wake them, and otm
next answers "paused". What runs goes on; its reports count. Tasks are still handed
out to a paused agent and wait for it.`,
		Example: "  otm pause devdas --reason 'its key is being changed'\n  otm pause",
	}
	forPeople(c, s, func(ctx context.Context, h *Home, as *acting, names []string) error {
		if len(names) == 0 {
			for i := range h.Config.Agents {
				if a := &h.Config.Agents[i]; !a.Person {
					names = append(names, a.Name)
				}
			}
		}
		agents, by, err := as.agents(names)
		if err != nil {
			return err
		}
		return pause(ctx, h, by, agents, strings.TrimSpace(reason))
	})
	c.Args = cobra.ArbitraryArgs
	c.Flags().StringVar(&reason, "reason", "", "why; otm next tells the agent")
	return c
}

// agents finds agents by their names, and who pauses or resumes them. An agent does not do
// it to itself.
func (as *acting) agents(names []string) (agents []*pipeline.Agent, by core.Actor, err error) {
	if by, err = as.actor(); err != nil {
		return nil, by, err
	}
	for _, name := range names {
		a, err := aiAgent(as.h, name, as.c.CommandPath())
		if err == nil && by.Kind == core.Reviewer && a.Name == by.Name {
			err = cli.Errorf(cli.Usage, "%s is for others: this is the shell of agent %s", as.c.CommandPath(), by.Name)
		}
		if err != nil {
			return nil, by, err
		}
		agents = append(agents, a)
	}
	return agents, by, nil
}

// pause pauses agents, and says what still runs.
func pause(ctx context.Context, h *Home, by core.Actor, agents []*pipeline.Agent, reason string) error {
	store, err := h.OpenStore(ctx)
	if err != nil {
		return err
	}
	for _, a := range agents {
		outcomes, err := store.Do(ctx, core.Command{At: h.Now(), By: by, Agent: a.Name, Do: core.PauseAgent{Reason: core.Excerpt(reason)}})
		if err == nil {
			err = outcomes[0].Err
		}
		if err != nil {
			return err
		}
		said := "paused until otm resume " + safe.Quote(a.Name)
		if is, err := dispatch.AgentHealth(ctx, store, h.Dir, a); err == nil && is.Running {
			said += fmt.Sprintf("; its process, pid %d, goes on: kill -- -%d ends it", is.PID, is.PID)
		}
		fmt.Fprintf(h.Out, "%s: %s\n", safe.Escape(a.Name), safe.Escape(said))
	}
	return slacklist.TouchChanged(h.Dir)
}

// resume forgets the failures of agents and has the dispatcher look at them.
func resume(ctx context.Context, h *Home, by core.Actor, agents []*pipeline.Agent) error {
	store, err := h.OpenStore(ctx)
	if err != nil {
		return err
	}
	for _, a := range agents {
		was, err := store.Agent(ctx, a.Name)
		if err != nil {
			return err
		}
		if _, err := store.Do(ctx, core.Command{At: h.Now(), By: by, Agent: a.Name, Do: core.ResumeAgent{}}); err != nil {
			return err
		}
		said := resumed(a, was, h.residents().running(heartbeat.Dispatcher))
		if is, err := dispatch.AgentHealth(ctx, store, h.Dir, a); err == nil && is.Running {
			f := explain.New(explain.AgentRuns, "agent", a.Name, "pid", is.PID, "since", is.Started)
			said = explain.Line(&f, h.Now())
		}
		fmt.Fprintf(h.Out, "%s: %s\n", safe.Escape(a.Name), safe.Escape(said))
	}
	return slacklist.TouchChanged(h.Dir)
}

// resumed says what follows for a resumed agent. dispatcher reports whether one runs.
func resumed(a *pipeline.Agent, was *core.AgentState, dispatcher bool) string {
	next := "the dispatcher starts it now if it has work"
	if !dispatcher {
		next = "no dispatcher is running; the next one starts it if it has work"
	}
	switch {
	case a.Trigger == pipeline.TriggerNone && was.Paused != nil:
		return "was paused; otm next gives it tasks again"
	case a.Trigger == pipeline.TriggerNone:
		return "OTM does not start it: it looks by itself"
	case was.Paused != nil:
		return fmt.Sprintf("was paused since %s; %s", was.Paused.At.Local().Format(time.DateTime), next)
	case !was.LeftAlone.IsZero():
		return fmt.Sprintf("was left alone since %s after %d runs without progress; %s", was.LeftAlone.Local().Format(time.DateTime), was.Failures, next)
	case was.Fruitless > 0:
		return fmt.Sprintf("was to be started again at %s; %s", was.NextStart.Local().Format(time.DateTime), next)
	}
	return "was not paused; " + next
}
