package slacklist

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// maxPages bounds one walk. No list of Slack holds more than 5,000 rows, but an
// embedded board may, and pages may be short. A board that always answers with
// a new cursor must not be walked for ever (C39).
const maxPages = 100

// A walker reads all rows into the snapshot.
type walker struct {
	*batch
	schemas *schemas
}

func (w *walker) walk(ctx context.Context) error {
	if err := w.self(ctx); err != nil {
		return err
	}
	seen := newWalked(w.opts.Now())
	budget := w.opts.Budget
	err := seen.pages(func(cursor string) (p *answer, err error) {
		err = w.gate.within(ctx, listMethod, budget, func() error {
			if cursor == "" {
				seen.started = w.opts.Now() // it may have waited
			}
			p, err = w.api.listPage(ctx, cursor)
			return err
		})
		// A walk that cannot be finished is wasted. Once begun, it takes what
		// the board allows.
		budget = 0
		if err == nil && cursor == "" {
			if p.List != nil {
				err = w.schemas.take(ctx, p.List)
			} else { // the board ignored that we asked for it
				err = w.schemas.ensure(ctx)
			}
			seen.decoder, seen.expected = newDecoder(&w.snap.Schema), w.snap.Schema.Count
		}
		return p, err
	})
	if err != nil {
		return err
	}
	if seen.odd > 0 {
		w.opts.Log.Warn("rows without an id passed over", "rows", seen.odd)
	}
	slices.Reverse(seen.rows) // the list comes newest first, the snapshot has new rows last
	w.take(seen.rows, seen.started)
	return nil
}

// walked is what a walk has seen so far.
type walked struct {
	started  time.Time
	decoder  decoder
	expected int // rows, as the list says; 0 is unknown
	rows     []row
	known    map[string]bool // row ids; a row may come twice when pages shift
	odd      int             // items that are no row
}

func newWalked(started time.Time) *walked {
	return &walked{started: started, known: map[string]bool{}}
}

// pages adds pages until the last one. A list that repeats a cursor is over when
// all its rows have come.
func (w *walked) pages(read func(cursor string) (*answer, error)) error {
	cursors := map[string]bool{}
	for cursor := ""; ; {
		p, err := read(cursor)
		if err != nil {
			return err
		}
		if err := w.add(p); err != nil {
			return err
		}
		cursor = p.Metadata.NextCursor
		switch {
		case cursor == "", cursors[cursor] && len(w.rows) >= w.expected:
			return nil
		case cursors[cursor]:
			return endless("the cursor does not advance")
		}
		if cursors[cursor] = true; len(cursors) >= maxPages {
			return endless(fmt.Sprintf("no end after %d pages with %d different rows", len(cursors), len(w.rows)))
		}
	}
}

// endless is the error of a walk that was given up.
func endless(problem string) error {
	e := unsure(listMethod, problem+": the walk is given up", nil)
	e.Endless = true
	return e
}

func (w *walked) add(p *answer) error {
	if p.Items == nil {
		return unsure(listMethod, "the answer has no page of rows", nil)
	}
	for i := range p.Items {
		r, ok := w.decoder.row(&p.Items[i])
		switch {
		case !ok:
			w.odd++
		case !w.known[r.ID]:
			w.known[r.ID] = true
			w.rows = append(w.rows, row{Row: r, Known: stampOf(w.started)})
		}
	}
	return nil
}

// self asks once as whom we write, which distinguishes our own edits from
// people's.
func (w *walker) self(ctx context.Context) error {
	if w.snap.Self != "" {
		return nil
	}
	return w.gate.do(ctx, authMethod, func() error {
		r, err := w.api.call(ctx, authMethod, nil)
		if err == nil {
			w.snap.Self, w.dirty = r.UserID, true
		}
		return err
	})
}

// take makes the rows of a complete walk the snapshot, except those that
// predate our own writes.
func (w *walker) take(rows []row, started time.Time) {
	old := w.snap
	walked := &snapshot{Rows: rows}
	settled := started.Add(-w.opts.SettleAfter)
	for _, mine := range old.Rows {
		if mine.Wrote == 0 || !mine.Wrote.Time().After(settled) {
			continue
		}
		switch there := walked.row(mine.ID); {
		case there == nil:
			walked.add(mine)
		case !w.opts.Consistent && lags(there, &mine, old.Self):
			*there = mine
		}
	}
	old.Rows, old.index = walked.Rows, nil
	old.WalkStarted = stampOf(started)
	w.dirty = true
}

// lags reports whether the walked row predates our last write to it, which is recent: it
// has a status that we replaced, and nobody touched it since, as far as it says. Nobody
// has if its time and its last editor are those from before the write, or if the last
// editor is ourselves, by an earlier write. (Status and editor count because dates have
// the grain of a second: by them alone, an edit made in the second of our write would
// count as a lag.)
func lags(walked, mine *row, self string) bool {
	if !slices.Contains(mine.Was, walked.Status) {
		return false
	}
	return walked.Updated <= mine.Updated && slices.Contains(mine.WasBy, walked.UpdatedBy) ||
		walked.UpdatedBy == self && walked.Status != mine.Status
}
