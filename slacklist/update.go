package slacklist

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/slack-go/slack"

	"otm/internal/crash"
	"otm/pipeline"
)

// maxCells is how many cells one items.update takes.
const maxCells = 100

// Update writes cells to rows. Where the board takes several rows in one call,
// it is as few calls as possible; else one a row, in the given order. Whether
// it does is tried once, with the first change that touches two rows, and
// believed only after reading the rows again.
//
// Where the error says MaybeApplied, any part may have been written. Rows that
// were written are patched in the snapshot even if a later one failed.
func (s *Session) Update(ctx context.Context, changes ...pipeline.Change) error {
	if err := s.ensureSchema(ctx); err != nil {
		return err
	}
	if len(changes) > 1 && s.snap.MultiRow == "" {
		return s.tryMultiRow(ctx, changes)
	}
	groups := [][]pipeline.Change{changes}
	if s.snap.MultiRow != "yes" {
		groups = oneByOne(changes)
	}
	for _, group := range groups {
		if err := s.write(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

func oneByOne(changes []pipeline.Change) [][]pipeline.Change {
	groups := make([][]pipeline.Change, len(changes))
	for i, c := range changes {
		groups[i] = []pipeline.Change{c}
	}
	return groups
}

// tryMultiRow sends several rows in one call and reads back what became of it.
func (s *Session) tryMultiRow(ctx context.Context, changes []pipeline.Change) error {
	err := s.write(ctx, changes)
	var e *pipeline.BoardError
	if errors.As(err, &e) && e.Class == pipeline.Refused && !e.RowGone {
		return s.fallBack(ctx, changes)
	}
	if err != nil {
		return err
	}
	want := make([]pipeline.Row, len(changes))
	for i, c := range changes {
		if r := s.snap.row(c.Row); r != nil {
			want[i] = r.Row
			r.Wrote = 0 // let the walk speak for itself
		}
	}
	if err := s.walk(ctx); err != nil {
		return nil // written, but not verified: tried again the next time
	}
	for i := range want {
		got := s.snap.row(want[i].ID)
		if got == nil || !sameCells(&got.Row, &want[i]) {
			return s.fallBack(ctx, changes)
		}
	}
	s.multiRow("yes")
	return nil
}

// fallBack writes row by row, and if that succeeds, remembers that several
// rows at once were the trouble.
func (s *Session) fallBack(ctx context.Context, changes []pipeline.Change) error {
	for _, group := range oneByOne(changes) {
		if err := s.write(ctx, group); err != nil {
			return err
		}
	}
	s.multiRow("no")
	return nil
}

func (s *Session) multiRow(answer string) {
	s.snap.MultiRow = answer
	s.dirty = true
	s.c.log.Info("tried to update several rows in one call", "works", answer)
}

// sameCells compares what we may have written.
func sameCells(a, b *pipeline.Row) bool {
	return a.Status == b.Status && a.Checked == b.Checked && a.Reason == b.Reason && a.Result == b.Result &&
		a.AssignedAt == b.AssignedAt && a.CompletedAt == b.CompletedAt &&
		sameNumber(a.Remaining, b.Remaining) && sameNumber(a.Completion, b.Completion)
}

func sameNumber(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// write sends the changes of a group, in calls of at most maxCells cells.
func (s *Session) write(ctx context.Context, group []pipeline.Change) error {
	return s.withSchema(ctx, func() error {
		var cells []slack.ListItemCell
		first := 0
		for i, change := range group {
			fields, err := s.encoder().encode(change.Cells)
			if err != nil {
				return err
			}
			if len(cells)+len(fields) > maxCells {
				if err := s.call(ctx, cells, group[first:i]); err != nil {
					return err
				}
				cells, first = nil, i
			}
			for _, f := range fields {
				cells = append(cells, slack.ListItemCell{ListItemField: f, RowID: change.Row})
			}
		}
		return s.call(ctx, cells, group[first:])
	})
}

func (s *Session) call(ctx context.Context, cells []slack.ListItemCell, changes []pipeline.Change) error {
	if len(cells) == 0 {
		return nil // slack-go would send null
	}
	if err := s.ready(ctx, "slackLists.items.update"); err != nil {
		return err
	}
	if err := s.aheadOfSnapshot(); err != nil {
		return err
	}
	asked := s.c.now()
	crash.Point("update.before")
	err := s.c.updateCells(ctx, cells)
	crash.Point("update.after")
	if err != nil {
		return s.noted(err)
	}
	for _, change := range changes {
		if r := s.snap.row(change.Row); r != nil {
			s.patched(r, change.Cells, asked)
		}
	}
	return nil
}

// patched notes in the snapshot what was written to a row.
func (s *Session) patched(r *row, cells []pipeline.Cell, asked time.Time) {
	if r.Wrote == 0 {
		r.Was = nil
	}
	r.Was = append(r.Was, r.Status)
	s.encoder().patch(&r.Row, cells)
	if writes(cells, pipeline.FieldTaskID) {
		s.snap.index = nil
	}
	r.UpdatedBy = s.snap.Self
	r.Wrote = stampOf(s.c.now())
	if writes(cells, pipeline.FieldStatus) {
		r.Known = stampOf(asked)
	}
}

func writes(cells []pipeline.Cell, field pipeline.Field) bool {
	return slices.ContainsFunc(cells, func(c pipeline.Cell) bool { return c.Field == field })
}
