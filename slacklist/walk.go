package slacklist

import (
	"context"
	"slices"
	"time"
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
	if s.snap.Self == "" {
		self, err := s.c.self(ctx)
		if err != nil {
			return s.noted(err)
		}
		s.snap.Self = self
	}
	if err := s.ready(ctx, "slackLists.items.list"); err != nil {
		return err
	}
	started := s.c.now()
	var rows []row
	seenCursors := map[string]bool{}
	for cursor := ""; ; {
		page, err := s.c.listPage(ctx, cursor)
		if err != nil {
			return s.noted(err)
		}
		if cursor == "" {
			if err := s.schemaFrom(ctx, page); err != nil {
				return err
			}
		}
		for _, raw := range page.Items {
			if r, ok := decodeRow(raw, &s.snap.Schema); ok {
				rows = append(rows, row{Row: r, Known: stampOf(started)})
			}
		}
		cursor = page.Metadata.NextCursor
		if cursor == "" {
			break
		}
		if seenCursors[cursor] {
			return unsure("slackLists.items.list", "the cursor does not advance: the walk is not complete", nil)
		}
		seenCursors[cursor] = true
		if err := s.ready(ctx, "slackLists.items.list"); err != nil {
			return err
		}
	}
	s.take(rows, started)
	return nil
}

// schemaFrom reads the schema from a page, or, where the board ignored that we
// asked for it, by a call of its own if there is none yet.
func (s *Session) schemaFrom(ctx context.Context, p *page) error {
	if len(p.List) > 0 && string(p.List) != "null" {
		return s.takeSchema(p.List)
	}
	return s.ensureSchema(ctx)
}

// take makes the rows of a complete walk the snapshot, except where the walk
// lags behind our own writes.
func (s *Session) take(rows []row, started time.Time) {
	old := s.snap
	walked := &snapshot{Rows: uniqueRows(rows)}
	settled := started.Add(-s.c.opts.SettleAfter)
	for i := range walked.Rows {
		if mine := old.row(walked.Rows[i].ID); mine != nil && lags(&walked.Rows[i], mine, settled) {
			walked.Rows[i] = *mine
		}
	}
	for _, mine := range old.Rows {
		if mine.Wrote != 0 && mine.Wrote.Time().After(settled) && walked.row(mine.ID) == nil {
			walked.add(mine)
		}
	}
	old.Rows, old.index = walked.Rows, nil
	old.WalkStarted, old.WalkEnded = stampOf(started), stampOf(s.c.now())
	s.dirty = true
}

// lags tells whether the walked row is from before our last write to it: the
// write is recent, the row does not say that it was touched since, and it is
// in a state that we wrote over. Dates have the grain of a second, so without
// the last, an edit made in the second of our write would be taken for a lag.
func lags(walked, mine *row, settled time.Time) bool {
	return mine.Wrote != 0 && mine.Wrote.Time().After(settled) && walked.Updated <= mine.Updated &&
		slices.Contains(mine.Was, walked.Status)
}

// uniqueRows drops rows that came twice, as a row may when pages shift.
func uniqueRows(rows []row) []row {
	seen := make(map[string]bool, len(rows))
	return slices.DeleteFunc(rows, func(r row) bool {
		twice := seen[r.ID]
		seen[r.ID] = true
		return twice
	})
}
