package inject

import (
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// wasProcessed tells whether a drop with this id stands in processed/. It is
// asked where a task has neither record nor row, as after a restore from an
// old backup: there it keeps a drop from being put on the board once more.
//
// The ids are read once. Our own drops are known by their names; of others the
// file is read.
func (in *Injector) wasProcessed(dropID string) bool {
	if in.processed == nil {
		names, err := in.Box.SettledNames(inbox.ProcessedDir)
		if err != nil {
			in.Log.Warn("processed drops not readable", "err", err)
		}
		ids := make(map[string]bool, len(names))
		for _, name := range names {
			id := pipeline.DropIDInName(name)
			if id == "" {
				id = in.Box.SettledID(inbox.ProcessedDir, name)
			}
			ids[id] = true
		}
		delete(ids, "")
		in.processed = ids
	}
	return in.processed[dropID]
}

func (in *Injector) noteProcessed(dropID string) {
	if in.processed != nil {
		in.processed[dropID] = true
	}
}
