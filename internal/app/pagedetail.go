package app

import (
	"context"
	"fmt"
	"slices"

	"otm/internal/page"
	"otm/internal/why"
	"otm/pipeline"
	"otm/slacklist"
)

// Detail implements page.Source.
func (p *pageReader) Detail(ctx context.Context, row string) (*page.Detail, error) {
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
		return p.detailOfTyped(ctx, snap, &snap.Rows[i])
	}
	rec, err := p.home.record(id)
	if err != nil {
		return nil, err
	}
	if rec != nil && rec.RowID != "" && rec.RowID != row {
		return &page.Detail{Why: fmt.Sprintf("it bears the id of %v, which is another row: clear the Task ID of this one", id)}, nil
	}
	v, err := loadView(ctx, p.home, snap)
	if err != nil {
		return nil, err
	}
	reason, err := why.Of(v, id)
	if err != nil {
		return nil, err
	}
	d := &page.Detail{Why: reason.Sentence, Next: reason.Next}
	if rec == nil {
		return d, nil
	}
	for _, e := range rec.History {
		d.History = append(d.History, page.Event{At: e.At, Who: e.Who, What: e.What, Detail: e.Detail})
	}
	return d, nil
}

// detailOfTyped is for a row that bears no task's id.
func (p *pageReader) detailOfTyped(ctx context.Context, snap *slacklist.Snapshot, row *pipeline.Row) (*page.Detail, error) {
	v, err := loadView(ctx, p.home, snap)
	if err != nil {
		return nil, err
	}
	reason, err := why.OfRow(v, row)
	if err != nil {
		return nil, err
	}
	return &page.Detail{Why: reason.Sentence, Next: reason.Next}, nil
}

var errGone = &page.Refusal{Reason: "the row is no longer on the board"}
