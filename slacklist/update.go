package slacklist

import (
	"context"
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
	if s.snap.MultiRow == "yes" {
		return s.write(ctx, changes)
	}
	return s.oneByOne(ctx, changes)
}

// tryMultiRow sends several rows in one call and reads back what became of it.
// If we crash before the answer is remembered, the next change tries again.
func (s *Session) tryMultiRow(ctx context.Context, changes []pipeline.Change) error {
	before := s.copies(changes)
	err := s.write(ctx, changes)
	if pipeline.IsRefused(err) && !isGone(err) {
		return s.fallBack(ctx, changes)
	}
	if err != nil {
		return err
	}
	wrote := s.copies(changes)
	for id := range wrote {
		s.snap.row(id).Wrote = 0 // let the walk speak for itself
	}
	if err := s.walk(ctx); err != nil {
		for id, r := range wrote {
			s.snap.row(id).Wrote = r.Wrote
		}
		return s.oneByOne(ctx, changes) // perhaps the first row alone took it
	}
	if s.walkedBefore(before) {
		s.restore(wrote)
		return s.oneByOne(ctx, changes)
	}
	shown := 0
	for _, c := range changes {
		if s.shows(c) {
			shown++
		}
	}
	switch shown {
	case len(changes):
		s.multiRow("yes")
		return nil
	case 0:
		// The walk is older than the write, or nothing was written: which of
		// the two, the next time may tell.
		return s.oneByOne(ctx, changes)
	}
	return s.fallBack(ctx, changes)
}

// copies are the rows of changes as they are known now.
func (s *Session) copies(changes []pipeline.Change) map[string]row {
	rows := map[string]row{}
	for _, c := range changes {
		if r := s.snap.row(c.Row); r != nil {
			kept := *r
			kept.Was, kept.WasBy = slices.Clone(r.Was), slices.Clone(r.WasBy)
			rows[c.Row] = kept
		}
	}
	return rows
}

// walkedBefore tells whether the last walk shows one of the rows as it was even
// before earlier writes of ours: then it says nothing of the last one.
func (s *Session) walkedBefore(rows map[string]row) bool {
	settled := s.snap.WalkStarted.Time().Add(-s.c.opts.SettleAfter)
	for id, mine := range rows {
		if walked := s.snap.row(id); walked != nil && lags(walked, &mine, settled, s.snap.Self) {
			return true
		}
	}
	return false
}

// restore makes rows in the snapshot what they were.
func (s *Session) restore(rows map[string]row) {
	for id, mine := range rows {
		if r := s.snap.row(id); r != nil {
			*r = mine
		}
	}
	s.snap.index = nil
}

// shows tells whether a row is as a change makes it.
func (s *Session) shows(c pipeline.Change) bool {
	r := s.snap.row(c.Row)
	if r == nil {
		return false
	}
	after := r.Row
	s.encoder().patch(&after, c.Cells)
	return sameCells(&after, &r.Row)
}

// fallBack writes row by row, and if that succeeds, remembers that several
// rows at once were the trouble.
func (s *Session) fallBack(ctx context.Context, changes []pipeline.Change) error {
	if err := s.oneByOne(ctx, changes); err != nil {
		return err
	}
	s.multiRow("no")
	return nil
}

func (s *Session) oneByOne(ctx context.Context, changes []pipeline.Change) error {
	for _, c := range changes {
		if err := s.write(ctx, []pipeline.Change{c}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) multiRow(answer string) {
	s.snap.MultiRow = answer
	s.dirty = true
	s.c.log.Info("tried to update several rows in one call", "works", answer)
}

// sameCells compares all that a change may write.
func sameCells(a, b *pipeline.Row) bool {
	return a.Title == b.Title && a.TaskID == b.TaskID && a.Type == b.Type && a.Assignee == b.Assignee &&
		a.Project == b.Project && a.Priority == b.Priority &&
		a.Status == b.Status && a.Checked == b.Checked && a.Reason == b.Reason && a.Result == b.Result &&
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
	var all []pipeline.Cell
	for _, change := range group {
		all = append(all, change.Cells...)
	}
	return s.withSchema(ctx, all, func() error {
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
	for _, change := range changes {
		r := s.snap.row(change.Row)
		switch {
		case r == nil:
		case err == nil:
			s.patched(r, change.Cells, asked)
		case pipeline.MaybeApplied(err):
			r.Known = 0 // what it shows now, only a walk can tell
		}
	}
	return s.answered("slackLists.items.update", err)
}

// patched notes in the snapshot what was written to a row.
func (s *Session) patched(r *row, cells []pipeline.Cell, asked time.Time) {
	if r.Wrote == 0 {
		r.Was, r.WasBy = nil, nil
	}
	r.Was, r.WasBy = append(r.Was, r.Status), append(r.WasBy, r.UpdatedBy)
	last := r.Row
	r.Last = &last
	s.encoder().patch(&r.Row, cells)
	if writes(cells, pipeline.FieldTaskID) {
		s.snap.index = nil
	}
	if r.UpdatedBy = s.snap.Self; s.c.opts.As != nil {
		r.UpdatedBy = s.c.opts.As.User
	}
	r.Wrote = stampOf(s.c.now())
	if writes(cells, pipeline.FieldStatus) {
		r.Known = stampOf(asked)
	}
}

func writes(cells []pipeline.Cell, field pipeline.Field) bool {
	return slices.ContainsFunc(cells, func(c pipeline.Cell) bool { return c.Field == field })
}
