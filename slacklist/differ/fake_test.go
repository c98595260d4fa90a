package differ

import (
	"context"
	"iter"
	"slices"
	"time"

	"otm/pipeline"
)

// fakeBatch is a batch of rows in memory. What a comparison must not call panics.
type fakeBatch struct {
	pipeline.Batch
	rows   []*pipeline.Row
	walkAt time.Time
	lacks  []pipeline.Field
	bare   []pipeline.Status // statuses for which it has no option
	look   func(id string) (bool, error)
	stale  error  // of the walk that the rows need; nil: they are fresh
	walk   func() // what a walk sees; nil: nothing new
}

const self = "U0OTM"

func (f *fakeBatch) Rows() iter.Seq[*pipeline.Row] { return slices.Values(f.rows) }

func (f *fakeBatch) Row(id string) *pipeline.Row {
	for _, r := range f.rows {
		if r.ID == id {
			return r
		}
	}
	return nil
}

func (f *fakeBatch) TaskRow(id pipeline.TaskID) (found *pipeline.Row) {
	for _, r := range f.rows {
		if r.Parent == "" && r.Task() == id && (found == nil || r.ID < found.ID) {
			found = r
		}
	}
	return found
}

func (f *fakeBatch) StepRows(parent string) (rows []*pipeline.Row) {
	for _, r := range f.rows {
		if r.Parent == parent && parent != "" {
			rows = append(rows, r)
		}
	}
	return rows
}

func (f *fakeBatch) WalkAt() time.Time        { return f.walkAt }
func (f *fakeBatch) Fresh(time.Duration) bool { return f.stale == nil }
func (f *fakeBatch) AtOnce() int              { return 1 }
func (f *fakeBatch) Over() bool               { return false }

func (f *fakeBatch) Refresh(context.Context, time.Duration) error {
	if f.walk != nil {
		f.walk()
	}
	return f.stale
}

func (f *fakeBatch) Person(r *pipeline.Row) string {
	if r.UpdatedBy == self {
		return ""
	}
	return r.UpdatedBy
}

func (f *fakeBatch) IsGone(_ context.Context, row string) (bool, error) { return f.look(row) }

func (f *fakeBatch) Room() int { return -1 }

func (f *fakeBatch) Form(field pipeline.Field, text string) (string, bool) {
	for field == pipeline.FieldStatus && slices.Contains(f.bare, pipeline.Status(text)) {
		text = string(pipeline.Status(text).Instead())
	}
	return text, !slices.Contains(f.lacks, field)
}
