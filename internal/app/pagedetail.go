package app

import (
	"context"
	"fmt"
	"slices"

	"otm/internal/page"
	"otm/pipeline"
	"otm/slacklist"
)

// Detail implements page.Source.
func (p *pageSource) Detail(ctx context.Context, row string) (*page.Detail, error) {
	snap, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(snap.Rows, func(r pipeline.Row) bool { return r.ID == row })
	if i < 0 || snap.Rows[i].Parent != "" {
		return nil, errGone
	}
	id := snap.Rows[i].Task()
	if id == 0 {
		return p.detailOfTyped(snap, &snap.Rows[i])
	}
	rec, err := p.home.record(id)
	if err != nil {
		return nil, err
	}
	if rec != nil && rec.RowID != "" && rec.RowID != row {
		return &page.Detail{Why: fmt.Sprintf("it bears the id of %v, which is another row: clear the Task ID of this one", id)}, nil
	}
	s, err := p.home.situationOf(snap)
	if err != nil {
		return nil, err
	}
	why, err := s.why(id)
	if err != nil {
		return nil, err
	}
	d := &page.Detail{Why: why.Sentence, Next: why.Next}
	if rec == nil {
		return d, nil
	}
	for _, e := range rec.History {
		d.History = append(d.History, page.Event{At: e.At, Who: e.Who, What: e.What, Detail: e.Detail})
	}
	return d, nil
}

// detailOfTyped is for a row that bears no task's id.
func (p *pageSource) detailOfTyped(snap *slacklist.Snapshot, row *pipeline.Row) (*page.Detail, error) {
	s, err := p.home.situationOf(snap)
	if err != nil {
		return nil, err
	}
	why, err := s.whyRow(row)
	if err != nil {
		return nil, err
	}
	return &page.Detail{Why: why.Sentence, Next: why.Next}, nil
}

var errGone = &page.Refusal{Reason: "the row is no longer on the board"}
