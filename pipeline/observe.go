package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Observe updates the record from the board. What people changed there counts and
// goes into the history. It reports whether the record changed. person is
// Batch.Person.
func (r *Record) Observe(row *Row, steps []*Row, person func(*Row) string, at time.Time) bool {
	saw := func(row *Row, what, detail string) {
		r.Note(at, cmp.Or(person(row), WhoBoard), what, detail)
	}
	changed := false
	if r.GoneAt != nil {
		r.GoneAt = nil
		saw(row, "row back", row.ID)
		changed = true
	}
	if r.ArchivedAt != nil && !row.CurrentStatus().Over() {
		r.ArchivedAt = nil // somebody restored it from the board's own bin, and opened it again
		saw(row, "back from the archive", row.ID)
		changed = true
	}
	if status := row.CurrentStatus(); status != r.Status {
		if r.Status != "" {
			saw(row, EventChanged, string(r.Status)+" to "+string(status))
		}
		r.SetStatus(status, at)
		changed = true
	}
	if row.Title != "" && row.Title != r.Title {
		saw(row, "changed title", "to "+row.Title)
		r.Title = row.Title
		changed = true
	}
	if row.Priority != "" && row.Priority != r.Priority {
		saw(row, EventPriority, "to "+string(row.Priority))
		r.Priority = row.Priority
		changed = true
	}
	if row.Reason != "" && row.Reason != r.Reason {
		own := r.Reporting != nil && r.Reporting.Reason != nil && *r.Reporting.Reason == row.Reason
		if !own { // else it is noted once the report has taken effect
			saw(row, EventReason, row.Reason)
		}
		r.Reason, r.Answered = row.Reason, !own && person(row) != ""
		changed = true
	}
	if r.observeSteps(steps, saw) {
		changed = true
	}
	return r.observeEnd() || changed
}

// GiveTo records that the task is another agent's now, and who gave it to it; "" if
// the board does not say.
func (r *Record) GiveTo(agent, who string, at time.Time) {
	if FoldName(agent) != FoldName(r.Agent) {
		r.Note(at, cmp.Or(who, WhoBoard), EventAssigned, "to "+agent)
	}
	r.Agent = agent
}

// LogPeople logs the events of a time that people made.
func (r *Record) LogPeople(ctx context.Context, log *slog.Logger, at time.Time) {
	for _, e := range r.History {
		if e.At.Equal(at) && !strings.HasPrefix(e.Who, "otm-") {
			log.InfoContext(ctx, "seen on the board", "task", r.TaskID, "who", e.Who, "what", e.What, "detail", e.Detail)
		}
	}
}

// observeEnd notes whether the steps tell when the task is done: not if a
// person ticked them all before the agent took it, which is to look at it all
// the same; and again after a person opened one. A task of a person's is taken
// by nobody, and has no workspace.
func (r *Record) observeEnd() bool {
	d := r.Dispatch
	if d == nil {
		return false
	}
	switch open := r.StepsDone() < len(r.Steps); {
	case open && d.AllTicked:
		d.AllTicked = false
	case !open && !d.AllTicked && len(r.Steps) > 0 && d.TakenAt == nil && d.Workspace != "" && r.Status == Assigned:
		d.AllTicked = true
	default:
		return false
	}
	return true
}

// CurrentStatus is the status of a task's row. A row that a person typed without
// one is new.
func (r *Row) CurrentStatus() Status {
	if r.Status == "" {
		return New
	}
	return r.Status
}

func (r *Record) observeSteps(rows []*Row, saw func(row *Row, what, detail string)) bool {
	changed := false
	var added []*Row
	for _, row := range rows {
		i := slices.IndexFunc(r.Steps, func(s StepRecord) bool { return s.RowID == row.ID })
		if i < 0 {
			added = append(added, row)
			continue
		}
		s := &r.Steps[i]
		if done := row.StepDone(); done != s.Done {
			if r.Reporting == nil || !slices.Contains(r.Reporting.Steps, i) { // else the tick is most likely ours
				saw(row, TickEvent(done), s.Title)
			}
			s.Done = done
			changed = true
		}
		if row.Title != "" && row.Title != s.Title {
			saw(row, "renamed a step", fmt.Sprintf("%s to %s", s.Title, row.Title))
			s.Title = row.Title
			changed = true
		}
	}
	if len(added) == 0 || !r.OnBoard() {
		return changed // rows of steps whose answer was lost are found by title
	}
	// A person added steps: last, in the order of their making.
	slices.SortStableFunc(added, func(a, b *Row) int { return cmp.Compare(a.Created, b.Created) })
	for _, row := range added {
		r.Steps = append(r.Steps, StepRecord{Title: row.Title, RowID: row.ID, Done: row.StepDone()})
		saw(row, "step added", row.Title)
	}
	return true
}

// Progress is how many steps are open, and which percentage is done.
func (r *Record) Progress() (remaining int, percent float64) {
	n, done := len(r.Steps), r.StepsDone()
	if n == 0 {
		return 0, 0
	}
	return n - done, float64(100 * done / n)
}

// Dropped is what the create of a task asked for.
type Dropped struct {
	Steps   []string // their titles, in order
	Waiting bool     // it stands in the inbox: the task may still be in the making
}

// FromRow fills a record from the row of a task and the rows of its steps: the
// record was lost, or a person typed the row. Steps that the record has are
// replaced. titles are those of the create, if that is known: rows have times
// in whole seconds, which do not tell the order of steps.
func (r *Record) FromRow(row *Row, steps []*Row, titles []string) {
	r.RowID, r.Title, r.Agent, r.Project = row.ID, row.Title, row.Assignee, row.Project
	r.Reason, r.Result = row.Reason, row.Result
	r.Priority, r.Type = row.Priority, Type(row.Type)
	if r.Priority == "" {
		r.Priority = Normal
	}
	if r.Type == "" {
		r.Type = Action
	}
	r.Status = row.CurrentStatus()
	r.CreatedAt = time.Unix(row.Created, 0).UTC()
	r.Steps = nil
	for _, s := range inOrder(steps, titles) {
		r.Steps = append(r.Steps, StepRecord{Title: s.Title, RowID: s.ID, Done: s.StepDone()})
	}
}

// inOrder sorts the rows of steps as the create has them. Rows with other titles
// were renamed or added by a person: they fill the places that are left, the
// oldest first, and then come last.
func inOrder(rows []*Row, titles []string) []*Row {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b *Row) int { return cmp.Compare(a.Created, b.Created) })
	places := make([]*Row, len(titles))
	for i, title := range titles {
		if j := slices.IndexFunc(rows, func(r *Row) bool { return FoldTitle(r.Title) == FoldTitle(title) }); j >= 0 {
			places[i] = rows[j]
			rows = slices.Delete(rows, j, j+1)
		}
	}
	for i := range places {
		if places[i] == nil && len(rows) > 0 {
			places[i], rows = rows[0], rows[1:]
		}
	}
	return append(slices.DeleteFunc(places, func(r *Row) bool { return r == nil }), rows...)
}
