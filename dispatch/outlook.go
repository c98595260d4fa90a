package dispatch

import (
	"time"

	"otm/internal/lock"
	"otm/pipeline"
)

// Outlooks tell what the rules of waking make of agents, to who makes no pass.
// They are for one look at a directory.
type Outlooks struct {
	Dir     string
	Agents  pipeline.Agents
	Records pipeline.Records
	Now     time.Time
	Times   pipeline.Times

	holders holders
	files   workspaces
}

// Outlook is what they make of one.
type Outlook struct {
	Wake    *pipeline.Wake // the last one, for whichever task; nil: there was none
	Wakes   int            // runs in a row that ended without progress
	GivenUp bool           // there were too many of them: it is only woken for a probe
	Running bool           // its process lives
	Stuck   bool           // its process lives, and takes nothing
	Due     time.Time      // when the dispatcher looks at it again at the latest; zero: when something happens
	Health  Health
}

// Of is the outlook of an agent with its tasks on the board. The error is one
// of reading the records.
func (o *Outlooks) Of(a *pipeline.Agent, tasks []*pipeline.Record) (Outlook, error) {
	own := map[pipeline.TaskID]bool{}
	for _, r := range tasks {
		own[r.TaskID] = true
	}
	gone, err := o.holders.others(o.Records, a.Name, own, o.Now)
	if err != nil {
		return Outlook{}, err
	}
	s := &situation{agent: a, records: tasks, gone: gone, idle: o.files.idleSince(o.Agents, a), now: o.Now, times: o.Times}
	pid, held := lock.Holder(execLock(o.Dir, a.Name))
	s.running = held
	if s.state, err = LoadAgentState(o.Dir, a.Name); err != nil {
		return Outlook{}, err
	}
	p := s.planWake()
	_, last := s.lastWake()
	health := s.state.health(held, pid)
	return Outlook{
		Wake: last, Wakes: s.state.Failures, GivenUp: p.action == leftAlone, Running: s.running, Stuck: p.action == hangs,
		Due: p.due, Health: health,
	}, nil
}
