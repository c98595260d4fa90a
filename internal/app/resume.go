package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

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
	return agentPauseCommand(s, &cobra.Command{
		Use:   "resume [AGENT...]",
		Short: "Start agents again that are paused or left alone",
		Long: `End the pause of agents, or of all that are paused or left alone if none is
named, forget that their last runs ended without progress, end the wait of their tasks
for the next run, and have the dispatcher start them at once if they have work. Without this, OTM waits longer after each
such run, and after three in a row starts the agent for a probe only, every 30
minutes, until one succeeds or its configuration changes.`,
		Example: "  otm resume devdas\n  otm resume",
	}, resume)
}

// pauseCommand is otm pause.
func pauseCommand(s cli.Streams) *cobra.Command {
	var reason string
	c := agentPauseCommand(s, &cobra.Command{
		Use:   "pause [AGENT...]",
		Short: "Neither start agents nor give them tasks, until otm resume",
		Long: `Pause agents, or all if none is named: OTM does not start or wake them, and otm
next answers "paused". What runs goes on; its reports count. Tasks are still
assigned to a paused agent and wait for it.`,
		Example: "  otm pause devdas --reason 'its key is being changed'\n  otm pause",
	}, func(ctx context.Context, h *Home, c core.Command, a *pipeline.Agent, _ bool) (steeredAgent, error) {
		return pause(ctx, h, c, a, reason)
	})
	c.PreRunE = func(*cobra.Command, []string) (err error) {
		reason, err = pauseReason(reason)
		return err
	}
	c.Flags().StringVar(&reason, "reason", "", "why; otm next tells the agent")
	return c
}

// pauseReason checks why an agent is to be paused: otm next prints it in a line.
func pauseReason(reason string) (string, error) {
	switch reason = strings.TrimSpace(reason); {
	case reason == "":
		return "", nil
	case strings.ContainsFunc(reason, unicode.IsControl):
		return "", cli.Errorf(cli.Usage, "the reason is no single line of text").Hint("otm pause --reason 'one line'")
	}
	return reason, checkReason(reason)
}

// steeredAgent is the result of otm pause or otm resume for one agent.
type steeredAgent struct {
	Agent   string `json:"agent"`
	Paused  bool   `json:"paused"`  // by a person, as it is now
	Changed bool   `json:"changed"` // by this command
	Text    string `json:"text"`

	outcome core.Outcome
}

// agentPauseCommand makes c a command that calls do for each agent that is named, or else
// for all AI agents. named tells do which.
func agentPauseCommand(s cli.Streams, c *cobra.Command, do func(ctx context.Context, h *Home, c core.Command, a *pipeline.Agent, named bool) (steeredAgent, error)) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	forPeople(c, s, func(ctx context.Context, h *Home, as *acting, names []string) error {
		agents, by, err := as.agents(names)
		if err != nil {
			return err
		}
		results := []steeredAgent{}
		for _, a := range agents {
			r, err := do(ctx, h, core.Command{By: by}, a, len(names) > 0)
			if err != nil {
				return err
			}
			r.Agent = a.Name
			results = append(results, r)
			if !h.asJSON {
				fmt.Fprintf(h.Out, "%s: %s\n", safe.Escape(r.Agent), safe.Escape(r.Text))
			}
		}
		if err := h.answer(results, printed); err != nil {
			return err
		}
		return slacklist.TouchChanged(h.Dir)
	})
	jsonFlag(c, "print the result for each agent as one JSON array")
	return c
}

// agents returns the named agents, or else all AI agents, and who pauses or resumes them. A
// reviewer does not pause or resume itself.
func (as *acting) agents(names []string) (agents []*pipeline.Agent, by core.Actor, err error) {
	if by, err = as.actor(); err != nil {
		return nil, by, err
	}
	own := func(a *pipeline.Agent) bool { return by.Kind == core.Reviewer && a.Name == by.Name }
	for _, name := range names {
		a, err := aiAgent(as.h, name, as.c.CommandPath())
		if err == nil && own(a) {
			err = cli.Errorf(cli.Usage, "%s is for others: this is the shell of agent %s", as.c.CommandPath(), by.Name)
		}
		if err != nil {
			return nil, by, err
		}
		agents = append(agents, a)
	}
	all := as.h.Agents()
	for i := range all {
		if a := &all[i]; len(names) == 0 && !a.Person && !own(a) {
			agents = append(agents, a)
		}
	}
	if len(agents) == 0 {
		as.h.Note("no AI agents are configured")
	}
	return agents, by, nil
}

// stateOfAgent opens the store, and reads the state of an agent.
func stateOfAgent(ctx context.Context, h *Home, a *pipeline.Agent) (core.Store, *core.AgentState, error) {
	store, err := h.OpenStore(ctx)
	if err != nil {
		return nil, nil, err
	}
	state, err := store.Agent(ctx, a.Name)
	return store, state, err
}

// pause pauses an agent, and returns a text about runs that go on. It sets the time and the
// action of the command.
func pause(ctx context.Context, h *Home, c core.Command, a *pipeline.Agent, reason string) (r steeredAgent, err error) {
	store, was, err := stateOfAgent(ctx, h, a)
	if err != nil {
		return r, err
	}
	c.At, c.Agent, c.Do = h.Now(), a.Name, core.PauseAgent{Reason: reason}
	o, err := core.DoOne(ctx, store, c)
	if err != nil {
		return r, err
	}
	r = steeredAgent{outcome: o, Paused: true, Changed: len(o.Events) > 0, Text: "paused until otm resume " + safe.Quote(a.Name)}
	switch p := was.Paused; {
	case p != nil && r.Changed:
		r.Text = fmt.Sprintf("is paused already, by %s since %s; the reason is new", p.By, explain.Time(p.At))
	case p != nil:
		r.Text = fmt.Sprintf("is paused already, by %s since %s; nothing changed", p.By, explain.Time(p.At))
	}
	if is, err := dispatch.AgentHealth(ctx, store, h.Dir, a); err == nil && is.Running {
		r.Text += fmt.Sprintf("; its process, pid %d, goes on: %s ends it", is.PID, endOf(ctx, store, a, is))
	}
	return r, nil
}

// endOf is the command that ends the process of an agent. otm stop does if the agent is at
// work on a task.
func endOf(ctx context.Context, store core.Reader, a *pipeline.Agent, is dispatch.Health) string {
	tasks, err := store.Tasks(ctx, core.Filter{Live: true, Agent: a.Name})
	if i := slices.IndexFunc(tasks, (*core.Task).AtWork); err == nil && i >= 0 && !is.Stray {
		return "otm stop " + tasks[i].ID.String()
	}
	return is.End()
}

// resume ends the pause of an agent, forgets its failures and has the dispatcher look at it.
// It leaves an agent alone that was not named and that nothing holds up.
func resume(ctx context.Context, h *Home, c core.Command, a *pipeline.Agent, named bool) (r steeredAgent, err error) {
	store, was, err := stateOfAgent(ctx, h, a)
	if err != nil {
		return r, err
	}
	tasks, err := store.Tasks(ctx, core.Filter{Live: true, Agent: a.Name})
	if err != nil {
		return r, err
	}
	var waiting []pipeline.TaskID
	for _, t := range tasks {
		if t.Wait.BacksOff(h.Now()) {
			waiting = append(waiting, t.ID)
		}
	}
	if !named && was.Paused == nil && was.Fruitless == 0 && was.Refusals == 0 && len(waiting) == 0 {
		return steeredAgent{Text: "is not paused; nothing changed"}, nil
	}
	c.At, c.Agent, c.Also, c.Do = h.Now(), a.Name, waiting, core.ResumeAgent{}
	o, err := core.DoOne(ctx, store, c)
	if err != nil {
		return r, err
	}
	next := "the dispatcher starts it now if it has work"
	is, err := dispatch.AgentHealth(ctx, store, h.Dir, a)
	switch {
	case err == nil && is.Running:
		f := explain.New(explain.AgentRuns, "agent", a.Name, "pid", is.PID, "since", is.Started, "end", endOf(ctx, store, a, is))
		next = explain.Line(&f, h.Now())
	case a.Trigger == pipeline.TriggerNone && was.Paused != nil:
		next = "otm next gives it tasks again"
	case a.Trigger == pipeline.TriggerNone:
		next = "OTM does not start it: it looks by itself"
	case !isResident(h, heartbeat.Dispatcher):
		next = "no dispatcher is running; the next one starts it if it has work"
	}
	if len(waiting) > 0 {
		next = explain.Count(len(waiting), "task of it need", "tasks of it need") + " not wait for the next run; " + next
	}
	return steeredAgent{outcome: o, Changed: true, Text: heldUp(was, h.Now()) + "; " + next}, nil
}

// heldUp says what kept an agent from being started.
func heldUp(was *core.AgentState, now time.Time) string {
	switch {
	case was.Paused != nil:
		return fmt.Sprintf("was paused by %s since %s", was.Paused.By, explain.Time(was.Paused.At))
	case !was.LeftAlone.IsZero():
		return fmt.Sprintf("was left alone since %s after %d runs without progress", explain.Time(was.LeftAlone), was.Failures)
	case was.NextStart.After(now):
		return "was to be started again at " + explain.Time(was.NextStart)
	}
	return "was not paused"
}
