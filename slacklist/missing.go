package slacklist

import (
	"context"
	"errors"
	"net/url"
	"slices"

	"otm/pipeline"
)

// A missingRow is a row that complete walks no longer show.
type missingRow struct {
	row
	Walks int  `json:"walks"`          // complete walks in succession that lacked it
	Gone  bool `json:"gone,omitempty"` // the board itself says that it does not exist
}

// maxMissing bounds how many missing rows are kept, the latest first.
const maxMissing = 2000

// takeMissing notes which rows of the last walk the present one lacks. It must
// run before the snapshot takes the rows of the walk.
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

// LookFor implements pipeline.Batch. If the row exists although walks lack it,
// its count of walks begins anew.
func (s *Session) LookFor(ctx context.Context, id string) (gone bool, err error) {
	err = s.gate.do(ctx, infoMethod, func() error {
		r, err := s.api.call(ctx, infoMethod, url.Values{"list_id": {s.api.list}, "id": {id}})
		if err == nil {
			gone = r.Record.Archived // people see it as little as one that is deleted
		}
		return err
	})
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
