package app

import (
	"errors"
	"io/fs"
	"time"

	"otm/dispatch"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// waitingReport is an update that waits in the inbox.
type waitingReport struct {
	*drop.Update
	at time.Time // when it was dropped
}

// waitingReports reads the updates in the inbox, in the order of their names, and
// passes over what is no update. The error is about files that could not be read.
func waitingReports(box *inbox.Box) (all []waitingReport, err error) {
	files, err := box.List(inbox.TaskUpdates)
	if err != nil {
		return nil, err
	}
	var unread []error
	for _, f := range files {
		if !f.Regular() {
			continue
		}
		data, _, err := box.Read(f)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) { // else it was settled meanwhile
				unread = append(unread, err)
			}
			continue
		}
		if u, err := drop.ParseUpdate(data); err == nil {
			all = append(all, waitingReport{u, f.Dropped()})
		}
	}
	return all, errors.Join(unread...)
}

// oldestReports returns when the oldest waiting report on each task was dropped. A
// file that cannot be read holds up no judgement.
func oldestReports(box *inbox.Box) map[pipeline.TaskID]time.Time {
	oldest := map[pipeline.TaskID]time.Time{}
	reports, _ := waitingReports(box)
	for _, r := range reports {
		if at, ok := oldest[r.TaskID]; !ok || r.at.Before(at) {
			oldest[r.TaskID] = r.at
		}
	}
	return oldest
}

// saidInInbox returns what the waiting reports say about each task.
func saidInInbox(box *inbox.Box) (map[pipeline.TaskID][]dispatch.Said, error) {
	reports, err := waitingReports(box)
	said := map[pipeline.TaskID][]dispatch.Said{}
	for _, r := range reports {
		said[r.TaskID] = append(said[r.TaskID], dispatch.Said{Status: r.Status, Steps: r.StepsDone})
	}
	return said, err
}
