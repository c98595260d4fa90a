package dispatch

import (
	"time"

	"otm/internal/lock"
	"otm/pipeline"
)

// Outlook is what the rules of waking make of an agent for which tasks wait.
type Outlook struct {
	Why     string    // for people
	Due     time.Time // when it is looked at again, where that is waited for; else zero
	Wakes   int       // since the first of the tasks was handed out, in vain
	GivenUp bool      // woken often enough: it is not woken again for them
	Running bool      // its process lives
	Stuck   bool      // its process lives, and takes nothing
}

// OutlookOf is the outlook of an agent by the records of its tasks on the
// board.
func OutlookOf(dir string, a *pipeline.Agent, records []*pipeline.Record, now time.Time, times Times) Outlook {
	s := &situation{agent: a, records: records, now: now, times: times}
	_, s.running = lock.Holder(execLock(dir, a.Name))
	p := s.planWake()
	return Outlook{
		Why: p.why, Due: p.due, Wakes: s.wakesInVain(p), GivenUp: p.action == giveUp, Running: s.running, Stuck: p.action == stuck,
	}
}
