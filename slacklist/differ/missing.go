package differ

import (
	"context"
	"maps"
	"slices"

	"otm/core"
	"otm/pipeline"
)

// maxLooks is how many missing rows a comparison asks the board for: Slack limits the
// rate of such calls.
const maxLooks = 5

// expect tells the board which rows a walk should show, so that rows are missed that
// were deleted while OTM was down, or that no snapshot holds.
func expect(b pipeline.Batch, tasks []*core.Task) {
	for _, t := range tasks {
		switch {
		case t.RowID == "" || t.Away():
		case b.Row(t.RowID) == nil:
			b.Expect(pipeline.Row{ID: t.RowID, TaskID: t.ID.String(), Title: t.Title})
		default:
			for _, s := range t.Steps {
				if s.RowID != "" && matters(t, &s) && b.Row(s.RowID) == nil {
					b.Expect(pipeline.Row{ID: s.RowID, Parent: t.RowID, Title: s.Title})
				}
			}
		}
	}
}

// look asks the board for the rows that two walks lacked. more is true if some are
// left to be asked for.
func look(ctx context.Context, b pipeline.Batch, tasks []*core.Task) (more bool, err error) {
	missing := b.Missing()
	if len(missing) == 0 {
		return false, nil
	}
	rows := rowsOf(tasks)
	looks := 0
	for _, m := range missing {
		if m.Walks < 2 || m.Gone || lostOf(b, rows, m.Row) == nil {
			continue
		}
		if looks++; looks > maxLooks {
			return true, nil
		}
		if _, err := b.LookFor(ctx, m.Row.ID); err != nil {
			return true, err
		}
	}
	return false, nil
}

// rowsOf returns the tasks of rows, also of those of steps, by the ids of the rows.
func rowsOf(tasks []*core.Task) map[string]*core.Task {
	rows := map[string]*core.Task{}
	for _, t := range tasks {
		if t.RowID == "" {
			continue
		}
		rows[t.RowID] = t
		for _, s := range t.Steps {
			if s.RowID != "" {
				rows[s.RowID] = t
			}
		}
	}
	return rows
}

// lostOf returns the task that lost something if the row is gone; nil: nothing
// depends on the row any more.
func lostOf(b pipeline.Batch, rows map[string]*core.Task, row *pipeline.Row) *core.Task {
	t := rows[row.ID]
	switch {
	case t == nil || t.Away():
		return nil
	case row.ID == t.RowID:
		return t
	case b.Row(t.RowID) == nil:
		return nil // a row takes its steps along
	}
	if i := slices.IndexFunc(t.Steps, func(s core.Step) bool { return s.RowID == row.ID }); i < 0 || !matters(t, &t.Steps[i]) {
		return nil
	}
	return t
}

// matters reports whether the task loses a step whose row is gone. A finished task keeps
// it, unless its row is still to be written.
func matters(t *core.Task, s *core.Step) bool { return !t.Status.Finished() || s.IsStale() }

// gone makes the commands for rows of which the board says that they are gone.
func (c *comparison) gone() {
	missing := c.Missing()
	if len(missing) == 0 {
		return
	}
	rows := rowsOf(slices.Collect(maps.Values(c.byID)))
	steps := map[pipeline.TaskID][]string{}
	board := core.ByPerson("")
	for _, m := range missing {
		if m.Walks < 2 || !m.Gone {
			continue
		}
		switch t := lostOf(c.Batch, rows, m.Row); {
		case t == nil:
		case t.RowID == m.Row.ID:
			c.add(board, t.ID, core.LoseRow{Row: m.Row.ID})
		default:
			steps[t.ID] = append(steps[t.ID], m.Row.ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(steps)) {
		slices.Sort(steps[id])
		c.add(board, id, core.Edits{Seen: true, Gone: steps[id]})
	}
}
