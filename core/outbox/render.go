package outbox

import (
	"context"

	"otm/core"
	"otm/pipeline"
	"otm/pipeline/rendering"
)

// Render is the sink of the renderings, tasks/T-00035.json.
type Render struct {
	Dir   string // the data directory
	Store core.Reader
}

// Deliver implements Deliverer. The files are not synced, see package rendering.
func (r *Render) Deliver(ctx context.Context, effects []core.Pending) []Result {
	results := make([]Result, len(effects))
	ids := make([]pipeline.TaskID, len(effects))
	for i, p := range effects {
		ids[i] = p.Task
	}
	tasks, err := r.Store.Tasks(ctx, core.Filter{IDs: ids})
	byID := map[pipeline.TaskID]*core.Task{}
	for _, t := range tasks {
		byID[t.ID] = t
	}
	for i, p := range effects {
		results[i].Err = err
		if t := byID[p.Task]; err == nil && t != nil {
			results[i].Err = rendering.Write(r.Dir, t.Rendering())
		}
	}
	return results
}
