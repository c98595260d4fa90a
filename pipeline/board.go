package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Field is what a column of the board is for.
type Field string

// The fields of a row. Those after FieldStatus are optional: where the board
// has no column for one, it is left out.
const (
	FieldTitle    Field = "title"
	FieldTaskID   Field = "task_id"
	FieldType     Field = "type"
	FieldAssignee Field = "assignee"
	FieldProject  Field = "project"
	FieldPriority Field = "priority"
	FieldStatus   Field = "status"
	FieldReason   Field = "reason"
	FieldResult   Field = "result"
	FieldChecked  Field = "todo_completed"

	FieldRemaining   Field = "subtasks_remaining"
	FieldCompletion  Field = "completion"
	FieldAssignedAt  Field = "assigned_at"
	FieldCompletedAt Field = "completed_at"
	FieldValidatedAt Field = "validated_at"
	FieldCancelledAt Field = "cancelled_at"
	FieldPrevious    Field = "previous_status"
	FieldContext     Field = "context"
	FieldInputs      Field = "input_files"
	FieldThread      Field = "thread"
)

// A DerivedField is a field that OTM alone writes, in an optional column. Its values
// are texts. Package core knows how they follow from a task (core.Derived).
type DerivedField struct {
	Field  Field
	Column string // its name, if the configuration does not change it
	Kind   Kind
	Extra  bool // nobody is told that the column is missing
}

// Kind is what the texts of a derived field mean.
type Kind int

// The kinds.
const (
	KindText   Kind = iota
	KindNumber      // a decimal number
	KindTime        // RFC 3339
	KindChoice      // a name, which a select may have as an option
	KindLink        // an address
)

// DerivedFields are the fields that OTM alone writes.
var DerivedFields = []DerivedField{
	{FieldRemaining, "Subtasks remaining", KindNumber, false},
	{FieldCompletion, "Completion", KindNumber, false},
	{FieldAssignedAt, "Assigned at", KindTime, false},
	{FieldCompletedAt, "Completed at", KindTime, false},
	{FieldValidatedAt, "Validated at", KindTime, true},
	{FieldCancelledAt, "Cancelled at", KindTime, true},
	{FieldPrevious, "Previous status", KindChoice, true},
	{FieldContext, "Context", KindChoice, true},
	{FieldInputs, "Input files", KindText, true},
	{FieldThread, "Thread", KindLink, true},
}

// Row is a row of the board: a task, or one of its steps. An empty cell is the
// zero value.
type Row struct {
	ID     string `json:"id"`
	Parent string `json:"parent,omitempty"` // of a step: the row of its task

	Title    string   `json:"title,omitempty"`
	TaskID   string   `json:"taskId,omitempty"` // as it stands in the cell
	Type     string   `json:"type,omitempty"`
	Assignee string   `json:"assignee,omitempty"` // the option's label, or a user's id
	Project  string   `json:"project,omitempty"`
	Priority Priority `json:"priority,omitempty"`
	Status   Status   `json:"status,omitempty"` // may be one that we do not know
	Reason   string   `json:"reason,omitempty"`
	Result   string   `json:"result,omitempty"`
	Checked  bool     `json:"checked,omitempty"`
	// Derived are the cells of derived fields, in the form of their columns (see
	// Batch.Form). Empty ones are missing.
	Derived map[Field]string `json:"derived,omitempty"`

	CreatedBy string `json:"createdBy,omitempty"`
	UpdatedBy string `json:"updatedBy,omitempty"`
	Created   int64  `json:"created,omitempty"` // Unix seconds
	Updated   int64  `json:"updated,omitempty"` // Unix seconds, as the board says

	Odd bool `json:"odd,omitempty"` // a cell had an unexpected form and was passed over
}

// Task returns the id in the Task ID cell; 0 if there is none.
func (r *Row) Task() TaskID {
	id, err := ParseTaskID(r.TaskID)
	if err != nil {
		return 0
	}
	return id
}

// CurrentStatus is the status of a task's row. A row that a person typed without
// one is new.
func (r *Row) CurrentStatus() Status {
	if r.Status == "" {
		return New
	}
	return r.Status
}

// StepDone reports whether the row of a step counts as done.
func (r *Row) StepDone() bool { return r.Checked || r.Status.StepDone() }

// Cell is a value for one field of a row.
type Cell struct {
	Field   Field
	Text    string // of a text, a select's option, or a derived field; "" clears
	User    string // of the assignee, if that column holds people
	Checked bool   // of FieldChecked
}

// StatusAge is how old a status may be on which something is decided: a person
// may have changed it meanwhile.
const StatusAge = 5 * time.Second

// Change is what to write to one row.
type Change struct {
	Row   string
	Cells []Cell
}

// Board is where the rows are.
type Board interface {
	// Begin begins a batch of work; no two overlap within a host. The caller
	// must call End.
	Begin(ctx context.Context) (Batch, error)
}

// Batch is one batch of work on the board: look, decide, write. It is for one
// goroutine. What it returns as rows must not be changed, and not be used
// after the next call that reads or writes.
type Batch interface {
	// Rows are the rows of the last complete walk, with our own writes since.
	Rows() iter.Seq[*Row]
	Row(id string) *Row
	TaskRow(id TaskID) *Row
	StepRows(parent string) []*Row

	// IsGone asks the board for a row that the last complete walk lacks: whether it is
	// deleted or archived.
	IsGone(ctx context.Context, row string) (bool, error)

	// Form returns a text of a derived field, or a status, as the board shows it: its column
	// may hold dates without a time, or have no option for the status. has is false if the
	// board has no such column.
	Form(field Field, text string) (form string, has bool)

	// Room is how many rows the board still takes; negative: not known.
	Room() int

	// WalkAt is when the last complete walk began; zero: there was none.
	WalkAt() time.Time
	// Fresh reports whether all rows are known as of at most maxAge ago.
	Fresh(maxAge time.Duration) bool
	// Current reports whether the status of a row is known as of at most maxAge
	// ago; where a person touched it last, as of this moment.
	Current(row *Row, maxAge time.Duration) bool
	// Person is the user who touched the row last, as histories call him, where
	// that was somebody else than OTM; else "".
	Person(row *Row) string
	// Refresh walks the board unless the rows are Fresh; 0 walks always.
	Refresh(ctx context.Context, maxAge time.Duration) error

	// AtOnce is how many goroutines may call Create at a time, while nothing else is called.
	// It is 1 where calls are limited: then each task gets its rows before the next one.
	AtOnce() int
	// Create makes a row below parent, or at the top where parent is "".
	Create(ctx context.Context, parent string, cells ...Cell) (string, error)
	// Update writes cells to rows: in one call where the board allows it, else
	// one a row, in order. Writing the same again is harmless.
	Update(ctx context.Context, changes ...Change) error
	// Delete deletes rows, with their steps. Deleting again is harmless.
	Delete(ctx context.Context, rows ...string) error

	// Over reports whether the batch has lasted its time.
	Over() bool
	// End gives the board back.
	End() error
}

// BoardClass says what an error of the board means for the caller.
type BoardClass int

// The classes of errors.
const (
	Transient BoardClass = iota // nothing is known to be wrong with the request: try later
	Refused                     // this row or value is refused: go on with the next
	Fatal                       // no request will succeed until an operator acts
)

// BoardError is a call to the board that failed.
type BoardError struct {
	Method string
	Code   string // the board's, such as "invalid_option_id"; "" if there was none
	Class  BoardClass
	// MaybeApplied says that a write may have taken effect although no
	// success was reported.
	MaybeApplied bool
	Credentials  bool      // the token is missing, refused or lacks a scope
	RowGone      bool      // the row that was meant is not there
	Full         bool      // the board takes no more rows
	Endless      bool      // the board's list has no end within reasonable bounds
	ReadAt       time.Time // of a write refused as if the list did not exist: when reading it last worked; the app may read it, and not write it
	Until        time.Time // when to try again, if that is known
	Needed       string    // the missing scope, where the board names it
	Message      string    // what else is known
	Err          error     // the cause, where there is one
}

func (e *BoardError) Error() string {
	parts := []string{e.Method}
	if e.Code != "" {
		parts = append(parts, e.Code)
	}
	if e.Needed != "" {
		parts = append(parts, "needs the scope "+e.Needed)
	}
	if e.Message != "" {
		parts = append(parts, e.Message)
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	s := strings.Join(parts, ": ")
	if !e.Until.IsZero() {
		s += " until " + e.Until.UTC().Format(time.RFC3339)
	}
	return s
}

// WaitsUntil is when a call may be made that the rate limit puts off; false where
// err is something else.
func WaitsUntil(err error) (time.Time, bool) {
	var e *BoardError
	if !errors.As(err, &e) || e.Code != "ratelimited" || e.Until.IsZero() {
		return time.Time{}, false
	}
	return e.Until, true
}

// ReadOnly reports whether the board refused a write to a list that it has let us
// read: the list is shared with the app for reading only (C22).
func (e *BoardError) ReadOnly() bool { return !e.ReadAt.IsZero() }

func (e *BoardError) Unwrap() error { return e.Err }

// MissingError says that the board lacks what OTM needs: a column, or an
// option of a select. A person has to add it.
type MissingError struct {
	Column  string   // the column's name as configured
	Option  string   // the missing option; "" if the column is what is missing
	Type    string   // that the missing column needs; "": it is there
	Problem string   // what is wrong
	Have    []string // what there is: the columns, the options, or the ids in doubt
	Mend    string   // what to do about it; "": add what is missing
}

func (e *MissingError) Error() string {
	what := fmt.Sprintf("column %q", e.Column)
	if e.Option != "" {
		what = fmt.Sprintf("option %q of %s", e.Option, what)
	}
	if len(e.Have) == 0 {
		return fmt.Sprintf("%s %s (the board has none)", what, e.Problem)
	}
	return fmt.Sprintf("%s %s (the board has: %s)", what, e.Problem, strings.Join(e.Have, ", "))
}

// MaybeApplied reports whether a write that ended with err may have taken effect
// all the same.
func MaybeApplied(err error) bool {
	var e *BoardError
	return errors.As(err, &e) && e.MaybeApplied
}

// NeedsPerson reports whether a write to the board failed for a reason that other tasks may not
// share: the board refused this one, or lacks a column or an option for it.
func NeedsPerson(err error) bool {
	_, missing := errors.AsType[*MissingError](err)
	return missing || IsRefused(err)
}

// IsRefused reports whether err concerns this row or value alone.
func IsRefused(err error) bool {
	var e *BoardError
	return errors.As(err, &e) && e.Class == Refused
}
