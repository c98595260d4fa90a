package slacklist

import (
	"context"
	"errors"
	"slices"

	"otm/internal/crash"
	"otm/pipeline"
)

// missingRow is a row that complete walks no longer show.
type missingRow struct {
	row
	Walks int  `json:"walks"`          // complete walks in a row that lacked it
	Gone  bool `json:"gone,omitempty"` // the board, asked for it, did not have it either
}

// maxMissing bounds what is remembered, the latest first.
const maxMissing = 2000

// takeMissing notes which rows of the last walk the present one lacks. It is
// called before the rows of the walk become those of the snapshot.
func (s *snapshot) takeMissing(walked *snapshot) {
	var now []missingRow
	for _, r := range s.Rows {
		if walked.row(r.ID) == nil {
			now = append(now, missingRow{row: r, Walks: 1})
		}
	}
	for _, m := range s.Missing {
		if walked.row(m.ID) == nil {
			m.Walks++
			now = append(now, m)
		}
	}
	s.Missing = now[:min(len(now), maxMissing)]
}

// Missing implements pipeline.Batch.
func (s *Session) Missing() []pipeline.Missing {
	out := make([]pipeline.Missing, len(s.snap.Missing))
	for i := range s.snap.Missing {
		m := &s.snap.Missing[i]
		out[i] = pipeline.Missing{Row: &m.Row, Walks: m.Walks, Gone: m.Gone}
	}
	return out
}

// Expect implements pipeline.Batch.
func (s *Session) Expect(r pipeline.Row) {
	isIt := func(m missingRow) bool { return m.ID == r.ID }
	if s.snap.WalkStarted == 0 || s.snap.row(r.ID) != nil || len(s.snap.Missing) >= maxMissing || slices.ContainsFunc(s.snap.Missing, isIt) {
		return
	}
	s.snap.Missing = append(s.snap.Missing, missingRow{row: row{Row: r}, Walks: 1})
	s.dirty = true
}

// LookFor implements pipeline.Batch. A row that is there although walks lack
// it begins to be missing anew.
func (s *Session) LookFor(ctx context.Context, id string) (gone bool, err error) {
	const method = "slackLists.items.info"
	if err := s.ready(ctx, method); err != nil {
		return false, err
	}
	archived, err := s.c.rowInfo(ctx, id)
	err = s.answered(method, err)
	gone = archived
	var e *pipeline.BoardError
	if errors.As(err, &e) && slices.Contains(goneCodes, e.Code) {
		gone, err = true, nil
	}
	if err != nil {
		return false, err
	}
	for i := range s.snap.Missing {
		if m := &s.snap.Missing[i]; m.ID == id {
			if m.Gone = gone; !gone {
				m.Walks = 0
			}
			s.dirty = true
		}
	}
	return gone, nil
}

// rowInfo asks for one row, and tells whether it is archived: people see it as
// little as one that is deleted.
func (c *Client) rowInfo(ctx context.Context, id string) (archived bool, err error) {
	body, err := c.do(ctx, "slackLists.items.info", func(ctx context.Context) error {
		_, err := c.api.GetListItemInfoContext(ctx, c.opts.ListID, id)
		return err
	})
	if err != nil {
		return false, err
	}
	return string(member(member(body, "record"), "archived")) == "true", nil
}

// maxDeleted is how many rows one call deletes. Slack publishes no limit.
const maxDeleted = 50

// Delete deletes rows, with their steps. Rows that are not there are no error,
// so after a lost answer it is asked again. That they are gone, only a walk
// tells (facts 1.10: no result a row).
func (s *Session) Delete(ctx context.Context, ids ...string) error {
	for len(ids) > 0 {
		some := ids[:min(len(ids), maxDeleted)]
		ids = ids[len(some):]
		if err := s.deleteSome(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) deleteSome(ctx context.Context, ids []string) error {
	const method = "slackLists.items.deleteMultiple"
	if err := s.ready(ctx, method); err != nil {
		return err
	}
	if err := s.aheadOfSnapshot(); err != nil {
		return err
	}
	crash.Point("delete.before")
	_, err := s.c.do(ctx, method, func(ctx context.Context) error {
		return s.c.api.DeleteListItemsContext(ctx, s.c.opts.ListID, ids)
	})
	crash.Point("delete.after")
	if err := s.answered(method, err); err != nil {
		return err
	}
	s.snap.remove(ids)
	return nil
}

// remove takes rows and their steps out of the snapshot.
func (s *snapshot) remove(ids []string) {
	out := map[string]bool{}
	for _, id := range ids {
		out[id] = true
	}
	kept := s.Rows[:0]
	for _, r := range s.Rows {
		if !out[r.ID] && !out[r.Parent] {
			kept = append(kept, r)
		}
	}
	s.Rows, s.index = kept, nil
}
