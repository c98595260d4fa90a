package before

import (
	"cmp"
	"strings"
	"time"

	"otm/core"
	"otm/pipeline"
)

// record is a file tasks/T-00035.json of the former format. The keys that we read are those of
// core.Task, and two more. A new key of core.Task must not reuse a former one.
type record struct {
	core.Task
	Updates []applied      `json:"updates"`
	History []core.OldLine `json:"history"`
}

type applied struct {
	ID   string `json:"id"`
	Drop string `json:"drop"`
	Sum  string `json:"sum"`
}

// archivedLine is a line of history.jsonl.
type archivedLine struct {
	ArchivedAt time.Time       `json:"archivedAt"`
	TaskID     pipeline.TaskID `json:"taskId"`
	Row        pipeline.Row    `json:"row"`
	Steps      []pipeline.Row  `json:"steps"`
	Record     *record         `json:"record"`
}

// task returns the state that a record tells. The board shows the same: the former format
// wrote the board first.
func (r *record) task() core.Task {
	t := r.Task
	t.ChangedAt, t.StatusAt = r.lastEvent(), r.lastEvent()
	t.Status = cmp.Or(t.Status, pipeline.New)
	for i := range t.Steps {
		s := &t.Steps[i]
		s.ID = i + 1
		if s.RowID != "" {
			s.Shown = core.StepShown{Title: s.Title, Done: s.Done}
		}
	}
	t.LastStep = len(t.Steps)
	r.lastMove(&t)
	if t.Status == pipeline.Pending { // it meant: set aside by a person
		t.Status = pipeline.Dormant
	}
	if t.RowID != "" {
		t.Shown = t.View()
		t.Shown.Gone = !t.ArchivedAt.IsZero()
	}
	return t
}

// lastEvent is when something last happened to the task.
func (r *record) lastEvent() time.Time {
	if n := len(r.History); n > 0 {
		return r.History[n-1].At
	}
	return r.CreatedAt
}

// lastMove takes from the history when and by whom the status was set, and when the
// task was done. Only the history of the former format knows.
func (r *record) lastMove(t *core.Task) {
	for _, l := range r.History {
		if l.What != "status" && l.What != "changed status" {
			continue
		}
		from, to, ok := strings.Cut(l.Detail, " to ") // such as "new to assigned"
		if !ok {
			continue
		}
		switch to := pipeline.Status(to); to {
		case pipeline.AgentDone:
			t.CompletedAt = l.At
		case pipeline.Done:
			t.ValidatedAt = l.At
		case pipeline.Cancelled:
			t.CancelledAt = l.At
		}
		if pipeline.Status(to) == t.Status {
			t.Previous, t.StatusAt, t.StatusBy = pipeline.Status(from), l.At, core.ActorNamed(l.Who)
		}
	}
}

// did are the drops that were carried out on the task.
func (r *record) did() []core.Done {
	var all []core.Done
	if r.DropID != "" && r.RowID != "" {
		all = append(all, core.Done{ID: core.DropCommand(r.DropID, r.ID), Task: r.ID, At: r.CreatedAt, Drop: r.Drop})
	}
	for _, u := range r.Updates {
		all = append(all, core.Done{ID: core.DropCommand(u.ID, r.ID), Task: r.ID, At: r.lastEvent(), Sum: u.Sum, Drop: u.Drop})
	}
	return all
}
