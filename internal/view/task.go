package view

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"time"

	"otm/pipeline"
	"otm/pipeline/inbox"
	"otm/pipeline/task"
)

// Task is what is known about one task: its row on the board, its record, and
// its files.
type Task struct {
	ID     pipeline.TaskID // 0: a row that a person typed, and no task yet
	Row    *pipeline.Row   // nil: the board shows none
	Other  *pipeline.Row   // another row that bears its id; nil: there is none
	Record *pipeline.Record
	// RecordErr is why the record could not be read, or why it is not known
	// whose row it is; nil also where there is no record.
	RecordErr error
	Agent     *pipeline.Agent // to whom the board gives it; nil: nobody that is configured
	Steps     []Step

	Create        *Create // waits in the inbox; nil: none does
	Updates       []time.Time
	FailedCreate  *inbox.Settled
	FailedUpdates []*inbox.Settled // oldest first
}

// Step is one step of a task.
type Step struct {
	// Number is the one by which otm-update knows the step: its place in the
	// record. 0: it has none yet, as a person has just added it on the board.
	Number int
	Title  string
	Done   bool
	Row    string // "": it does not stand on the board
}

// Task returns what is known about a task. It is never nil.
func (v *View) Task(id pipeline.TaskID) *Task {
	rec, err := v.record(id)
	row := v.rowOf(id, rec)
	t := v.assemble(id, row, rec)
	t.RecordErr = err
	for i := range v.Creates {
		if c := &v.Creates[i]; c.Task.ID == id {
			t.Create = c
		}
	}
	t.Updates, t.FailedCreate, t.FailedUpdates = v.updates[id], v.failedCreates[id], v.failedUpdates[id]
	return t
}

// Tasks returns what stands on the board, in the order of the ids: first the
// rows that are no task.
func (v *View) Tasks() []*Task {
	tasks := make([]*Task, 0, len(v.tops))
	for _, row := range v.tops {
		tasks = append(tasks, v.OfRow(row))
	}
	slices.SortStableFunc(tasks, func(a, b *Task) int { return cmp.Compare(a.ID, b.ID) })
	return tasks
}

// OfRow returns the task of a row that is no step. Its ID is 0 where the row is
// no task's: typed, or copied together with the id.
func (v *View) OfRow(row *pipeline.Row) *Task {
	if id := v.taskOf(row); id != 0 {
		return v.Task(id)
	}
	t := v.assemble(0, row, nil)
	t.RecordErr = v.ownersErr
	return t
}

func (v *View) assemble(id pipeline.TaskID, row *pipeline.Row, rec *pipeline.Record) *Task {
	var steps []*pipeline.Row
	if row != nil {
		steps = v.steps[row.ID]
	}
	t := Join(id, row, steps, rec)
	if row != nil {
		t.Agent = v.Agents.Assigned(row.Assignee)
	}
	for _, other := range v.bearers[id] {
		if id != 0 && other != row {
			t.Other = other
			break
		}
	}
	return t
}

// Join makes a task of its row, the rows of its steps, and its record; row and
// rec may be nil. The steps stand in the order of the record, whose numbers
// otm-update takes. Those that the record does not know come last and have no
// number (C10).
func Join(id pipeline.TaskID, row *pipeline.Row, steps []*pipeline.Row, rec *pipeline.Record) *Task {
	t := &Task{ID: id, Row: row, Record: rec}
	rows := map[string]*pipeline.Row{}
	for _, r := range steps {
		rows[r.ID] = r
	}
	if rec != nil {
		for i, s := range rec.Steps {
			step := Step{Number: i + 1, Title: s.Title, Done: s.Done, Row: s.RowID}
			if r := rows[s.RowID]; r != nil {
				step.Title, step.Done = r.Title, r.StepDone()
				delete(rows, s.RowID)
			}
			t.Steps = append(t.Steps, step)
		}
	}
	for _, r := range steps {
		if rows[r.ID] != nil {
			t.Steps = append(t.Steps, Step{Title: r.Title, Done: r.StepDone(), Row: r.ID})
		}
	}
	return t
}

// record loads a record once; nil if there is none.
func (v *View) record(id pipeline.TaskID) (*pipeline.Record, error) {
	if id == 0 {
		return nil, nil
	}
	if r, known := v.records[id]; known {
		return r.rec, r.err
	}
	rec, err := v.Records.Load(id)
	if errors.Is(err, fs.ErrNotExist) {
		rec, err = nil, nil
	}
	v.records[id] = loaded{rec, err}
	return rec, err
}

// loaded is what a record's file held.
type loaded struct {
	rec *pipeline.Record
	err error
}

// rowOf is the row of a task; nil where the board has none. The record says
// which it is, as people change the Task ID and copy it.
func (v *View) rowOf(id pipeline.TaskID, rec *pipeline.Record) *pipeline.Row {
	if rec != nil && rec.RowID != "" {
		return v.byID[rec.RowID]
	}
	if rows := v.bearers[id]; len(rows) > 0 && v.taskOf(rows[0]) == id {
		return rows[0]
	}
	return nil
}

// taskOf is the task whose row this is; 0 where it is no task's.
func (v *View) taskOf(row *pipeline.Row) pipeline.TaskID {
	id := row.Task()
	rec, err := v.record(id)
	if id != 0 && rec != nil && rec.RowID == row.ID {
		return id
	}
	if owner := v.owner(row); owner != 0 {
		return owner
	}
	unowned := err != nil || rec == nil || rec.RowID == ""
	if unowned && id != 0 && v.bearers[id][0] == row {
		return id // nothing else is known about it
	}
	return 0
}

// owner is the task whose record names a row; 0 where none does. It reads all
// records the first time: a row whose Task ID was changed is found by nothing
// else.
func (v *View) owner(row *pipeline.Row) pipeline.TaskID {
	if v.owners == nil {
		v.owners = map[string]pipeline.TaskID{}
		ids, err := v.Records.IDs()
		v.ownersErr = err
		for _, id := range ids {
			var corrupt *task.CorruptError
			rec, err := v.record(id)
			switch {
			case rec != nil && rec.RowID != "":
				v.owners[rec.RowID] = id
			case err != nil && !errors.As(err, &corrupt):
				v.ownersErr = err
			}
		}
	}
	return v.owners[row.ID]
}

// Status is the status that the board shows, or else the record's.
func (t *Task) Status() pipeline.Status {
	switch {
	case t.Row != nil:
		return t.Row.CurrentStatus()
	case t.Record != nil:
		return t.Record.Status
	}
	return pipeline.New
}

// Open counts the steps on the board that are not done, and all that are there.
func (t *Task) Open() (open, all int) {
	for _, s := range t.Steps {
		if s.Row != "" {
			all++
			if !s.Done {
				open++
			}
		}
	}
	return open, all
}

// Title is the best that is known of the title; "" where nothing is.
func (t *Task) Title() string {
	switch {
	case t.Row != nil && t.Row.Title != "":
		return t.Row.Title
	case t.Record != nil:
		return t.Record.Title
	case t.Create != nil:
		return t.Create.Task.Title
	case t.FailedCreate != nil:
		var title string
		json.Unmarshal(t.FailedCreate.Object.Get("title"), &title) // no text: no title
		return title
	}
	return ""
}

// Since is when the task came into a status, or else when something last
// happened to it. Zero without a record.
func (t *Task) Since(status pipeline.Status) time.Time {
	if t.Record == nil {
		return time.Time{}
	}
	if e := t.Record.LastMove(status); e != nil {
		return e.At
	}
	return t.LastEvent()
}

// LastEvent is when something last happened to the task. Zero without a record.
func (t *Task) LastEvent() time.Time {
	if t.Record == nil {
		return time.Time{}
	}
	if n := len(t.Record.History); n > 0 {
		return t.Record.History[n-1].At
	}
	return t.Record.CreatedAt
}
