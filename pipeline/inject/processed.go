package inject

import (
	"encoding/json"
	"fmt"
	"slices"

	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// processed knows the creates in processed/ by the ids of their drops. It is
// asked where the store does not know a drop, as after a restore from an old
// backup: it keeps the drop from being put on the board once more.
type processed struct {
	box  *inbox.Box
	byID map[string][]settledDrop // nil: not read yet
}

// settledDrop is a create in processed/. Of one with a UUID in its name, which
// is the id of the drop, task is 0 until the file was read.
type settledDrop struct {
	name string
	task pipeline.TaskID
}

// has reports whether a drop stands in processed/ for the task that it asks for.
func (p *processed) has(c *drop.Create) bool { return slices.Contains(p.tasksOf(c.ID), c.Task.ID) }

// madeAs returns another task as which this drop stands in processed/; 0 for
// none. Ids of foreign drops may be as simple as "1", and say nothing.
func (p *processed) madeAs(c *drop.Create) pipeline.TaskID {
	tasks := p.tasksOf(c.ID)
	if len(tasks) == 0 || slices.Contains(tasks, c.Task.ID) || pipeline.DropIDInName(c.ID+".json") == "" {
		return 0
	}
	return tasks[0]
}

// read reads the names in processed/, once. Our own drops are known by them; of
// others the file is read.
func (p *processed) read(box *inbox.Box) error {
	if p.byID != nil {
		return nil
	}
	names, err := box.SettledNames(inbox.ProcessedDir)
	if err != nil {
		return fmt.Errorf("look for what was processed: %w", err)
	}
	p.box, p.byID = box, make(map[string][]settledDrop, len(names))
	for _, name := range names {
		if id := pipeline.DropIDInName(name); id != "" {
			p.byID[id] = append(p.byID[id], settledDrop{name: name})
		} else if id, task := p.readSettled(name); task != 0 {
			p.byID[id] = append(p.byID[id], settledDrop{name, task})
		}
	}
	return nil
}

// note adds a drop that is about to settle.
func (p *processed) note(dropID string, id pipeline.TaskID) {
	if p.byID != nil {
		p.byID[dropID] = append(p.byID[dropID], settledDrop{task: id})
	}
}

// tasksOf lists the tasks as which a drop was processed. A file of ours is read
// when a drop of its id comes again.
func (p *processed) tasksOf(id string) []pipeline.TaskID {
	var tasks []pipeline.TaskID
	all := p.byID[id]
	for i := range all {
		if all[i].task == 0 {
			if read, task := p.readSettled(all[i].name); read == id {
				all[i].task = task
			}
		}
		if all[i].task != 0 {
			tasks = append(tasks, all[i].task)
		}
	}
	return tasks
}

// readSettled reads the ids of drop and task of a processed file; task 0 if they
// are not known.
func (p *processed) readSettled(name string) (id string, task pipeline.TaskID) {
	settled, err := p.box.ReadSettled(inbox.ProcessedDir, name)
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
