package dispatch

import (
	"time"

	"otm/pipeline"
)

// Outlooks apply the rules of waking outside of a pass, for views. They are for one
// view of a data directory.
type Outlooks struct {
	Dir     string
	Agents  pipeline.Agents
	Records pipeline.Records
	Now     time.Time
	Times   pipeline.Times
	Wait    time.Duration // the deadline for each touch of a workspace; zero: that of the dispatcher

	holders holders
}

// Outlook is when and why an agent is woken next.
type Outlook struct {
	Wake    *pipeline.Wake // the last one, for any task; nil: there was none
	GivenUp bool           // too many runs ended without progress: it is only woken for a probe
	Running bool           // its process runs
	Took    bool           // it took a task since Wake
	Stuck   bool           // its process runs and takes nothing
	Due     time.Time      // when the dispatcher looks at it again at the latest; zero: when something happens
	Health  Health
}

// Of returns the outlook of an agent with its tasks on the board. The error is one
// of reading the records or the agent's state, or a *patience.SilentError if the
// agent's workspace does not answer.
func (o *Outlooks) Of(a *pipeline.Agent, tasks []*pipeline.Record) (Outlook, error) {
	own := map[pipeline.TaskID]bool{}
	for _, r := range tasks {
		own[r.TaskID] = true
	}
	gone, err := o.holders.others(o.Records, a.Name, own, o.Now)
	if err != nil {
		return Outlook{}, err
	}
	files := &workspaces{wait: o.Wait}
	s := &situation{agent: a, records: tasks, gone: gone, idle: files.idleSince(o.Agents, a), now: o.Now, times: o.Times}
	pid, held := agentProcess(o.Dir, a.Name)
	s.running = held
	if s.state, err = LoadAgentState(o.Dir, a.Name); err != nil {
		return Outlook{}, err
	}
	p := s.planWake()
	_, last := s.lastWake()
	return Outlook{
		Wake: last, GivenUp: p.action == leftAlone, Running: held, Took: last != nil && s.tookSince(last.AskedAt), Stuck: p.action == hangs,
		Due: p.due, Health: s.state.health(held, pid),
	}, nil
}
