// Package fsck checks the invariants of a data directory and its board: the tables
// follow from the events, all archives can be read, no acknowledged task is missing, none
// stands twice, updates were applied, dispatch files hold what is open, the counter is
// above every id, nothing is half made, and no temporary file is left.
//
// It reads, and changes nothing. It cannot tell work in progress from work that
// a crash left half made, unless Options.Quiet says that nothing is in progress.
package fsck

import (
	"context"
	"errors"
	"time"

	"otm/core"
	"otm/internal/explain"
	"otm/internal/view"
	"otm/pipeline"
	"otm/pipeline/counter"
	"otm/pipeline/inbox"
)

// Store is the part of the store that is checked.
type Store interface {
	core.Reader
	Pending(ctx context.Context, sink core.Sink, tasks ...pipeline.TaskID) ([]core.Pending, error)
	// Differs returns, in words, how the tables differ from the events.
	Differs(ctx context.Context) ([]string, error)
}

// Options say what to check.
type Options struct {
	Dir    string
	Store  Store
	Agents pipeline.Agents
	Rows   []pipeline.Row    // of a complete walk of this moment, which the store has seen
	Bad    []core.BadArchive // all that are damaged
	Now    time.Time
	// Quiet says that no process of the directory runs and nothing is due: then
	// half-made work counts as a fault.
	Quiet bool
}

// Finding is something that is wrong. Its words come from the table of package
// explain; Code and Args are the same as data.
type Finding struct {
	Rule   string            `json:"rule"`             // which one is broken
	TaskID pipeline.TaskID   `json:"taskId,omitempty"` // 0: it is of no single task
	Text   string            `json:"text"`
	Hint   string            `json:"hint,omitempty"` // what to do
	Repair Repair            `json:"repair,omitempty"`
	Path   string            `json:"path,omitempty"` // of a file that is meant
	Code   explain.Code      `json:"code"`
	Args   map[string]string `json:"args,omitempty"`
}

// Repair is how otm fsck --repair mends a finding; "": it cannot.
type Repair string

// The repairs.
const (
	RaiseCounter Repair = "raise the counter"
	RemoveFile   Repair = "remove the file"
	HandleAgain  Repair = "have the drop handled again"
	Rebuild      Repair = "rebuild the tables from the events"
)

// The rules.
const (
	RuleStore    = "the tables follow from the events"
	RuleArchive  = "all archives can be read"
	RuleRow      = "a task has one row"
	RuleSteps    = "a task has all its steps"
	RuleShown    = "the board shows the tasks as they are"
	RuleDropped  = "what was dropped is known"
	RuleUpdates  = "updates apply once"
	RuleDispatch = "an open task has one entry, others have none"
	RuleCounter  = "the counter is above every id"
	RuleHalfMade = "nothing is half made"
	RuleLitter   = "no litter"
)

// check is one run of all checks, with the data that they share and their findings.
type check struct {
	Options
	ctx      context.Context
	box      *inbox.Box
	counter  *counter.Dir
	tasks    map[pipeline.TaskID]*core.Task
	pending  []core.Pending
	board    view.Board
	hung     map[string]bool          // workspaces that do not answer
	waiting  map[pipeline.TaskID]bool // a create of it stands in the inbox
	findings []Finding
}

// Check returns the findings, the most important rule first. The error is one
// of reading the directory or the store.
func Check(ctx context.Context, o Options) ([]Finding, error) {
	c := &check{Options: o, ctx: ctx, box: inbox.Open(o.Dir), counter: counter.Open(o.Dir, nil),
		board: view.Index(o.Rows), waiting: map[pipeline.TaskID]bool{}, hung: map[string]bool{}}
	for _, look := range []func() error{
		c.workspaces, c.readStore, c.inboxes, c.settled, c.rows, c.rowsOfTasks, c.halfMade, c.dispatchFiles, c.counterAbove, c.litter,
	} {
		if err := look(); err != nil {
			return nil, err
		}
	}
	return c.findings, nil
}

// readStore reads all tasks, and holds the tables against the events.
func (c *check) readStore() error {
	tasks, err := c.Store.Tasks(c.ctx, core.Filter{})
	if err != nil {
		return err
	}
	c.tasks = core.ByID(tasks)
	if c.pending, err = c.Store.Pending(c.ctx, ""); err != nil {
		return err
	}
	for _, b := range c.Bad {
		c.found(RuleArchive, 0, "", explain.ArchiveBad, "what", b.Why, "do", b.Do)
	}
	differs, err := c.Store.Differs(c.ctx)
	for _, d := range differs {
		c.found(RuleStore, 0, Rebuild, explain.StoreDiffers, "what", d)
	}
	if len(c.Bad) > 0 && errors.Is(err, core.ErrArchive) {
		return nil // it is told
	}
	return err
}

func (c *check) found(rule string, id pipeline.TaskID, r Repair, code explain.Code, args ...any) {
	c.add(rule, r, explain.New(code, args...).On(id))
}

func (c *check) add(rule string, r Repair, f explain.Finding) {
	c.findings = append(c.findings, Finding{Rule: rule, TaskID: f.Task, Text: f.Text(c.Now), Hint: f.Next(c.Now), Repair: r, Path: f.Args["path"], Code: f.Code, Args: f.Args})
}
