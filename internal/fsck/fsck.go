// Package fsck checks the invariants of a data directory and its board: no
// acknowledged task is missing, none stands twice, steps are complete and in
// order, updates were applied once and in order, no key of a wake was used for
// two, the counter is above every id, nothing is half made, and no temporary
// file is left.
//
// It reads, and changes nothing. It cannot tell work in progress from work that
// a crash left half made, unless Options.Quiet says that nothing is in progress.
package fsck

import (
	"cmp"
	"slices"
	"time"

	"otm/internal/explain"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/history"
	"otm/pipeline/inbox"
	"otm/pipeline/task"
)

// Options say what to check.
type Options struct {
	Dir    string
	Agents pipeline.Agents
	Rows   []pipeline.Row // of a complete walk of this moment
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
	RunAgain     Repair = "run the components once"
	WriteHistory Repair = "write the history from the record"
)

// The rules.
const (
	RuleRecord   = "records can be read"
	RuleRow      = "a task has one row"
	RuleSteps    = "a task has all its steps, once and in order"
	RuleDropped  = "what was dropped is known"
	RuleHistory  = "what left the board stands in the history, once"
	RuleMerged   = "two tasks never merge"
	RuleSeen     = "a record has what the board shows"
	RuleUpdates  = "updates apply once and in order"
	RuleDispatch = "an open task has one entry, others have none"
	RuleWakes    = "a key is used for one wake"
	RuleWoken    = "who has a task is woken for it"
	RuleCounter  = "the counter is above every id"
	RuleHalfMade = "nothing is half made"
	RuleLitter   = "no litter"
)

// facts are what was read, and what was found so far.
type facts struct {
	Options
	store         *task.Store
	box           *inbox.Box
	records       map[pipeline.TaskID]*pipeline.Record
	tops          map[pipeline.TaskID][]*pipeline.Row
	steps         map[string][]*pipeline.Row
	byID          map[string]*pipeline.Row
	owners        map[string]pipeline.TaskID         // by the row
	archived      map[pipeline.TaskID]*history.Entry // the last one of each
	hung          map[string]bool                    // workspaces that do not answer
	historyUnread bool                               // the history cannot be read
	unread        map[pipeline.TaskID]error          // records that cannot be read
	waiting       map[pipeline.TaskID]bool           // a create of it stands in the inbox
	reports       map[string]bool                    // names of updates that stand in the inbox
	processed     map[string]string                  // names in processed/, by themselves and, of creates, by the id of the drop
	failed        map[string]string                  // the same of failed/
	creates       map[pipeline.TaskID]string         // ids of drops that became tasks
	asked         map[pipeline.TaskID]*drop.Create   // those of records
	used          []pipeline.TaskID
	findings      []Finding
}

// check is one run of all checks.
type check struct{ *facts }

// Check returns the findings, the most important rule first. The error is one
// of reading the directory.
func Check(o Options) ([]Finding, error) {
	c := &check{&facts{Options: o, store: task.Open(o.Dir, nil), box: inbox.Open(o.Dir),
		records: map[pipeline.TaskID]*pipeline.Record{}, tops: map[pipeline.TaskID][]*pipeline.Row{},
		steps: map[string][]*pipeline.Row{}, byID: map[string]*pipeline.Row{},
		owners: map[string]pipeline.TaskID{}, archived: map[pipeline.TaskID]*history.Entry{}, waiting: map[pipeline.TaskID]bool{},
		creates: map[pipeline.TaskID]string{}, asked: map[pipeline.TaskID]*drop.Create{},
		reports: map[string]bool{}, processed: map[string]string{}, failed: map[string]string{}, unread: map[pipeline.TaskID]error{}, hung: map[string]bool{}}}
	for _, look := range []func() error{
		c.workspaces, c.readRecords, c.readRows, c.recordsUnread, c.readHistory, c.inboxes, c.readFailed, c.readKeys, c.settled, c.updatesTwice, c.rows, c.recordsAndSteps, c.wakes, c.woken, c.dispatchFiles, c.counter, c.litter,
	} {
		if err := look(); err != nil {
			return nil, err
		}
	}
	return c.findings, nil
}

func (c *facts) found(rule string, id pipeline.TaskID, r Repair, code explain.Code, args ...any) {
	f := explain.New(code, args...).On(id)
	c.findings = append(c.findings, Finding{Rule: rule, TaskID: id, Text: f.Text(c.Now), Hint: f.Next(c.Now), Repair: r, Path: f.Args["path"], Code: code, Args: f.Args})
}

func (c *facts) saw(id pipeline.TaskID) { c.used = append(c.used, id) }

func sorted[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
