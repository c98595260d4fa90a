package dispatch

import (
	"context"
	"time"

	"otm/core"
	"otm/pipeline"
)

// Outlooks apply the rules of waking outside of a pass, for views. They are for one
// view of a data directory.
type Outlooks struct {
	Dir    string
	Agents pipeline.Agents
	Store  core.Reader
	Now    time.Time
	Times  pipeline.Times
	Wait   time.Duration // the deadline for each touch of a workspace; zero: that of the dispatcher
}

// Outlook is when and why an agent is woken next.
type Outlook struct {
	Wake    *core.Wake // the last one, for any task; nil: there was none
	GivenUp bool       // too many runs ended without progress: it is only woken for a probe
	Running bool       // its process runs
	Took    bool       // it took a task since Wake
	Stuck   bool       // its process runs and takes nothing
	Due     time.Time  // when the dispatcher looks at it again at the latest; zero: when something happens
	Health  Health
}

// Of returns the outlook of an agent with its tasks on the board. The error is one of
// the store, or a *patience.SilentError if the agent's workspace does not answer.
func (o *Outlooks) Of(ctx context.Context, a *pipeline.Agent, tasks []*core.Task) (Outlook, error) {
	files := &workspaces{wait: o.Wait}
	s := &situation{agent: a, tasks: tasks, idle: files.idleSince(o.Agents, a), now: o.Now, times: o.Times}
	err := s.findGone(ctx, o.Store)
	if err != nil {
		return Outlook{}, err
	}
	pid, held := agentProcess(o.Dir, a.Name)
	s.running = held
	if s.state, err = o.Store.Agent(ctx, a.Name); err != nil {
		return Outlook{}, err
	}
	p := s.planWake()
	_, last := s.lastWake()
	return Outlook{
		Wake: last, GivenUp: p.action == leftAlone, Running: held, Took: last != nil && s.tookSince(last.AskedAt), Stuck: p.action == hangs,
		Due: p.due, Health: healthOf(s.state, held, pid),
	}, nil
}
