package slacklist

import (
	"context"
	"slices"
	"time"

	"otm/pipeline"
)

// Refresh walks the whole list unless the snapshot is at most maxAge old; 0
// walks always. Where it fails, the old snapshot stays, and what it says is as
// old as before: a walk that was cut off says nothing about what it lacks.
func (s *Session) Refresh(ctx context.Context, maxAge time.Duration) error {
	if maxAge > 0 && s.Fresh(maxAge) {
		return nil
	}
	return s.walk(ctx)
}

func (s *Session) walk(ctx context.Context) error {
	if err := s.ensureSelf(ctx); err != nil {
		return err
	}
	// A walk that cannot be finished is for nothing, so it waits until there
	// is room for all its pages.
	const method = "slackLists.items.list"
	pages := max(1, (len(s.snap.Rows)+pageSize-1)/pageSize)
	if err := s.readyFor(ctx, method, s.c.opts.Budget, pages); err != nil {
		return err
	}
	started := s.c.now()
	w := &walked{started: started, cursors: map[string]bool{}, known: map[string]bool{}}
	for cursor := ""; ; {
		page, err := s.c.listPage(ctx, cursor)
		if err := s.answered(method, err); err != nil {
			return err
		}
		if cursor == "" {
			if err := s.schemaFrom(ctx, page); err != nil {
				return err
			}
			w.decoder = newDecoder(&s.snap.Schema)
		}
		if err := w.add(page); err != nil {
			return err
		}
		if cursor = page.cursor; cursor == "" || w.cursors[cursor] && len(w.rows) >= s.snap.Schema.Count {
			break // a list that repeats a cursor is over where all its rows have come
		}
		if w.cursors[cursor] {
			return unsure(method, "the cursor does not advance: the walk is not complete", nil)
		}
		w.cursors[cursor] = true
		// Once begun, it takes what Slack allows, even over our share of it.
		if err := s.readyFor(ctx, method, overShare(s.c.opts.Budget), 1); err != nil {
			return err
		}
	}
	if w.odd > 0 {
		s.c.log.Warn("rows without an id passed over", "rows", w.odd)
	}
	slices.Reverse(w.rows) // the list comes newest first, the snapshot has what we make last
	s.take(w.rows, started)
	return nil
}

func overShare(budget float64) float64 {
	if budget > 0 {
		return max(budget, 1)
	}
	return 0
}

// walked is what a walk has seen so far.
type walked struct {
	started time.Time
	decoder *decoder
	rows    []row
	known   map[string]bool // row ids; a row may come twice when pages shift
	cursors map[string]bool
	odd     int // items that are no row
}

func (w *walked) add(p *page) error {
	whole := eachElement(p.items, func(item []byte) {
		r, ok := w.decoder.row(item)
		switch {
		case !ok:
			w.odd++
		case !w.known[r.ID]:
			w.known[r.ID] = true
			w.rows = append(w.rows, row{Row: r, Known: stampOf(w.started)})
		}
	})
	if !whole {
		return unsure("slackLists.items.list", "the answer has no page of rows", nil)
	}
	return nil
}

// ensureSelf asks once as whom we write, by which our own edits are told from
// those of people.
func (s *Session) ensureSelf(ctx context.Context) error {
	if s.snap.Self != "" {
		return nil
	}
	if err := s.ready(ctx, "auth.test"); err != nil {
		return err
	}
	self, err := s.c.self(ctx)
	if err := s.answered("auth.test", err); err != nil {
		return err
	}
	s.snap.Self, s.dirty = self, true
	return nil
}

// schemaFrom reads the schema from a page, or, where the board ignored that we
// asked for it, by a call of its own if there is none yet.
func (s *Session) schemaFrom(ctx context.Context, p *page) error {
	if p.list != nil {
		return s.takeSchema(p.list)
	}
	return s.ensureSchema(ctx)
}

// take makes the rows of a complete walk the snapshot, except where the walk
// lags behind our own writes.
func (s *Session) take(rows []row, started time.Time) {
	old := s.snap
	walked := &snapshot{Rows: rows}
	settled := started.Add(-s.c.opts.SettleAfter)
	for i := range walked.Rows {
		if mine := old.row(walked.Rows[i].ID); mine != nil && lags(&walked.Rows[i], mine, settled, old.Self) {
			walked.Rows[i] = *mine
		}
	}
	for _, mine := range old.Rows {
		if mine.Wrote != 0 && mine.Wrote.Time().After(settled) && walked.row(mine.ID) == nil {
			walked.add(mine)
		}
	}
	old.takeMissing(walked)
	old.Rows, old.index = walked.Rows, nil
	old.WalkStarted, old.WalkEnded = stampOf(started), stampOf(s.c.now())
	s.dirty = true
}

// lags tells whether the walked row is from before our last write to it: the
// write is recent, the row is in a state that we wrote over, shows nothing of what
// we wrote, and does not say that anybody touched it since. Nobody has where its
// time and who touched it last are those we knew before the write, or where we
// ourselves are said to have touched it last, by an earlier write. (The state and
// the person count, as dates have the grain of a second: by them alone, an edit
// made in the second of our write would count as a lag.)
func lags(walked, mine *row, settled time.Time, self string) bool {
	if mine.Wrote == 0 || !mine.Wrote.Time().After(settled) || !slices.Contains(mine.Was, walked.Status) || showsWrite(walked, mine) {
		return false
	}
	known := len(mine.WasBy) == 0 || slices.Contains(mine.WasBy, walked.UpdatedBy) // snapshots of before have none
	return walked.Updated <= mine.Updated && known || walked.UpdatedBy == self && walked.Status != mine.Status
}

// showsWrite tells whether a walked row has what our last write made of a cell:
// any but the status, which a person may have set back since.
func showsWrite(walked, mine *row) bool {
	if mine.Last == nil {
		return false
	}
	old, now, seen := textsOf(mine.Last), textsOf(&mine.Row), textsOf(&walked.Row)
	for i := range now {
		if now[i] != old[i] && now[i] == seen[i] {
			return true
		}
	}
	return false
}

// textsOf are the cells that tell one version of a row from another.
func textsOf(r *pipeline.Row) [9]string {
	return [...]string{r.Title, r.TaskID, r.Assignee, r.Reason, r.Result, r.AssignedAt, r.CompletedAt, orNone(r.Remaining), orNone(r.Completion)}
}

func orNone(n *float64) string {
	if n == nil {
		return ""
	}
	return numberText(*n)
}
