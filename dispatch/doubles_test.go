package dispatch

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"otm/pipeline"
	files "otm/pipeline/task"
)

// refusing is a batch that refuses a row.
type refusing struct {
	pipeline.Batch
	row string
}

func (r *refusing) Update(ctx context.Context, changes ...pipeline.Change) error {
	if slices.ContainsFunc(changes, func(c pipeline.Change) bool { return c.Row == r.row }) {
		return &pipeline.BoardError{Method: "update", Code: "row_not_found", Class: pipeline.Refused, RowGone: true}
	}
	return r.Batch.Update(ctx, changes...)
}

// overBatch is a batch whose time on the board is over.
type overBatch struct{ pipeline.Batch }

func (overBatch) Over() bool { return true }

// oddBatch is a batch in which the rows of tasks have unreadable cells.
type oddBatch struct {
	pipeline.Batch
	change func(*pipeline.Row)
}

func (o oddBatch) Rows() iter.Seq[*pipeline.Row] {
	return func(yield func(*pipeline.Row) bool) {
		for row := range o.Batch.Rows() {
			r := *row
			if r.Parent == "" {
				r.Odd = true
				o.change(&r)
			}
			if !yield(&r) {
				return
			}
		}
	}
}

// failing are records in which one cannot be changed.
type failing struct {
	*files.Store
	id pipeline.TaskID
}

func (f *failing) Change(ctx context.Context, id pipeline.TaskID, change func(*pipeline.Record) error) (*pipeline.Record, error) {
	if id == f.id {
		return nil, errors.New("disk full")
	}
	return f.Store.Change(ctx, id, change)
}

// vanishing are records in which one is deleted before its nth change.
type vanishing struct {
	*files.Store
	dir   string
	id    pipeline.TaskID
	mu    sync.Mutex
	after int
}

func (v *vanishing) Change(ctx context.Context, id pipeline.TaskID, change func(*pipeline.Record) error) (*pipeline.Record, error) {
	v.mu.Lock()
	if id == v.id {
		if v.after--; v.after == 0 {
			os.Remove(filepath.Join(v.dir, "tasks", id.String()+".json"))
		}
	}
	v.mu.Unlock()
	return v.Store.Change(ctx, id, change)
}
