package fsck

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"otm/core"
	"otm/core/outbox"
	"otm/internal/explain"
	"otm/pipeline"
)

// rows looks for ids that stand in several rows, or in another row than their task's.
func (c *check) rows() error {
	for _, id := range slices.Sorted(maps.Keys(c.board.Bearers)) {
		rows, t := c.board.Bearers[id], c.tasks[id]
		switch {
		case len(rows) > 1:
			c.found(RuleRow, id, "", explain.RowsTwice, "n", len(rows), "rows", idsOf(rows), "others", c.others(t))
		case t != nil && t.RowID != "" && rows[0].ID != t.RowID:
			c.found(RuleRow, id, "", explain.RowForeign, "title", rows[0].Title, "taken", taken(t))
		}
	}
	for i := range c.Rows {
		if r := &c.Rows[i]; r.Parent != "" && c.board.Row(r.Parent) == nil {
			c.found(RuleSteps, 0, "", explain.StepOrphan, "title", r.Title)
		}
	}
	return nil
}

func idsOf(rows []*pipeline.Row) string {
	return strings.Join(pipeline.Map(rows, func(r *pipeline.Row) string { return r.ID }), ", ")
}

// others names the rows that are not the task's.
func (c *check) others(t *core.Task) string {
	if t == nil || c.board.Row(t.RowID) == nil {
		return "those that are not it"
	}
	return "all but " + t.RowID
}

// taken says what became of a task's row while another one bears its id.
func taken(t *core.Task) string {
	switch {
	case !t.ArchivedAt.IsZero():
		return ": it was archived, see otm history " + t.ID.String()
	case !t.GoneAt.IsZero():
		return ": that was deleted"
	}
	return ""
}

// rowsOfTasks looks for the rows of the tasks and of their steps.
func (c *check) rowsOfTasks() error {
	for _, id := range slices.Sorted(maps.Keys(c.tasks)) {
		t := c.tasks[id]
		if t.Away() || t.RowID == "" {
			continue
		}
		row := c.board.Row(t.RowID)
		if row == nil && !c.Quiet && t.Status.Finished() {
			continue // a person tidied up, which the next look notices
		}
		if row == nil {
			c.found(RuleRow, id, "", explain.RowMissing, "row", t.RowID)
			continue
		}
		if row.Task() != id {
			c.found(RuleRow, id, "", explain.RowIDLost, "title", row.Title, "says", says(row.TaskID))
		}
		c.stepsOf(t)
		if c.Quiet && !row.Odd {
			c.shown(t, row)
		}
	}
	return nil
}

// stepsOf looks for the rows of a task's steps.
func (c *check) stepsOf(t *core.Task) {
	own := map[string]bool{}
	for i, s := range t.Steps {
		own[s.RowID] = true
		step := c.board.Row(s.RowID)
		switch {
		case s.RowID == "":
		case step == nil && t.Status.Finished(): // a person tidied up: the task keeps the step
		case step == nil:
			c.found(RuleSteps, t.ID, "", explain.StepGone, "n", i+1, "title", s.Title)
		case step.Parent != t.RowID:
			c.found(RuleSteps, t.ID, "", explain.StepMoved, "n", i+1, "title", s.Title)
		}
	}
	for _, r := range c.board.StepsOf[t.RowID] {
		if !own[r.ID] && c.Quiet {
			c.found(RuleSteps, t.ID, "", explain.StepMore, "title", r.Title)
		}
	}
}

// shown compares the row of a task with the task in the store, at rest.
func (c *check) shown(t *core.Task, row *pipeline.Row) {
	differs := func(what string, shows, is any) {
		if shows != is {
			c.found(RuleShown, t.ID, "", explain.RowDiffers, "what", what, "shows", shows, "is", is)
		}
	}
	differs("status", row.CurrentStatus(), t.Status)
	differs("title", row.Title, t.Title)
	for i, s := range t.Steps {
		if step := c.board.Row(s.RowID); step != nil {
			differs(fmt.Sprintf("tick of step %d", i+1), step.StepDone(), s.Done)
		}
	}
}

func says(cell string) string {
	if cell == "" {
		return "is empty"
	}
	return fmt.Sprintf("says %q", cell)
}

// halfMade looks for effects that are not delivered: any at rest, else those that have
// failed for long.
func (c *check) halfMade() error {
	for _, p := range c.pending {
		if !c.Quiet && (p.Error == "" || !outbox.IsLate(p, c.Now)) {
			continue
		}
		c.add(RuleHalfMade, "", outbox.Finding(p))
	}
	return nil
}
