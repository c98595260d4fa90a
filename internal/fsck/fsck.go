// Package fsck holds a data directory and its board against what must always
// be true of them: no task that was acknowledged is missing, none stands
// twice, steps are complete and in order, updates were applied once and in
// order, no key of a wake was used for two, the counter is above every id,
// nothing is half made, no litter lies about.
//
// It reads, and changes nothing. What is under way while it looks, it cannot
// tell from what was left half made: Options.Quiet says that nothing is.
package fsck

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"otm/internal/durable"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/history"
	"otm/pipeline/inbox"
	"otm/pipeline/task"
)

// Options say what is looked at.
type Options struct {
	Dir    string
	Agents pipeline.Agents
	Rows   []pipeline.Row // of a complete walk of this moment
	Now    time.Time
	// Quiet says that no process of the directory runs and that all that was
	// due was done: then what is half made counts as a fault.
	Quiet bool
}

// Finding is something that is not as it must be.
type Finding struct {
	Rule   string          `json:"rule"`             // which one is broken
	TaskID pipeline.TaskID `json:"taskId,omitempty"` // 0: it is of no single task
	Text   string          `json:"text"`
	Hint   string          `json:"hint,omitempty"` // what to do
	Repair Repair          `json:"repair,omitempty"`
	Path   string          `json:"path,omitempty"` // of a file that is meant
}

// Repair is what can mend a finding.
type Repair string

// The repairs.
const (
	RaiseCounter Repair = "raise the counter"
	RemoveFile   Repair = "remove the file"
	RunAgain     Repair = "run the components once"
	WriteHistory Repair = "write the history from the record"
)

// The rules.
const (
	RuleRecord   = "records can be read"
	RuleRow      = "a task has one row"
	RuleSteps    = "a task has all its steps, once and in order"
	RuleDropped  = "what was dropped is known"
	RuleHistory  = "what left the board stands in the history"
	RuleUpdates  = "updates apply once and in order"
	RuleDispatch = "an open task has one entry, others have none"
	RuleWakes    = "a key is used for one wake"
	RuleCounter  = "the counter is above every id"
	RuleHalfMade = "nothing is half made"
	RuleLitter   = "no litter"
)

// check is one look.
type check struct {
	Options
	store    *task.Store
	box      *inbox.Box
	records  map[pipeline.TaskID]*pipeline.Record
	tops     map[pipeline.TaskID][]*pipeline.Row
	steps    map[string][]*pipeline.Row
	byID     map[string]*pipeline.Row
	archived map[pipeline.TaskID]bool
	waiting  map[pipeline.TaskID]bool // a create of it stands in the inbox
	used     []pipeline.TaskID
	findings []Finding
}

// Check returns what it found, in the order of the rules' importance. The
// error is one of reading the directory.
func Check(o Options) ([]Finding, error) {
	c := &check{Options: o, store: task.Open(o.Dir, nil), box: inbox.Open(o.Dir),
		records: map[pipeline.TaskID]*pipeline.Record{}, tops: map[pipeline.TaskID][]*pipeline.Row{},
		steps: map[string][]*pipeline.Row{}, byID: map[string]*pipeline.Row{},
		archived: map[pipeline.TaskID]bool{}, waiting: map[pipeline.TaskID]bool{}}
	for _, look := range []func() error{
		c.readRecords, c.readRows, c.readHistory, c.inboxes, c.settled, c.rows, c.recordsAndSteps, c.wakes, c.dispatchFiles, c.counter, c.litter,
	} {
		if err := look(); err != nil {
			return nil, err
		}
	}
	return c.findings, nil
}

func (c *check) found(rule string, id pipeline.TaskID, r Repair, hint, format string, args ...any) {
	c.findings = append(c.findings, Finding{Rule: rule, TaskID: id, Text: fmt.Sprintf(format, args...), Hint: hint, Repair: r})
}

func (c *check) saw(id pipeline.TaskID) { c.used = append(c.used, id) }

func (c *check) readRecords() error {
	ids, err := c.store.IDs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		c.saw(id)
		rec, err := c.store.Load(id)
		if err != nil {
			c.found(RuleRecord, id, RunAgain, "the next pass sets it aside and makes it anew from the board", "its record cannot be read: %v", err)
			continue
		}
		c.records[id] = rec
	}
	aside, err := filepath.Glob(filepath.Join(c.Dir, "tasks", "*.corrupt-*"))
	for _, path := range aside {
		c.findings = append(c.findings, Finding{Rule: RuleRecord, Text: "a record that could not be read was set aside: " + filepath.Base(path),
			Hint: "look into it, then remove it", Path: path})
	}
	return err
}

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

func (c *check) readHistory() error {
	for e, err := range history.Read(c.Dir) {
		if err != nil {
			c.found(RuleRecord, 0, "", "look into "+history.FileName, "%v", err)
			continue
		}
		c.saw(e.TaskID)
		c.archived[e.TaskID] = true
	}
	return nil
}

// inboxes reads what waits.
func (c *check) inboxes() error {
	for _, kind := range inbox.Kinds {
		files, err := c.box.List(kind)
		if err != nil {
			return err
		}
		for _, f := range files {
			if c.Quiet {
				c.found(RuleHalfMade, 0, RunAgain, "otm status", "%s still waits in %s", f.Name, kind)
			}
			if !f.Regular() || kind != inbox.NewTasks {
				continue
			}
			data, _, err := c.box.Read(f)
			if err != nil {
				continue // settled meanwhile
			}
			if d, err := drop.ParseCreate(data); err == nil {
				c.saw(d.Task.ID)
				c.waiting[d.Task.ID] = true
			}
		}
	}
	return nil
}

// settled holds what was taken down for done against the records.
func (c *check) settled() error {
	names, err := c.box.SettledNames(inbox.ProcessedDir)
	if err != nil {
		return err
	}
	applied := map[pipeline.TaskID][]string{} // the names of its updates, in order
	for _, name := range names {
		s, err := c.box.ReadSettled(inbox.ProcessedDir, name)
		if err != nil || s.Object == nil {
			continue
		}
		id := s.TaskID()
		c.saw(id)
		switch s.Result.Inbox {
		case inbox.NewTasks:
			if c.records[id] == nil && len(c.tops[id]) == 0 && !c.archived[id] && !c.waiting[id] && !s.Result.SkippedDuplicate {
				c.found(RuleDropped, id, "", fmt.Sprintf("mv %s %s   # has it made again", safe.Quote(filepath.Join(c.Dir, inbox.ProcessedDir, name)), safe.Quote(c.box.Dir(inbox.NewTasks))),
					"it was brought to the board, and neither board, record nor history knows it")
			}
		case inbox.TaskUpdates:
			applied[id] = append(applied[id], name)
		}
	}
	for id, names := range applied {
		c.updates(id, names)
	}
	return nil
}

// updates holds the updates of a task that were settled against its record.
func (c *check) updates(id pipeline.TaskID, settled []string) {
	rec := c.records[id]
	if rec == nil {
		return
	}
	seen := map[string]string{}
	for _, u := range rec.Updates {
		if other, twice := seen[u.ID]; twice {
			c.found(RuleUpdates, id, "", "otm show "+id.String(), "update %s was applied twice, as %s and as %s", u.ID, other, u.Drop)
		}
		seen[u.ID] = u.Drop
	}
	rebuilt := slices.ContainsFunc(rec.History, func(e pipeline.Event) bool { return e.What == pipeline.EventRebuilt })
	if rebuilt {
		return // what was applied before it was lost, nobody knows
	}
	known := map[string]bool{}
	for _, u := range rec.Updates {
		known[u.Drop] = true
	}
	if len(rec.Updates) >= 1000 { // older ones are forgotten
		return
	}
	for _, name := range settled {
		if s, err := c.box.ReadSettled(inbox.ProcessedDir, name); err == nil && !known[name] && !c.knowsDrop(rec, s) {
			c.found(RuleUpdates, id, "", "otm show "+id.String(), "%s was settled as applied, and its record does not know it", name)
		}
	}
}

// knowsDrop tells whether the record knows an update by its id.
func (c *check) knowsDrop(rec *pipeline.Record, s *inbox.Settled) bool {
	u, err := drop.ParseUpdate(s.Object.Bytes())
	if err != nil {
		return true // a settled file that was edited says nothing
	}
	_, known := rec.AppliedAs(u.ID)
	return known
}

// rows looks for tasks that stand twice, and for rows whose task nobody knows.
func (c *check) rows() error {
	for _, id := range sorted(c.tops) {
		rows := c.tops[id]
		if len(rows) > 1 {
			var ids []string
			for _, r := range rows {
				ids = append(ids, r.ID)
			}
			c.found(RuleRow, id, "", "clear the Task ID of those that are not it, or delete them on the board", "%d rows bear its id: %s", len(rows), strings.Join(ids, ", "))
		}
		if rec := c.records[id]; rec != nil && rec.RowID != "" && len(rows) == 1 && rows[0].ID != rec.RowID {
			c.found(RuleRow, id, "", "clear the Task ID of that row on the board: it becomes a task of its own", "the row %q bears its id, and is not its row", rows[0].Title)
		}
		if c.records[id] == nil && !c.waiting[id] {
			c.found(RuleRecord, id, RunAgain, "the next pass makes it anew from the board", "it stands on the board, and has no record")
		}
	}
	for parent, steps := range c.steps {
		if c.byID[parent] == nil {
			c.found(RuleSteps, 0, "", "delete it on the board", "the step %q stands under a row that is not there", steps[0].Title)
		}
	}
	return nil
}

// recordsAndSteps holds each record against its row and the rows of its steps.
func (c *check) recordsAndSteps() error {
	for _, id := range sorted(c.records) {
		rec := c.records[id]
		row := c.byID[rec.RowID]
		switch {
		case rec.RowID == "" && (c.waiting[id] || !c.Quiet):
			continue // on its way
		case rec.RowID == "":
			c.found(RuleHalfMade, id, RunAgain, "otm why "+id.String(), "its row was never made, and no drop of it waits")
			continue
		case row == nil && rec.ArchivedAt != nil && !c.archived[id]:
			c.found(RuleHistory, id, WriteHistory, "otm fsck --repair", "it was archived at %s, and %s does not have it", rec.ArchivedAt.UTC().Format(time.RFC3339), history.FileName)
			continue
		case row == nil && (rec.GoneAt != nil || rec.ArchivedAt != nil):
			continue // said, or taken off
		case row == nil:
			c.found(RuleRow, id, RunAgain, "otm why "+id.String(), "its row %s is not on the board", rec.RowID)
			continue
		case row.Task() != id:
			c.found(RuleRow, id, RunAgain, "the dispatcher writes it back once the row has been left alone for a while", "the Task ID of its row %q %s", row.Title, says(row.TaskID))
		}
		c.stepsOf(rec)
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

func (c *check) stepsOf(rec *pipeline.Record) {
	known := map[string]bool{}
	for i, s := range rec.Steps {
		row := c.byID[s.RowID]
		switch {
		case s.RowID == "" && (c.waiting[rec.TaskID] || !c.Quiet):
		case s.RowID == "":
			c.found(RuleSteps, rec.TaskID, RunAgain, "otm why "+rec.TaskID.String(), "step %d %q does not stand on the board", i+1, s.Title)
		case known[s.RowID]:
			c.found(RuleSteps, rec.TaskID, "", "", "step %d %q has the row of another step", i+1, s.Title)
		case row == nil && !rec.Status.Finished():
			c.found(RuleSteps, rec.TaskID, RunAgain, "two passes take a deleted step out of the task", "the row of step %d %q is not on the board", i+1, s.Title)
		case row != nil && row.Parent != rec.RowID:
			c.found(RuleSteps, rec.TaskID, "", "", "step %d %q stands under another row", i+1, s.Title)
		}
		known[s.RowID] = true
	}
	for _, row := range c.steps[rec.RowID] {
		if !known[row.ID] && c.Quiet && !rec.Status.Finished() {
			c.found(RuleSteps, rec.TaskID, RunAgain, "the next pass takes it up", "the step %q on the board is not in its record", row.Title)
		}
	}
}

func (c *check) halfMade(rec *pipeline.Record) {
	if !c.Quiet {
		return
	}
	switch {
	case rec.RowAskedAt != nil:
		c.found(RuleHalfMade, rec.TaskID, RunAgain, "otm-injector --once", "its row was asked for at %s and no answer is noted", rec.RowAskedAt.UTC().Format(time.RFC3339))
	case rec.Reporting != nil:
		c.found(RuleHalfMade, rec.TaskID, RunAgain, "otm-injector --once", "an update is half applied: %s", rec.Reporting.Drop)
	case rec.Dispatch != nil && rec.Dispatch.FlippedAt == nil && rec.Status == pipeline.New:
		c.found(RuleHalfMade, rec.TaskID, RunAgain, "otm-dispatcher --once", "its dispatch is begun and not finished")
	}
}

// wakes looks at the keys of all wakes.
func (c *check) wakes() error {
	used := map[string]pipeline.TaskID{}
	for _, id := range sorted(c.records) {
		rec := c.records[id]
		for _, w := range rec.Wakes {
			if other, taken := used[w.Key]; taken {
				c.found(RuleWakes, id, "", "", "the key %s was used for a wake of %v as well", w.Key, other)
			}
			used[w.Key] = id
			if w.Attempt > rec.Attempt {
				c.found(RuleWakes, id, "", "", "a wake has the attempt %d, and the task says %d", w.Attempt, rec.Attempt)
			}
		}
	}
	return nil
}

func (c *check) counter() error {
	data, err := os.ReadFile(filepath.Join(c.Dir, "next-task-id.json"))
	if errors.Is(err, fs.ErrNotExist) {
		c.found(RuleCounter, 0, RaiseCounter, "the next otm-create makes it anew", "it is missing")
		return nil
	}
	if err != nil {
		return err
	}
	var state struct{ Next pipeline.TaskID }
	if _, err := fmt.Sscanf(strings.Join(strings.Fields(string(data)), ""), `{"next":%d}`, &state.Next); err != nil {
		c.found(RuleCounter, 0, RaiseCounter, "the next otm-create makes it anew", "it holds %.40q", data)
	} else if next := task.Above(state.Next, c.used...); next != state.Next {
		c.found(RuleCounter, next-1, RaiseCounter, "otm fsck --repair", "it says %d, and %v exists", state.Next, next-1)
	}
	return nil
}

// litterAge is how old a temporary file is that no writer will finish.
const litterAge = time.Hour

func (c *check) litter() error {
	dirs := []string{c.Dir}
	for _, name := range []string{
		"new-tasks", "task-updates", "processed", "failed", "failed/.retry/new-tasks", "failed/.retry/task-updates", "tasks", "keys", "board", "board/page", "secrets",
	} {
		dirs = append(dirs, filepath.Join(c.Dir, name))
	}
	for _, a := range c.Agents {
		if a.Workspace != "" {
			dirs = append(dirs, a.Workspace)
		}
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // not there: others say so where it matters
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || !strings.HasPrefix(e.Name(), durable.TempPrefix) {
				continue
			}
			if age := c.Now.Sub(info.ModTime()); age > litterAge {
				path := filepath.Join(dir, e.Name())
				c.findings = append(c.findings, Finding{Rule: RuleLitter, Text: "a crashed writer left " + path, Hint: "otm fsck --repair", Repair: RemoveFile, Path: path})
			}
		}
	}
	return nil
}

func sorted[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
