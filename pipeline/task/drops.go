package task

import (
	"path/filepath"

	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// Drops returns what the create of each task asked for, if it is found. It reads
// all creates and is for when records are lost.
func (s *Store) Drops() (map[pipeline.TaskID]pipeline.Dropped, error) {
	all := map[pipeline.TaskID]pipeline.Dropped{}
	ranks := map[pipeline.TaskID]int{}
	for i, dir := range []string{"failed", "new-tasks", "processed"} { // what took effect says most
		err := inbox.EachDrop(filepath.Join(s.dir, dir), func(o *drop.Object) {
			c, err := drop.ParseCreate(o.Bytes())
			if err != nil {
				return // an update, or no drop
			}
			d := all[c.Task.ID]
			d.Waiting = d.Waiting || dir == "new-tasks"
			rank := 2*i + 1
			if o.Get("_skipped_duplicate") == nil {
				rank++
			}
			if rank > ranks[c.Task.ID] {
				d.Steps, ranks[c.Task.ID] = c.Task.Steps, rank
			}
			all[c.Task.ID] = d
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
