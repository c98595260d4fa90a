package why

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"otm/heartbeat"
	"otm/internal/explain"
	"otm/internal/view"
	"otm/pipeline"
	"otm/pipeline/history"
	"otm/pipeline/inbox"
)

// recordless is for an id with neither a record nor, unless its create waits, a
// row.
func recordless(v *view.View, t *view.Task) (draft, error) {
	if c := t.Create; c != nil {
		return at(InInbox, c.At, explain.TaskInInbox, "since", c.At).and(injectorTrouble(v, t)...), nil
	}
	if t.FailedCreate != nil {
		return failed(v, t.FailedCreate), nil
	}
	when, err := archivedAt(v.Dir, t.ID)
	switch {
	case err != nil:
		return draft{}, err
	case !when.IsZero():
		return at(IsOver, when, explain.TaskArchived, "at", when), nil
	}
	d, err := nowhere(v, t.ID)
	if err == nil && len(v.Unread) > 0 {
		d = d.plus(explain.FileUnread, "error", v.Unread[0])
	}
	return d, err
}

// nowhere is for an id that stands nowhere.
func nowhere(v *view.View, id pipeline.TaskID) (draft, error) {
	drops, err := v.Records.Drops()
	if err != nil {
		return draft{}, err
	}
	if _, settled := drops[id]; settled {
		return at(IsLost, time.Time{}, explain.TaskVanished), nil
	}
	issued, err := v.Records.Issued(id)
	switch {
	case err != nil:
		return draft{}, err
	case issued:
		return at(IsUnknown, time.Time{}, explain.TaskUnused), nil
	}
	return at(IsUnknown, time.Time{}, explain.TaskUnknown), nil
}

// archivedAt is when a task was last archived; zero: never.
func archivedAt(dir string, id pipeline.TaskID) (last time.Time, err error) {
	for e, err := range history.Read(dir) {
		switch {
		case errors.Is(err, history.ErrNoEntry): // it says nothing
		case err != nil:
			return time.Time{}, err
		case e.TaskID == id:
			last = e.ArchivedAt
		}
	}
	return last, nil
}

// failed is for a create that failed.
func failed(v *view.View, f *inbox.Settled) draft {
	code := explain.CreateFailed
	switch f.Result.Class {
	case inbox.Conflict:
		code = explain.CreateConflict
	case inbox.Invalid:
		code = explain.CreateInvalid
	}
	return at(InFailed, f.Result.At, code, failure(v, f)...)
}

func failure(v *view.View, f *inbox.Settled) []any {
	return []any{"at", f.Result.At, "class", f.Result.Class, "error", f.Result.Error, "file", f.Name,
		"path", filepath.Join(v.Dir, inbox.FailedDir, f.Name)}
}

// comingOnBoard is for a task that does not stand on the board completely.
func comingOnBoard(v *view.View, t *view.Task) draft {
	rec := t.Record
	if rec.DropID == "" { // typed, and its row is not shown
		return at(ToBoard, rec.CreatedAt, explain.RowHalfTaken).and(dispatcherTrouble(v, t)...)
	}
	if f := t.FailedCreate; f != nil && (t.Create == nil || f.Result.At.After(t.LastEvent())) {
		return failed(v, f)
	}
	made := 0
	for _, step := range rec.Steps {
		if step.RowID != "" {
			made++
		}
	}
	counts := []any{"made", made, "all", len(rec.Steps)}
	var d draft
	switch {
	case t.Create == nil && rec.RowID == "":
		return at(ToBoard, rec.CreatedAt, explain.RowLost)
	case t.Create == nil:
		return at(ToBoard, rec.CreatedAt, explain.StepsLost, counts...)
	case rec.RowID != "":
		d = at(ToBoard, rec.CreatedAt, explain.StepsMade, counts...)
	case rec.RowAskedAt != nil && v.Now.Sub(*rec.RowAskedAt) <= v.Times.SettleAfter:
		d = at(ToBoard, rec.CreatedAt, explain.RowComing, "since", *rec.RowAskedAt)
	case rec.RowAskedAt != nil:
		d = at(ToBoard, rec.CreatedAt, explain.RowAsked, "at", *rec.RowAskedAt)
	default:
		d = at(ToBoard, rec.CreatedAt, explain.RowNotMade)
	}
	return d.and(injectorTrouble(v, t)...)
}

// withUpdates adds what is to be said about the updates of a task that did not
// reach the board.
func withUpdates(v *view.View, d draft, t *view.Task) draft {
	if d.stage == IsOver {
		return d
	}
	if n := len(t.Updates); n > 0 {
		since := slices.MinFunc(t.Updates, time.Time.Compare)
		d = d.plus(explain.UpdatesWait, "n", n, "since", since).and(held(v, toRead, toChange)...).and(trouble(v, t, heartbeat.Injector)...)
		limit, _ := usual(InInbox, v.Times)
		d.late = d.late || v.Now.Sub(since) > limit
	}
	if n := len(t.FailedUpdates); n > 0 {
		f := t.FailedUpdates[n-1]
		code := explain.UpdateFailed
		if f.Result.Class == inbox.Invalid {
			code = explain.UpdateInvalid
		}
		d = d.plus(code, failure(v, f)...)
		d.late = d.late || t.Record == nil || !heardAfter(t.Record, f.Result.At)
	}
	return d
}

// heardAfter reports whether an agent said something about a task after a time
// that did not fail.
func heardAfter(rec *pipeline.Record, t time.Time) bool {
	return slices.ContainsFunc(rec.History, func(e pipeline.Event) bool {
		_, ok := e.Agent()
		return ok && e.What != pipeline.EventUpdateFailed && e.At.After(t)
	})
}

// typed is for a row that a person typed and that is no task yet. Its record is
// that of its adoption, if that has begun.
func typed(v *view.View, t *view.Task, row *pipeline.Row) draft {
	rec := t.Record
	since := v.LastEdit(row)
	status := row.CurrentStatus()
	switch {
	case status.Over():
		return at(IsOver, since, explain.RowOver, "status", status)
	case row.Odd:
		return at(ToAgent, since, explain.RowOdd)
	case row.Title == "":
		return at(WithHuman, since, explain.RowUntitled)
	case row.Assignee == "":
		return at(WithHuman, since, explain.Unassigned)
	case row.TaskID != "" && row.Task() == 0:
		return at(ToAgent, since, explain.RowBadID, "cell", row.TaskID)
	case v.Agents.Assigned(row.Assignee) == nil:
		return unknownAgent(v, row, since)
	case rec == nil && row.Task() != 0 && status != pipeline.New:
		return at(ToAgent, since, explain.RowNoRecord, "status", status).and(trouble(v, t, heartbeat.Dispatcher)...)
	case status != pipeline.New:
		return at(ToAgent, since, explain.RowNotNew, "status", status)
	}
	still := v.Times.AdoptAfter
	wait := since.Add(still).Sub(v.Now)
	switch {
	case 0 < wait && wait <= 2*still: // else the board's clock is not ours
		return at(ToAgent, since, explain.RowSettling, "since", since, "still", still)
	case rec == nil:
		return at(ToAgent, since, explain.RowTyped).and(dispatcherTrouble(v, t)...)
	}
	return at(ToAgent, since, explain.RowHalfTaken).and(dispatcherTrouble(v, t)...)
}

func unknownAgent(v *view.View, row *pipeline.Row, since time.Time) draft {
	near := v.Agents.Nearest(row.Assignee)
	code := explain.AgentUnknown
	if near != "" {
		code = explain.AgentGuessed
	}
	return at(ToAgent, since, code, "name", row.Assignee, "config", configPath(v), "near", near)
}

// stranger is for a row that is no task's: typed, or copied with its id.
func stranger(v *view.View, t *view.Task) draft {
	row := t.Row
	if id := row.Task(); id != 0 && !row.CurrentStatus().Over() {
		return at(ToAgent, v.LastEdit(row), explain.RowCopied, "other", id)
	}
	return typed(v, t, row)
}

// withOddRow adds what is wrong with the row of a task.
func withOddRow(v *view.View, d draft, t *view.Task) draft {
	title := ""
	if t.Other != nil {
		title = t.Other.Title
	}
	switch changed := t.Row.Task() != t.ID; {
	case changed && t.Other != nil:
		d = d.plus(explain.RowIDTaken, "title", title)
	case changed:
		d = d.plus(explain.RowIDChanged).and(trouble(v, t, heartbeat.Dispatcher)...)
	case t.Other != nil:
		d = d.plus(explain.RowIDTwice, "title", title)
	}
	if t.Record.GoneAt != nil {
		d = d.plus(explain.RowBack).and(trouble(v, t, heartbeat.Dispatcher)...)
	}
	return d
}

// withoutRow is for a task whose row is not on the board. A board that was
// exchanged in otm.toml looks the same: no record says of which board its row
// is.
//
// A snapshot that was read before the row was made, or so soon after that a walk
// need not show it, says nothing about the row.
func withoutRow(v *view.View, t *view.Task) draft {
	rec := t.Record
	over := rec.Status.Finished()
	switch {
	case rec.ArchivedAt != nil:
		return at(IsOver, *rec.ArchivedAt, explain.TaskArchived, "at", *rec.ArchivedAt)
	case rec.GoneAt != nil && over:
		return at(IsOver, *rec.GoneAt, explain.RowGoneOver, "status", rec.Status, "at", *rec.GoneAt)
	case rec.GoneAt != nil:
		return at(IsLost, *rec.GoneAt, explain.RowGone, "at", *rec.GoneAt)
	case over:
		return at(IsOver, t.LastEvent(), explain.RowAwayOver, "status", rec.Status)
	}
	if made := rowMade(rec); !v.WalkAt.After(made.Add(v.Times.SettleAfter)) {
		return at(ToBoard, made, explain.RowComing, "since", made).and(trouble(v, t, heartbeat.Injector)...)
	}
	return at(IsLost, t.LastEvent(), explain.RowAway)
}

// rowMade is when the row of a task was made, as far as its record tells.
func rowMade(rec *pipeline.Record) time.Time {
	if rec.RowAskedAt != nil && rec.RowAskedAt.After(rec.CreatedAt) {
		return *rec.RowAskedAt
	}
	return rec.CreatedAt
}

// byStatus is for a task that stands on the board.
func byStatus(v *view.View, t *view.Task) draft {
	status := t.Row.CurrentStatus()
	since := t.Since(status)
	by := ""
	if e := t.Record.LastMove(status); e != nil {
		by = ", set by " + e.Who
	}
	switch status {
	case pipeline.New:
		return isNew(v, t, since)
	case pipeline.Assigned:
		if a := t.Agent; a != nil && a.Person {
			return at(WithHuman, since, explain.PersonsTurn, "agent", a.Name, "since", since)
		}
		return assigned(v, t, since)
	case pipeline.InProgress:
		return inProgress(v, t, since)
	case pipeline.Blocked:
		code := explain.Blocked
		if v.Embedded {
			code = explain.BlockedPage
		}
		return at(IsBlocked, since, code, "since", since, "reason", cmp.Or(t.Row.Reason, t.Record.Reason, "no reason was given"))
	case pipeline.AgentDone:
		return at(ToReview, since, explain.ToReview, "since", since)
	case pipeline.Done, pipeline.Cancelled, pipeline.Archived:
		return at(IsOver, since, explain.IsOver, "status", status, "since", since, "by", by)
	}
	return at(WithHuman, since, explain.SetAside, "status", status, "since", since, "by", by)
}

// isNew is for a task that was not handed out.
func isNew(v *view.View, t *view.Task, since time.Time) draft {
	switch {
	case t.Row.Assignee == "":
		return at(WithHuman, since, explain.Unassigned)
	case t.Agent == nil:
		return unknownAgent(v, t.Row, since)
	case !t.Agent.Person:
		if wrong := v.Workspace(t.Agent); wrong != nil {
			return draft{stage: ToAgent, since: since}.and(*wrong)
		}
	}
	return at(ToAgent, since, explain.WaitsForPass).and(held(v, toRead, toChange)...).and(trouble(v, t, heartbeat.Dispatcher)...)
}
