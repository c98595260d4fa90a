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
	"fmt"
	"slices"
	"time"

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

	kind string // what it says, without names, numbers and times
}

// Same tells whether two findings, one of them made later, are of one fault:
// what it says of it may have changed.
func (f *Finding) Same(o *Finding) bool {
	return f.Rule == o.Rule && f.TaskID == o.TaskID && f.kind == o.kind && (f.TaskID != 0 || f.Text == o.Text)
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

// check is one look.
type check struct {
	Options
	store         *task.Store
	box           *inbox.Box
	records       map[pipeline.TaskID]*pipeline.Record
	tops          map[pipeline.TaskID][]*pipeline.Row
	steps         map[string][]*pipeline.Row
	byID          map[string]*pipeline.Row
	owners        map[string]pipeline.TaskID         // by the row
	archived      map[pipeline.TaskID]*history.Entry // the last one of each
	historyUnread bool                               // nobody knows what it holds
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

// Check returns what it found, in the order of the rules' importance. The
// error is one of reading the directory.
func Check(o Options) ([]Finding, error) {
	c := &check{Options: o, store: task.Open(o.Dir, nil), box: inbox.Open(o.Dir),
		records: map[pipeline.TaskID]*pipeline.Record{}, tops: map[pipeline.TaskID][]*pipeline.Row{},
		steps: map[string][]*pipeline.Row{}, byID: map[string]*pipeline.Row{},
		owners: map[string]pipeline.TaskID{}, archived: map[pipeline.TaskID]*history.Entry{}, waiting: map[pipeline.TaskID]bool{},
		creates: map[pipeline.TaskID]string{}, asked: map[pipeline.TaskID]*drop.Create{},
		reports: map[string]bool{}, processed: map[string]string{}, failed: map[string]string{}, unread: map[pipeline.TaskID]error{}}
	for _, look := range []func() error{
		c.readRecords, c.readRows, c.recordsUnread, c.readHistory, c.inboxes, c.readFailed, c.readKeys, c.settled, c.updatesTwice, c.rows, c.recordsAndSteps, c.wakes, c.woken, c.dispatchFiles, c.counter, c.litter,
	} {
		if err := look(); err != nil {
			return nil, err
		}
	}
	return c.findings, nil
}

func (c *check) found(rule string, id pipeline.TaskID, r Repair, hint, format string, args ...any) {
	c.findings = append(c.findings, Finding{Rule: rule, TaskID: id, Text: fmt.Sprintf(format, args...), Hint: hint, Repair: r, kind: format})
}

func (c *check) saw(id pipeline.TaskID) { c.used = append(c.used, id) }

func sorted[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
