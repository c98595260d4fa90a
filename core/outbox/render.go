package outbox

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"otm/core"
	"otm/internal/durable"
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
	tasks, err := r.Store.Tasks(ctx, core.Filter{IDs: core.TasksOf(effects)})
	byID := core.ByID(tasks)
	for i, p := range effects {
		results[i].Err = err
		if t := byID[p.Task]; err == nil && t != nil {
			results[i].Err = rendering.Write(r.Dir, t.Rendering())
		}
	}
	return results
}

// Restore writes missing renderings of tasks that are not over: somebody deleted them. It
// reads the directory once.
func (r *Render) Restore(ctx context.Context) error {
	entries, err := durable.ReadDir(filepath.Dir(rendering.Path(r.Dir, 0)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	there := make(map[string]bool, len(entries))
	for _, e := range entries {
		there[e.Name()] = true
	}
	tasks, err := r.Store.Tasks(ctx, core.Filter{Live: true})
	for _, t := range tasks {
		if err == nil && !there[filepath.Base(rendering.Path(r.Dir, t.ID))] {
			err = rendering.WriteMissing(r.Dir, t.Rendering()) // another process may do so now, and know more
		}
	}
	return err
}
