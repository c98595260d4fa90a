package dispatch

import (
	"slices"
	"time"

	"otm/pipeline"
)

// holders remembers, for each agent, the tasks whose records hold its recent
// wakes. A wake counts until it ends, also if its task leaves the board or its
// agent.
type holders struct {
	byAgent map[string]map[pipeline.TaskID]bool // nil: the records were not read yet
}

// wakeMemory is how long a wake is remembered without its row: longer than any wait
// that depends on it.
const wakeMemory = 24 * time.Hour

func (h *holders) add(agent string, id pipeline.TaskID) {
	name := pipeline.FoldName(agent)
	if h.byAgent[name] == nil {
		h.byAgent[name] = map[pipeline.TaskID]bool{}
	}
	h.byAgent[name][id] = true
}

// others returns the records that hold recent wakes of an agent, without those of
// its own tasks. The first call reads all records.
func (h *holders) others(records pipeline.Records, agent string, own map[pipeline.TaskID]bool, now time.Time) ([]*pipeline.Record, error) {
	if h.byAgent == nil {
		if err := h.fill(records, now); err != nil {
			return nil, err
		}
	}
	mine := h.byAgent[pipeline.FoldName(agent)]
	var list []*pipeline.Record
	for id := range mine {
		if own[id] {
			continue
		}
		r, err := records.Load(id)
		if err != nil || !slices.ContainsFunc(r.Wakes, func(w pipeline.Wake) bool { return sameAgent(w.Agent, agent) && isRecent(&w, now) }) {
			delete(mine, id)
			continue
		}
		list = append(list, r)
	}
	return list, nil
}

func (h *holders) fill(records pipeline.Records, now time.Time) error {
	ids, err := records.IDs()
	if err != nil {
		return err
	}
	h.byAgent = map[string]map[pipeline.TaskID]bool{}
	for _, id := range ids {
		r, err := records.Load(id)
		if err != nil {
			continue // an unreadable record must not block the others
		}
		for i := range r.Wakes {
			if isRecent(&r.Wakes[i], now) {
				h.add(r.Wakes[i].Agent, id)
			}
		}
	}
	return nil
}

func isRecent(w *pipeline.Wake, now time.Time) bool { return !reached(w.AskedAt, wakeMemory, now) }
