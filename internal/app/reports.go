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
	file inbox.File
	at   time.Time // when it was dropped
}

// waitingReports reads the updates in the inbox, in the order of their names, and
// passes over what is no update. unread says which files could not be read; err is
// about the inbox as a whole.
func waitingReports(box *inbox.Box, now time.Time) (all []waitingReport, unread []error, err error) {
	files, err := box.List(inbox.TaskUpdates)
	if err != nil {
		return nil, nil, err
	}
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
			all = append(all, waitingReport{u, f, f.Dropped(now)})
		}
	}
	return all, unread, nil
}

// oldestReports returns when the oldest waiting report on each task was dropped. A
// file that cannot be read holds up no judgement.
func oldestReports(box *inbox.Box, now time.Time) map[pipeline.TaskID]time.Time {
	oldest := map[pipeline.TaskID]time.Time{}
	reports, _, _ := waitingReports(box, now)
	for _, r := range reports {
		if at, ok := oldest[r.TaskID]; !ok || r.at.Before(at) {
			oldest[r.TaskID] = r.at
		}
	}
	return oldest
}

// saidInInbox returns what the waiting reports say about each task. A file that
// cannot be read is passed over with a warning: it is rarely the caller's own.
func saidInInbox(h *Home) (map[pipeline.TaskID][]dispatch.Said, error) {
	reports, unread, err := waitingReports(h.Box, h.Now())
	for _, err := range unread {
		h.Warn("a report that waits was passed over: %v", err)
	}
	said := map[pipeline.TaskID][]dispatch.Said{}
	for _, r := range reports {
		said[r.TaskID] = append(said[r.TaskID], dispatch.Said{Status: r.Status, Steps: r.StepsDone})
	}
	return said, err
}
