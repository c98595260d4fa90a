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
// passes over what is no update. warn gets why a file could not be read.
func waitingReports(h *Home, warn func(format string, args ...any)) (all []waitingReport, err error) {
	files, err := h.Box.List(inbox.TaskUpdates)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if !f.Regular() {
			continue
		}
		data, _, err := h.Box.Read(f)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) { // else it was settled meanwhile
				warn("a report that waits was passed over: %v", err)
			}
			continue
		}
		if u, err := drop.ParseUpdate(data); err == nil {
			all = append(all, waitingReport{u, f, f.Dropped(h.Now())})
		}
	}
	return all, nil
}

// oldestReports returns when the oldest waiting report on each task was dropped. A
// file that cannot be read holds up no judgement.
func oldestReports(h *Home) map[pipeline.TaskID]time.Time {
	oldest := map[pipeline.TaskID]time.Time{}
	reports, _ := waitingReports(h, func(string, ...any) {})
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
	reports, err := waitingReports(h, h.Warn)
	said := map[pipeline.TaskID][]dispatch.Said{}
	for _, r := range reports {
		said[r.TaskID] = append(said[r.TaskID], dispatch.Said{Status: r.Status, Steps: r.StepsDone})
	}
	return said, err
}
