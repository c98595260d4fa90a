package slacklist

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"otm/pipeline"
)

// maxPages bounds one walk. No list of Slack holds more than 5,000 rows, but an
// embedded board may, and pages may be short. A board that always answers with
// a new cursor must not be walked for ever (C39).
const maxPages = 100

// A walker reads all rows into the snapshot.
type walker struct {
	*batch
	schemas *schemas
	rows    *decodedRows
}

// decodedRows caches the rows of the last walk by the hashes of their items. Few items
// change between walks, and most of the time of a walk goes into decoding.
type decodedRows struct {
	schema string // fields and columns by which they were decoded; others make the cache invalid
	rows   map[uint64]pipeline.Row
}

var hashSeed = maphash.MakeSeed()

// begin begins a walk, and returns the function that decodes its items. It returns false for
// an item without an id.
func (d *decodedRows) begin(schema *Schema) func(raw []byte) (pipeline.Row, bool) {
	before, columns := d.rows, fmt.Sprint(schema.Fields, schema.Columns)
	if columns != d.schema {
		before = nil
	}
	*d = decodedRows{schema: columns, rows: make(map[uint64]pipeline.Row, len(before))}
	decoder := newDecoder(schema)
	return func(raw []byte) (r pipeline.Row, ok bool) {
		hash := maphash.Bytes(hashSeed, raw)
		if r, ok = before[hash]; !ok {
			var it item
			decode(raw, &it)
			r, ok = decoder.row(&it)
		}
		if ok {
			d.rows[hash] = r
		}
		return r, ok
	}
}

// walk takes pages until the last one. A list that repeats a cursor is over when all its
// rows have come.
func (w *walker) walk(ctx context.Context) error {
	if err := w.self(ctx); err != nil {
		return err
	}
	var started time.Time
	var rows []row
	var toRow func(raw []byte) (pipeline.Row, bool)
	known, cursors := map[string]bool{}, map[string]bool{} // a row may come twice when pages shift
	for cursor := ""; ; {
		p, asked, err := w.page(ctx, cursor)
		if err != nil {
			return err
		}
		if cursor == "" {
			started, toRow = asked, w.rows.begin(&w.snap.Schema)
		}
		for _, raw := range p.Items {
			if r, ok := toRow(raw); ok && !known[r.ID] {
				known[r.ID] = true
				rows = append(rows, row{Row: r, Known: stampOf(started)})
			}
		}
		cursor = p.Metadata.NextCursor
		switch {
		case cursor == "", cursors[cursor] && len(rows) >= w.snap.Schema.Count:
			slices.Reverse(rows) // the list comes newest first, the snapshot has new rows last
			w.take(rows, started)
			return nil
		case cursors[cursor]:
			return endless("the cursor does not advance")
		}
		if cursors[cursor] = true; len(cursors) >= maxPages {
			return endless(fmt.Sprintf("no end after %d pages with %d different rows", len(cursors), len(rows)))
		}
	}
}

// page reads a page, and the schema with the first one. asked is when the call left: it
// may have waited. A walk that cannot be finished is wasted, so once begun, it takes what
// the board allows.
func (w *walker) page(ctx context.Context, cursor string) (p *answer, asked time.Time, err error) {
	budget := 0.0
	if cursor == "" {
		budget = w.opts.Budget
	}
	err = w.gate.within(ctx, listMethod, budget, func() error {
		asked = w.opts.Now()
		p, err = w.api.listPage(ctx, cursor)
		return err
	})
	switch {
	case err != nil:
	case p.Items == nil:
		err = unsure(listMethod, "the answer has no page of rows", nil)
	case cursor != "":
	case p.List != nil:
		err = w.schemas.take(ctx, p.List)
	default: // the board ignored that we asked for the list
		err = w.schemas.ensure(ctx)
	}
	return p, asked, err
}

// endless is the error of a walk that was given up.
func endless(problem string) error {
	e := unsure(listMethod, problem+": the walk is given up", nil)
	e.Endless = true
	return e
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
