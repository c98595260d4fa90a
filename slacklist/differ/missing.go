package differ

import (
	"context"

	"otm/core"
	"otm/pipeline"
)

// maxLooks is how many missing rows a run asks the board for: Slack limits the rate of
// such calls.
const maxLooks = 5

// missingRow is a row of a task that the last walk lacks.
type missingRow struct {
	task *core.Task
	id   string
}

// missing returns the rows that the last walk should show. It also knows of rows that
// were deleted while OTM was down, as the tasks name them. A row takes its steps along.
func missing(b pipeline.Batch, tasks []*core.Task) (rows []missingRow) {
	if b.WalkAt().IsZero() {
		return nil
	}
	for _, t := range tasks {
		switch {
		case t.RowID == "" || t.Away():
		case b.Row(t.RowID) == nil:
			rows = append(rows, missingRow{t, t.RowID})
		default:
			for _, s := range t.Steps {
				// A finished task keeps a step whose row is gone, unless it is still to be written.
				if s.RowID != "" && b.Row(s.RowID) == nil && (!t.Status.Finished() || s.IsStale()) {
					rows = append(rows, missingRow{t, s.RowID})
				}
			}
		}
	}
	return rows
}

// gone asks the board for the rows that the last walk lacks, which means nothing by
// itself, and makes the commands for those that the board does not have. Trouble with
// that is no trouble of the comparison: later runs ask for the other rows.
func (c *comparison) gone(ctx context.Context, tasks []*core.Task) {
	for n, row := range missing(c.Batch, tasks) {
		if n == maxLooks {
			c.again(c.now.Add(lookAgain))
			return
		}
		gone, err := c.IsGone(ctx, row.id)
		switch {
		case err != nil:
			c.Log.Info("missing row not looked up on the board", "err", err)
			c.again(c.now.Add(lookAgain))
			return
		case gone && row.id == row.task.RowID:
			c.add(core.ByPerson(""), row.task.ID, core.LoseRow{Row: row.id})
		case gone:
			c.add(core.ByPerson(""), row.task.ID, core.Edits{Seen: true, Gone: []string{row.id}})
		}
	}
}
