package outbox

import (
	"time"

	"otm/core"
	"otm/internal/explain"
)

// How long an effect may wait before people are told.
const (
	failsFor = time.Minute     // one whose tries fail
	waitsFor = 5 * time.Minute // one that nobody tries
)

// Late returns findings about the effects that have waited too long.
func Late(pending []core.Pending, now time.Time) []explain.Finding {
	var late []explain.Finding
	for _, p := range pending {
		age := now.Sub(p.Since)
		switch {
		case p.Error != "" && age >= failsFor:
			late = append(late, explain.New(explain.EffectFails, "sink", names[p.Sink], "since", p.Since, "tries", p.Tries, "code", p.Code, "error", p.Error).On(p.Task))
		case p.Error == "" && age >= waitsFor:
			late = append(late, explain.New(explain.EffectWaits, "sink", names[p.Sink], "since", p.Since).On(p.Task))
		}
	}
	return late
}
