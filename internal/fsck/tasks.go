package fsck

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/history"
)

func (c *check) readRows() error {
	for i := range c.Rows {
		r := &c.Rows[i]
		c.byID[r.ID] = r
		if r.Parent != "" {
			c.steps[r.Parent] = append(c.steps[r.Parent], r)
		} else if id := r.Task(); id != 0 {
			c.saw(id)
			c.tops[id] = append(c.tops[id], r)
		}
	}
	return nil
}

// rowBearing is a row that bears the id of a task and is no other's; nil where
// none does.
func (c *check) rowBearing(id pipeline.TaskID) *pipeline.Row {
	for _, row := range c.tops[id] {
		if owner := c.owners[row.ID]; owner == 0 || owner == id {
			return row
		}
	}
	return nil
}

// tended tells whether the dispatcher looks at a row of which there is no
// record, and makes one: not where it is nobody's yet, is over and was no
// agent's, or cannot be understood. Package dispatch has the same in look.
func (c *check) tended(row *pipeline.Row) bool {
	status, agent := row.CurrentStatus(), c.Agents.Assigned(row.Assignee)
	switch {
	case row.Odd && (row.Assignee == "" || row.Status == ""):
		return false
	case status == pipeline.New:
		return row.Assignee != ""
	}
	return status.Active() || agent != nil && !agent.Person
}

// rows looks for tasks that stand twice, and for rows whose task nobody knows.
func (c *check) rows() error {
	for _, id := range sorted(c.tops) {
		rows, rec := c.tops[id], c.records[id]
		switch {
		case len(rows) > 1:
			c.found(RuleRow, id, "", "clear the Task ID of "+c.others(rec)+" on the board, or delete them", "%d rows bear its id: %s", len(rows), idsOf(rows))
		case rec != nil && rec.RowID != "" && rows[0].ID != rec.RowID:
			c.found(RuleRow, id, "", "clear the Task ID of that row on the board: it becomes a task of its own", "the row %q bears its id, and is not its row%s", rows[0].Title, taken(rec))
		}
		if row := c.rowBearing(id); row != nil && rec == nil && c.unread[id] == nil && !c.waiting[id] && c.tended(row) {
			c.found(RuleRecord, id, RunAgain, "otm-dispatcher --once   # makes it anew from the board", "it stands on the board, and has no record")
		}
	}
	for _, parent := range sorted(c.steps) {
		if c.byID[parent] == nil {
			c.found(RuleSteps, 0, "", "delete it on the board", "the step %q stands under a row that is not there", c.steps[parent][0].Title)
		}
	}
	return nil
}

func idsOf(rows []*pipeline.Row) string {
	var ids []string
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	return strings.Join(ids, ", ")
}

// others names the rows that are not the one of a record.
func (c *check) others(rec *pipeline.Record) string {
	if rec == nil || c.byID[rec.RowID] == nil {
		return "those that are not it"
	}
	return "all but " + rec.RowID
}

// taken says what became of the row of a task, as others bear its id.
func taken(rec *pipeline.Record) string {
	switch {
	case rec.ArchivedAt != nil:
		return ": it was archived, see otm history " + rec.TaskID.String()
	case rec.GoneAt != nil:
		return ": that was deleted"
	}
	return ""
}

// recordsAndSteps holds each record against its row and the rows of its steps.
func (c *check) recordsAndSteps() error {
	for _, id := range sorted(c.records) {
		rec := c.records[id]
		row := c.byID[rec.RowID]
		switch {
		case rec.RowID == "":
			c.rowless(rec)
			continue
		case row == nil && rec.ArchivedAt != nil && c.archived[id] == nil && !c.historyUnread:
			c.found(RuleHistory, id, WriteHistory, "otm fsck --repair   # writes it from the record", "it was archived at %s, and %s does not have it", rec.ArchivedAt.UTC().Format(time.RFC3339), history.FileName)
			continue
		case row == nil && (rec.GoneAt != nil || rec.ArchivedAt != nil):
			continue // said, or taken off
		case row == nil && rec.Status.Finished() && !c.Quiet:
			continue // it needs none; that it is gone will be noted
		case row == nil:
			c.found(RuleRow, id, RunAgain, "otm-dispatcher --once   # two looks later it counts as deleted", "its row %s is not on the board", rec.RowID)
			continue
		case row.Task() != id:
			c.found(RuleRow, id, RunAgain, "otm-dispatcher --once   # writes it back, once the row has been left alone for a while", "the Task ID of its row %q %s", row.Title, says(row.TaskID))
		}
		c.stepsOf(rec, row)
		c.stepsAsked(rec)
		c.seen(rec, row)
		c.halfMade(rec)
	}
	return nil
}

func says(cell string) string {
	if cell == "" {
		return "is empty"
	}
	return fmt.Sprintf("says %q", cell)
}

// rowless is for a record that knows no row. One whose create failed needs none.
func (c *check) rowless(rec *pipeline.Record) {
	id := rec.TaskID
	processed := nameIn(c.processed, rec)
	switch {
	case c.waiting[id] || !c.Quiet || nameIn(c.failed, rec) != "":
	case c.rowBearing(id) != nil:
		c.found(RuleHalfMade, id, "", c.remake(rec), "a row bears its id, and its record knows none")
	case processed != "":
		c.found(RuleHalfMade, id, "", c.again(processed), "its row was never made, and its create counts as handled")
	default:
		c.found(RuleHalfMade, id, "", c.setAside(id)+" && "+createLine(rec), "its row was never made, and its create is not there any more")
	}
}

// createLine is the command that asks for the same task anew.
func createLine(rec *pipeline.Record) string {
	line := []string{"otm-create", "--title", rec.Title, "--agent", rec.Agent}
	for _, o := range [][2]string{{"--priority", string(rec.Priority)}, {"--type", string(rec.Type)}, {"--project", rec.Project}} {
		if o[1] != "" {
			line = append(line, o[0], o[1])
		}
	}
	for _, s := range rec.Steps {
		line = append(line, "--subtask", s.Title)
	}
	for i := range line {
		line[i] = safe.Quote(line[i])
	}
	return strings.Join(line, " ")
}

// remake is what helps where a record is wrong: the board has what counts, and
// the next pass makes the record anew from it. Without a row there is nothing
// that it could be made from, and nothing to be done: it is over.
func (c *check) remake(rec *pipeline.Record) string {
	if row := c.rowBearing(rec.TaskID); row != nil {
		return c.setAside(rec.TaskID) + " && otm-dispatcher --once   # makes it anew from the board"
	}
	return "otm show " + rec.TaskID.String() + "   # there is nothing to mend: its row is gone"
}

func (c *check) stepsOf(rec *pipeline.Record, row *pipeline.Row) {
	known := map[string]bool{}
	for i, s := range rec.Steps {
		step := c.byID[s.RowID]
		switch {
		case s.RowID == "" && (c.waiting[rec.TaskID] || !c.Quiet):
		case s.RowID == "":
			c.stepMissing(rec, i)
		case known[s.RowID]:
			c.found(RuleSteps, rec.TaskID, "", c.remake(rec), "step %d %q has the row of another step", i+1, s.Title)
		case step == nil && !rec.Status.Finished() && c.tended(row):
			c.found(RuleSteps, rec.TaskID, RunAgain, "otm-dispatcher --once   # two looks later it is taken out of the task", "the row of step %d %q is not on the board", i+1, s.Title)
		case step != nil && step.Parent != rec.RowID:
			c.found(RuleSteps, rec.TaskID, "", c.remake(rec), "step %d %q stands under another row", i+1, s.Title)
		}
		known[s.RowID] = true
	}
	for _, step := range c.steps[rec.RowID] {
		if !known[step.ID] && c.Quiet && !rec.Status.Finished() && c.tended(row) {
			c.found(RuleSteps, rec.TaskID, RunAgain, "otm-dispatcher --once   # takes it up", "the step %q on the board is not in its record", step.Title)
		}
	}
}

// changedSteps are events after which a task may have other steps than were
// asked for.
var changedSteps = []string{pipeline.EventRebuilt, "step added", "step deleted"}

// stepsAsked holds the steps of a record against those of its create. Where
// people may have changed them, or what happened is forgotten, nothing is said.
func (c *check) stepsAsked(rec *pipeline.Record) {
	asked := c.asked[rec.TaskID]
	if asked == nil || !c.Quiet || len(rec.History) > manyEvents || c.waiting[rec.TaskID] ||
		slices.ContainsFunc(rec.History, func(e pipeline.Event) bool { return slices.Contains(changedSteps, e.What) }) {
		return
	}
	want := foldedTitles(asked.Task.Steps)
	var got []string
	for _, s := range rec.Steps {
		row := c.byID[s.RowID]
		if row != nil && row.Updated != row.Created {
			row = nil // somebody may have given it the title of another
		}
		if row == nil && len(rec.Steps) >= len(want) {
			return
		}
		got = append(got, pipeline.FoldTitle(s.Title))
	}
	switch same := slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))); {
	case len(got) < len(want):
		c.found(RuleSteps, rec.TaskID, "", c.remake(rec), "%d steps were asked for, and it has %d", len(want), len(got))
	case same && !slices.Equal(got, want):
		c.found(RuleSteps, rec.TaskID, "", c.remake(rec), "its steps are in another order than was asked for")
	}
}

// manyEvents is from where on a record forgets what happened first.
const manyEvents = 400

func foldedTitles(titles []string) []string {
	var folded []string
	for _, title := range titles {
		folded = append(folded, pipeline.FoldTitle(title))
	}
	return folded
}

// seen holds what a record knows of its rows against what they show, at rest:
// what people change there, the next pass takes over.
func (c *check) seen(rec *pipeline.Record, row *pipeline.Row) {
	if !c.Quiet || rec.ArchivedAt != nil || rec.Reporting != nil || row.Odd || row.Task() != rec.TaskID || !c.tended(row) {
		return
	}
	const hint = "otm-dispatcher --once   # takes over what the board shows"
	if status := row.CurrentStatus(); rec.Status != "" && status != rec.Status {
		c.found(RuleSeen, rec.TaskID, RunAgain, hint, "it is %s on the board, and %s in its record", safe.Escape(string(status)), rec.Status)
	}
	if rec.Status.Finished() {
		return
	}
	for i, s := range rec.Steps {
		if step := c.byID[s.RowID]; step != nil && !step.Odd && step.StepDone() != s.Done {
			c.found(RuleSeen, rec.TaskID, RunAgain, hint, "step %d %q is done on the board: %t, and in its record: %t", i+1, s.Title, step.StepDone(), s.Done)
		}
	}
}

// stepMissing is for a step that was never made, at rest: who makes it depends
// on who makes its task.
func (c *check) stepMissing(rec *pipeline.Record, i int) {
	repair, hint := Repair(""), c.remake(rec)
	failed, processed := nameIn(c.failed, rec), nameIn(c.processed, rec)
	switch {
	case rec.DropID == "":
		repair, hint = RunAgain, "otm-dispatcher --once   # makes it"
	case failed != "":
		hint = "otm retry " + safe.Quote(failed)
	case processed != "":
		hint = c.again(processed)
	}
	c.found(RuleSteps, rec.TaskID, repair, hint, "step %d %q does not stand on the board", i+1, rec.Steps[i].Title)
}

func (c *check) halfMade(rec *pipeline.Record) {
	if !c.Quiet {
		return
	}
	switch {
	case rec.RowAskedAt != nil:
		repair, hint := c.injects(rec, c.waiting[rec.TaskID])
		c.found(RuleHalfMade, rec.TaskID, repair, hint, "its row was asked for at %s and no answer is noted", rec.RowAskedAt.UTC().Format(time.RFC3339))
	case rec.Reporting != nil:
		repair, hint := c.injects(rec, c.reports[rec.Reporting.Drop])
		c.found(RuleHalfMade, rec.TaskID, repair, hint, "an update is half applied: %s", rec.Reporting.Drop)
	case rec.Dispatch != nil && rec.Dispatch.FlippedAt == nil && rec.Status == pipeline.New:
		c.found(RuleHalfMade, rec.TaskID, RunAgain, "otm-dispatcher --once", "its dispatch is begun and not finished")
	}
}

// injects is what finishes something that the injector left half made: itself,
// if the drop that asked for it is still there.
func (c *check) injects(rec *pipeline.Record, waits bool) (Repair, string) {
	if waits {
		return RunAgain, "otm-injector --once"
	}
	return "", c.remake(rec)
}

// wakes looks at the keys of all wakes.
func (c *check) wakes() error {
	used := map[string]pipeline.TaskID{}
	for _, id := range sorted(c.records) {
		rec := c.records[id]
		for _, w := range rec.Wakes {
			if other, taken := used[w.Key]; taken {
				c.found(RuleWakes, id, "", c.remake(rec), "the key %s was used for a wake of %v as well", w.Key, other)
			}
			used[w.Key] = id
		}
		if slices.ContainsFunc(rec.Wakes, func(w pipeline.Wake) bool { return w.Attempt > rec.Attempt }) {
			c.found(RuleWakes, id, "", c.remake(rec), "one of its wakes has a higher attempt than the task, %d", rec.Attempt)
		}
	}
	return nil
}
