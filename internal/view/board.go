package view

import (
	"time"

	"otm/core"
	"otm/pipeline"
	"otm/slacklist"
)

// Board is the snapshot of the board with an index of its rows.
type Board struct {
	*slacklist.Snapshot
	Bearers map[pipeline.TaskID][]*pipeline.Row // rows by the task id they bear
	StepsOf map[string][]*pipeline.Row          // rows of steps by the row of their task

	tops []*pipeline.Row // rows that are no steps, in the order of the board
	byID map[string]*pipeline.Row
}

// Index is a board of rows of which nothing else is known.
func Index(rows []pipeline.Row) Board { return indexed(&slacklist.Snapshot{Rows: rows}) }

func indexed(snap *slacklist.Snapshot) Board {
	b := Board{Snapshot: snap, byID: map[string]*pipeline.Row{}, Bearers: map[pipeline.TaskID][]*pipeline.Row{}, StepsOf: map[string][]*pipeline.Row{}}
	for i := range snap.Rows {
		r := &snap.Rows[i]
		b.byID[r.ID] = r
		if r.Parent != "" {
			b.StepsOf[r.Parent] = append(b.StepsOf[r.Parent], r)
			continue
		}
		b.tops = append(b.tops, r)
		if id := r.Task(); id != 0 {
			b.Bearers[id] = append(b.Bearers[id], r)
		}
	}
	return b
}

// Tops returns the rows that are no steps, in the order of the board.
func (b *Board) Tops() []*pipeline.Row { return b.tops }

// Row returns a row by its id; nil if the board has none.
func (b *Board) Row(id string) *pipeline.Row { return b.byID[id] }

// LastEdit is when the row or a step of it last changed.
func (b *Board) LastEdit(row *pipeline.Row) time.Time {
	last := row.Updated
	for _, step := range b.StepsOf[row.ID] {
		last = max(last, step.Updated)
	}
	return time.Unix(last, 0)
}

// Gone reports whether the row of a task was seen to be gone after the board was
// last read.
func (b *Board) Gone(t *core.Task) bool {
	return !t.GoneAt.IsZero() && !b.WalkAt.After(t.GoneAt)
}

// Full reports whether the list takes no more rows, as far as its size is
// known.
func (b *Board) Full() bool { return b.Limit > 0 && b.Count >= b.Limit }

// NearlyFull reports whether a tenth or less of the list is free.
func (b *Board) NearlyFull() bool { return b.Limit > 0 && b.Count*10 >= b.Limit*9 }

// ManyRows is the size from which on a list's limit is one that nobody reaches:
// the embedded board names a million.
const ManyRows = 100_000

// RowLimit is how many rows the list may hold; 0: unknown, or so many that
// nobody reaches the limit.
func (b *Board) RowLimit() int {
	if b.Limit >= ManyRows {
		return 0
	}
	return b.Limit
}
