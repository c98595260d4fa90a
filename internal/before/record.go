package before

import (
	"strings"
	"time"

	"otm/core"
	"otm/pipeline"
)

// record is a file tasks/T-00035.json of the former format.
type record struct {
	TaskID     pipeline.TaskID       `json:"taskId"`
	DropID     string                `json:"dropId"`
	Drop       string                `json:"drop"`
	Title      string                `json:"title"`
	Agent      string                `json:"agent"`
	Priority   pipeline.Priority     `json:"priority"`
	Project    string                `json:"project"`
	Type       pipeline.Type         `json:"type"`
	CreatedAt  time.Time             `json:"createdAt"`
	RowID      string                `json:"rowId"`
	Unverified bool                  `json:"dedupUnverified"`
	Steps      []step                `json:"steps"`
	ArchivedAt time.Time             `json:"archivedAt"`
	GoneAt     time.Time             `json:"goneAt"`
	Status     pipeline.Status       `json:"status"`
	Reason     string                `json:"reason"`
	Answered   bool                  `json:"answered"`
	Result     string                `json:"result"`
	Updates    []applied             `json:"updates"`
	Attempt    int                   `json:"attempt"`
	Dispatch   *core.Dispatch        `json:"dispatch"`
	Wakes      []core.Wake           `json:"wakes"`
	Heard      map[string]core.Heard `json:"heard"`
	ResumedAt  time.Time             `json:"resumedAt"`
	History    []core.OldLine        `json:"history"`
}

type step struct {
	Title string `json:"title"`
	RowID string `json:"rowId"`
	Done  bool   `json:"done"`
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
	t := core.Task{
		ID: r.TaskID, DropID: r.DropID, Drop: r.Drop, Title: r.Title, Agent: r.Agent, Priority: r.Priority, Project: r.Project, Type: r.Type,
		CreatedAt: r.CreatedAt, ChangedAt: r.lastEvent(), Status: r.Status, StatusAt: r.lastEvent(), Reason: r.Reason, Answered: r.Answered, Result: r.Result,
		ResumedAt: r.ResumedAt, GoneAt: r.GoneAt, ArchivedAt: r.ArchivedAt, Attempt: r.Attempt, Dispatch: r.Dispatch, Wakes: r.Wakes, Heard: r.Heard,
		RowID: r.RowID, Unverified: r.Unverified,
	}
	if t.Status == "" {
		t.Status = pipeline.New
	}
	for i, s := range r.Steps {
		own := core.Step{ID: i + 1, Title: s.Title, Done: s.Done, RowID: s.RowID}
		if s.RowID != "" {
			own.Shown = core.StepShown{Title: s.Title, Done: s.Done}
		}
		t.Steps = append(t.Steps, own)
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
		all = append(all, core.Done{ID: core.DropCommand(r.DropID, r.TaskID), Task: r.TaskID, At: r.CreatedAt, Drop: r.Drop})
	}
	for _, u := range r.Updates {
		all = append(all, core.Done{ID: core.DropCommand(u.ID, r.TaskID), Task: r.TaskID, At: r.lastEvent(), Sum: u.Sum, Drop: u.Drop})
	}
	return all
}
