package fsck

import (
	"fmt"
	"slices"
	"strings"

	"otm/internal/explain"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/history"
)

func (c *facts) readRows() error {
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

// rowBearing returns a row that bears the id of a task and is no other task's;
// nil if there is none.
func (c *facts) rowBearing(id pipeline.TaskID) *pipeline.Row {
	for _, row := range c.tops[id] {
		if owner := c.owners[row.ID]; owner == 0 || owner == id {
			return row
		}
	}
	return nil
}

// tended reports whether the dispatcher makes a record for a row that has none.
// It does not if the row is unassigned, is over and was no agent's, or cannot be
// understood. Package dispatch has the same rule.
func (c *facts) tended(row *pipeline.Row) bool {
	status, agent := row.CurrentStatus(), c.Agents.Assigned(row.Assignee)
	switch {
	case row.Odd && (row.Assignee == "" || row.Status == ""):
		return false
	case status == pipeline.New:
		return row.Assignee != ""
	}
	return status.Active() || agent != nil && !agent.Person
}

// rows looks for tasks that stand twice, and for rows without a record.
func (c *check) rows() error {
	for _, id := range sorted(c.tops) {
		rows, rec := c.tops[id], c.records[id]
		switch {
		case len(rows) > 1:
			c.found(RuleRow, id, "", explain.RowsTwice, "n", len(rows), "rows", idsOf(rows), "others", c.others(rec))
		case rec != nil && rec.RowID != "" && rows[0].ID != rec.RowID:
			c.found(RuleRow, id, "", explain.RowForeign, "title", rows[0].Title, "taken", taken(rec))
		}
		if row := c.rowBearing(id); row != nil && rec == nil && c.unread[id] == nil && !c.waiting[id] && c.tended(row) {
			c.found(RuleRecord, id, RunAgain, explain.RecordMissing)
		}
	}
	for _, parent := range sorted(c.steps) {
		if c.byID[parent] == nil {
			c.found(RuleSteps, 0, "", explain.StepOrphan, "title", c.steps[parent][0].Title)
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

// others names the rows that are not the record's.
func (c *facts) others(rec *pipeline.Record) string {
	if rec == nil || c.byID[rec.RowID] == nil {
		return "those that are not it"
	}
	return "all but " + rec.RowID
}

// taken says what became of a task's row while another one bears its id.
func taken(rec *pipeline.Record) string {
	switch {
	case rec.ArchivedAt != nil:
		return ": it was archived, see otm history " + rec.TaskID.String()
	case rec.GoneAt != nil:
		return ": that was deleted"
	}
	return ""
}

// recordsAndSteps compares each record with its row and the rows of its steps.
func (c *check) recordsAndSteps() error {
	for _, id := range sorted(c.records) {
		rec := c.records[id]
		row := c.byID[rec.RowID]
		switch {
		case rec.RowID == "":
			c.rowless(rec)
			continue
		case row == nil && rec.ArchivedAt != nil && c.archived[id] == nil && !c.historyUnread:
			c.found(RuleHistory, id, WriteHistory, explain.HistoryLacks, "at", *rec.ArchivedAt, "name", history.FileName)
			continue
		case row == nil && (rec.GoneAt != nil || rec.ArchivedAt != nil):
			continue // said, or taken off
		case row == nil && rec.Status.Finished() && !c.Quiet:
			continue // it needs none; that it is gone will be noted
		case row == nil:
			c.found(RuleRow, id, RunAgain, explain.RowMissing, "row", rec.RowID)
			continue
		case row.Task() != id:
			c.found(RuleRow, id, RunAgain, explain.RowIDLost, "title", row.Title, "says", says(row.TaskID))
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

// rowless is for a record without a row. A task whose create failed needs none.
func (c *check) rowless(rec *pipeline.Record) {
	id := rec.TaskID
	processed := nameIn(c.processed, rec)
	switch {
	case c.waiting[id] || !c.Quiet || nameIn(c.failed, rec) != "":
	case c.rowBearing(id) != nil:
		c.found(RuleHalfMade, id, "", explain.RowUnlinked, "next", c.remake(rec))
	case processed != "":
		c.found(RuleHalfMade, id, "", explain.RowUnmade, "next", c.again(processed))
	default:
		c.found(RuleHalfMade, id, "", explain.CreateGone, "next", c.setAside(id)+" && "+createLine(rec))
	}
}

// createLine is the command that creates the same task again.
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

// remake is the next step for a wrong record: set it aside, and the dispatcher
// makes a new one from the board. A task without a row is over; nothing is to be
// done.
func (c *facts) remake(rec *pipeline.Record) string {
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
			c.found(RuleSteps, rec.TaskID, "", explain.StepShared, "n", i+1, "title", s.Title, "next", c.remake(rec))
		case step == nil && !rec.Status.Finished() && c.tended(row):
			c.found(RuleSteps, rec.TaskID, RunAgain, explain.StepGone, "n", i+1, "title", s.Title)
		case step != nil && step.Parent != rec.RowID:
			c.found(RuleSteps, rec.TaskID, "", explain.StepMoved, "n", i+1, "title", s.Title, "next", c.remake(rec))
		}
		known[s.RowID] = true
	}
	for _, step := range c.steps[rec.RowID] {
		if !known[step.ID] && c.Quiet && !rec.Status.Finished() && c.tended(row) {
			c.found(RuleSteps, rec.TaskID, RunAgain, explain.StepUnknown, "title", step.Title)
		}
	}
}

// changedSteps are events after which a task may have other steps than its create
// asked for.
var changedSteps = []string{pipeline.EventRebuilt, "step added", "step deleted"}

// stepsAsked compares the steps of a record with those of its create, unless
// people may have changed them or the record forgot what happened.
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
		c.found(RuleSteps, rec.TaskID, "", explain.StepsFewer, "want", len(want), "have", len(got), "next", c.remake(rec))
	case same && !slices.Equal(got, want):
		c.found(RuleSteps, rec.TaskID, "", explain.StepsReordered, "next", c.remake(rec))
	}
}

// manyEvents is the number of events from which on a record may forget the first
// ones.
const manyEvents = 400

func foldedTitles(titles []string) []string {
	var folded []string
	for _, title := range titles {
		folded = append(folded, pipeline.FoldTitle(title))
	}
	return folded
}

// seen compares a record with its rows, at rest: the dispatcher's next pass takes
// over what people change there.
func (c *check) seen(rec *pipeline.Record, row *pipeline.Row) {
	if !c.Quiet || rec.ArchivedAt != nil || rec.Reporting != nil || row.Odd || row.Task() != rec.TaskID || !c.tended(row) {
		return
	}
	if status := row.CurrentStatus(); rec.Status != "" && status != rec.Status {
		c.found(RuleSeen, rec.TaskID, RunAgain, explain.StatusDiffers, "board", status, "record", rec.Status)
	}
	if rec.Status.Finished() {
		return
	}
	for i, s := range rec.Steps {
		if step := c.byID[s.RowID]; step != nil && !step.Odd && step.StepDone() != s.Done {
			c.found(RuleSeen, rec.TaskID, RunAgain, explain.TickDiffers, "n", i+1, "title", s.Title, "board", step.StepDone(), "record", s.Done)
		}
	}
}

// stepMissing is for a step that was never made, at rest. The next step depends
// on what made the task.
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
	c.found(RuleSteps, rec.TaskID, repair, explain.StepUnmade, "n", i+1, "title", rec.Steps[i].Title, "next", hint)
}

func (c *check) halfMade(rec *pipeline.Record) {
	if !c.Quiet {
		return
	}
	switch {
	case rec.RowAskedAt != nil:
		repair, hint := c.injects(rec, c.waiting[rec.TaskID])
		c.found(RuleHalfMade, rec.TaskID, repair, explain.RowAskedFor, "at", *rec.RowAskedAt, "next", hint)
	case rec.Reporting != nil:
		repair, hint := c.injects(rec, c.reports[rec.Reporting.Drop])
		c.found(RuleHalfMade, rec.TaskID, repair, explain.UpdateHalf, "drop", rec.Reporting.Drop, "next", hint)
	case rec.Dispatch != nil && rec.Dispatch.FlippedAt == nil && rec.Status == pipeline.New:
		c.found(RuleHalfMade, rec.TaskID, RunAgain, explain.DispatchHalf)
	}
}

// injects is the next step for something that the injector left half made: it
// continues if the drop is still there.
func (c *check) injects(rec *pipeline.Record, waits bool) (Repair, string) {
	if waits {
		return RunAgain, "otm-injector --once"
	}
	return "", c.remake(rec)
}

// wakes checks that the key of each wake is used once.
func (c *check) wakes() error {
	used := map[string]pipeline.TaskID{}
	for _, id := range sorted(c.records) {
		rec := c.records[id]
		for _, w := range rec.Wakes {
			if other, taken := used[w.Key]; taken {
				c.found(RuleWakes, id, "", explain.WakeKeyTwice, "key", w.Key, "other", other, "next", c.remake(rec))
			}
			used[w.Key] = id
		}
		if slices.ContainsFunc(rec.Wakes, func(w pipeline.Wake) bool { return w.Attempt > rec.Attempt }) {
			c.found(RuleWakes, id, "", explain.WakeAttempt, "attempt", rec.Attempt, "next", c.remake(rec))
		}
	}
	return nil
}
