package inject

import (
	"encoding/json"

	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// settledDrop is a create that stands in processed/. Task is 0 where the id of
// the drop is a UUID in its name, which says enough; ids of foreign drops may
// be as simple as "1".
type settledDrop struct {
	drop string
	task pipeline.TaskID
}

// wasProcessed tells whether a drop stands in processed/. It is asked where
// the record does not know the drop, as after a restore from an old backup:
// there it keeps a drop from being put on the board once more.
//
// The ids are read once. Our own drops are known by their names; of others the
// file is read.
func (in *Injector) wasProcessed(c *drop.Create) bool {
	if in.processed == nil {
		names, err := in.Box.SettledNames(inbox.ProcessedDir)
		if err != nil {
			in.Log.Warn("processed drops not readable", "err", err)
		}
		in.processed = make(map[settledDrop]bool, len(names))
		for _, name := range names {
			if id := pipeline.DropIDInName(name); id != "" {
				in.processed[settledDrop{drop: id}] = true
			} else if s, ok := in.readSettled(name); ok {
				in.processed[s] = true
			}
		}
	}
	return in.processed[settledDrop{drop: c.ID}] || in.processed[settledDrop{c.ID, c.Task.ID}]
}

func (in *Injector) readSettled(name string) (s settledDrop, ok bool) {
	settled, err := in.Box.ReadSettled(inbox.ProcessedDir, name)
	if err != nil || settled.Object == nil {
		return s, false
	}
	err = json.Unmarshal(settled.Object.Get("id"), &s.drop)
	if err == nil {
		err = json.Unmarshal(settled.Object.Get("taskId"), &s.task)
	}
	return s, err == nil && s.drop != "" && s.task != 0
}

func (in *Injector) noteProcessed(c *drop.Create) {
	if in.processed != nil {
		in.processed[settledDrop{c.ID, c.Task.ID}] = true
	}
}
