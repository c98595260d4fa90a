package inbox

import (
	"errors"
	"io/fs"
	"path/filepath"

	"otm/pipeline"
	"otm/pipeline/drop"
)

// EachDrop visits the drops in a directory, settled or not. It skips other files,
// and those that we may not read.
func EachDrop(dir string, visit func(*drop.Object)) error {
	entries, err := deliveredIn(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		data, _, err := loadForeign(filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if o, err := drop.ParseGrown(data); err == nil {
			visit(o)
		}
	}
	return nil
}

// Drops returns the creates of the tasks of a data directory, as far as they are found.
// It reads all creates and is for when tasks are lost.
func Drops(dir string) (map[pipeline.TaskID]pipeline.Dropped, error) {
	all := map[pipeline.TaskID]pipeline.Dropped{}
	for _, folder := range []string{FailedDir, string(NewTasks), ProcessedDir} { // what took effect says most
		err := EachDrop(filepath.Join(dir, folder), func(o *drop.Object) {
			c, err := drop.ParseCreate(o.Bytes())
			if err != nil {
				return // an update, or no drop
			}
			d := all[c.Task.ID]
			d.Waiting = d.Waiting || folder == string(NewTasks)
			if d.Steps == nil || o.Get(skippedKey) == nil {
				d.Steps = c.Task.Steps
			}
			all[c.Task.ID] = d
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
