package outbox

import (
	"slices"
	"time"

	"otm/core"
	"otm/internal/explain"
)

// How long an effect may wait before people are told.
const (
	failsFor = time.Minute     // one whose tries fail
	waitsFor = 5 * time.Minute // one that nobody tries
)

// Finding says of an undelivered effect since when it is, and why.
func Finding(p core.Pending) explain.Finding {
	if p.Error == "" {
		return explain.New(explain.EffectWaits, "sink", names[p.Sink], "since", p.Since).On(p.Task)
	}
	return explain.New(explain.EffectFails, "sink", names[p.Sink], "since", p.Since, "tries", p.Tries, "code", p.Code, "error", p.Error).On(p.Task)
}

// IsLate reports whether an effect has waited too long.
func IsLate(p core.Pending, now time.Time) bool {
	limit := failsFor
	if p.Error == "" {
		limit = waitsFor
	}
	return now.Sub(p.Since) >= limit
}

// Late returns findings about the effects that have waited too long. Those of one sink
// that fail with the same code make one finding, which tells of the oldest.
func Late(pending []core.Pending, now time.Time) []explain.Finding {
	type kind struct {
		sink  core.Sink
		fails bool
		code  string
	}
	var kinds []kind
	late := map[kind][]core.Pending{}
	for _, p := range pending {
		if !IsLate(p, now) {
			continue
		}
		k := kind{p.Sink, p.Error != "", p.Code}
		if late[k] == nil {
			kinds = append(kinds, k)
		}
		late[k] = append(late[k], p)
	}
	var found []explain.Finding
	for _, k := range kinds {
		oldest := slices.MinFunc(late[k], func(a, b core.Pending) int { return a.Since.Compare(b.Since) })
		n := len(late[k])
		switch {
		case n == 1:
			found = append(found, Finding(oldest))
		case k.fails:
			found = append(found, explain.New(explain.EffectsFail, "sink", names[k.sink], "n", n, "since", oldest.Since, "code", k.code, "error", oldest.Error))
		default:
			found = append(found, explain.New(explain.EffectsWait, "sink", names[k.sink], "n", n, "since", oldest.Since))
		}
	}
	return found
}
