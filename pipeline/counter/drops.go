package counter

import (
	"encoding/json"
	"path/filepath"

	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// UsedIDs reads all ids that files use: those of tasks, creates, and keys of otm-create. (Only a
// key may hold the id of a drop that is not delivered yet.) Updates do not count: a report on a task that does not exist must not use up an
// id.
func (d *Dir) UsedIDs() ([]pipeline.TaskID, error) {
	used, err := d.IDs()
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{string(inbox.NewTasks), inbox.ProcessedDir, inbox.FailedDir, "keys"} {
		settled := dir == inbox.ProcessedDir || dir == inbox.FailedDir
		err := inbox.EachDrop(filepath.Join(d.dir, dir), func(o *drop.Object) {
			if !settled || o.Get("title") != nil { // else it is an update
				used = append(used, taskIDOf(o))
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return used, nil
}

// InInbox reports whether a create for id waits in the inbox.
func (d *Dir) InInbox(id pipeline.TaskID) (bool, error) {
	found := false
	err := inbox.EachDrop(filepath.Join(d.dir, string(inbox.NewTasks)), func(o *drop.Object) {
		found = found || taskIDOf(o) == id
	})
	return found, err
}

// taskIDOf reads the taskId of a drop; 0 if there is no valid one.
func taskIDOf(o *drop.Object) pipeline.TaskID {
	var text string
	if json.Unmarshal(o.Get("taskId"), &text) != nil {
		return 0
	}
	id, err := pipeline.ParseFileID(text)
	if err != nil {
		return 0
	}
	return id
}
