package inject

import (
	"encoding/json"
	"fmt"
	"slices"

	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// settledDrop is a create that stands in processed/. Of one with a UUID in its
// name, which is the id of the drop, task is 0 until the file was read.
type settledDrop struct {
	name string
	task pipeline.TaskID
}

// wasProcessed tells whether a drop stands in processed/, for the task that it
// asks for. It is asked where the record does not know the drop, as after a
// restore from an old backup: there it keeps a drop from being put on the board
// once more.
func (in *Injector) wasProcessed(c *drop.Create) bool {
	return slices.Contains(in.tasksOf(c.ID), c.Task.ID)
}

// madeAs returns another task as which this drop stands in processed/; 0 for
// none. Ids of foreign drops may be as simple as "1", and say nothing.
func (in *Injector) madeAs(c *drop.Create) pipeline.TaskID {
	tasks := in.tasksOf(c.ID)
	if len(tasks) == 0 || slices.Contains(tasks, c.Task.ID) || pipeline.DropIDInName(c.ID+".json") == "" {
		return 0
	}
	return tasks[0]
}

// readProcessed reads the names in processed/, once. Our own drops are known by
// them; of others the file is read.
func (in *Injector) readProcessed() error {
	if in.processed != nil {
		return nil
	}
	names, err := in.Box.SettledNames(inbox.ProcessedDir)
	if err != nil {
		return fmt.Errorf("look for what was processed: %w", err)
	}
	in.processed = make(map[string][]settledDrop, len(names))
	for _, name := range names {
		if id := pipeline.DropIDInName(name); id != "" {
			in.processed[id] = append(in.processed[id], settledDrop{name: name})
		} else if id, task := in.readSettled(name); task != 0 {
			in.processed[id] = append(in.processed[id], settledDrop{name, task})
		}
	}
	return nil
}

// tasksOf lists the tasks as which a drop was processed. A file of ours is read
// when a drop of its id comes again.
func (in *Injector) tasksOf(id string) []pipeline.TaskID {
	var tasks []pipeline.TaskID
	all := in.processed[id]
	for i := range all {
		if all[i].task == 0 {
			if read, task := in.readSettled(all[i].name); read == id {
				all[i].task = task
			}
		}
		if all[i].task != 0 {
			tasks = append(tasks, all[i].task)
		}
	}
	return tasks
}

// readSettled reads of which drop and task a processed file is; no task where
// that is not known.
func (in *Injector) readSettled(name string) (id string, task pipeline.TaskID) {
	settled, err := in.Box.ReadSettled(inbox.ProcessedDir, name)
	if err != nil || settled.Object == nil || settled.Result.Inbox != inbox.NewTasks {
		return "", 0
	}
	if settled.Object.Get("id") == nil {
		return pipeline.DropIDInName(name), settled.TaskID()
	}
	if json.Unmarshal(settled.Object.Get("id"), &id) != nil || id == "" {
		return "", 0
	}
	return id, settled.TaskID()
}

func (in *Injector) noteProcessed(c *drop.Create) {
	if in.processed != nil {
		in.processed[c.ID] = append(in.processed[c.ID], settledDrop{task: c.Task.ID})
	}
}
