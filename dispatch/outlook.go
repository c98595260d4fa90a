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
}

// Outlook is what they make of one.
type Outlook struct {
	Wake    *pipeline.Wake // the last one, for whichever task; nil: there was none
	Wakes   int            // since the first of the tasks that wait was handed out, in vain
	GivenUp bool           // woken often enough: it is not woken again for them
	Running bool           // its process lives
	Stuck   bool           // its process lives, and takes nothing
	Due     time.Time      // when it is woken again at the earliest; zero: at the next pass, or not at all
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
	s := &situation{agent: a, records: tasks, gone: gone, idle: idleSince(o.Agents, a), now: o.Now, times: o.Times}
	_, s.running = lock.Holder(execLock(o.Dir, a.Name))
	p := s.planWake()
	_, last := s.lastWake()
	return Outlook{Wake: last, Wakes: s.wakesInVain(p), GivenUp: p.action == giveUp, Running: s.running, Stuck: p.action == stuck, Due: p.due}, nil
}
