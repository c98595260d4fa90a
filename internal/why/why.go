// Package why finds the reason why a task is where it is. It reads a view and
// returns findings; package explain turns them into sentences.
package why

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"otm/core"
	"otm/heartbeat"
	"otm/internal/explain"
	"otm/internal/view"
	"otm/pipeline"
)

// Reason is why a task is where it is.
type Reason struct {
	Sentence string            `json:"why"`
	Next     string            `json:"next,omitempty"` // what to do or to run; "" where nothing is to be done
	Or       string            `json:"or,omitempty"`   // what may be done instead, or besides for an update that failed
	Stage    Stage             `json:"stage"`          // where it is
	Since    time.Time         `json:"since,omitzero"` // since when it is there
	Findings []explain.Finding `json:"findings"`       // what Sentence and Next say
	Lines    []string          `json:"-"`              // Sentence, a line for each finding

	Late bool `json:"-"` // something about it has failed, or waited too long, whatever its stage
}

// Stage is where a task is on its way.
type Stage string

// The stages.
const (
	InInbox   Stage = "inbox"
	InFailed  Stage = "failed"
	ToBoard   Stage = "to the board"
	ToAgent   Stage = "to be dispatched"
	ToClaim   Stage = "to be claimed" // by any agent, out of the shared queue
	ToTake    Stage = "to be taken"
	IsIgnored Stage = "not taken" // its agent was woken often enough
	AtWork    Stage = "at work"
	IsBlocked Stage = "blocked"
	ToRetry   Stage = "to be tried again"
	IsDead    Stage = "dead letter"
	ToReview  Stage = "to be reviewed"
	WithHuman Stage = "a person's turn"
	IsOver    Stage = "over"
	IsLost    Stage = "not on the board"
	IsUnknown Stage = "unknown"
)

// usual is how long a task usually stays in a stage at most; bounded is false
// where it may stay for ever.
func usual(s Stage, t pipeline.Times) (limit time.Duration, bounded bool) {
	switch s {
	case InInbox, ToBoard, ToAgent:
		return 5 * time.Minute, true
	case InFailed, IsLost, IsIgnored, IsBlocked, IsDead, ToRetry:
		return 0, true
	case ToTake:
		return t.RewakeAfter, true
	case AtWork:
		return t.SilentAfter, true
	case ToReview, WithHuman, ToClaim:
		return 24 * time.Hour, true
	}
	return 0, false
}

// Slow reports whether a task has been in its stage for longer than usual, or
// something about it needs a look.
func (r *Reason) Slow(v *view.View) bool {
	limit, bounded := usual(r.Stage, v.Times)
	return r.Late || bounded && v.Now.Sub(r.Since) > limit
}

// draft is a reason while it is being found.
type draft struct {
	stage    Stage
	since    time.Time // zero: not known
	findings []explain.Finding
	late     bool
}

func at(stage Stage, since time.Time, code explain.Code, args ...any) draft {
	return draft{stage: stage, since: since, findings: []explain.Finding{explain.New(code, args...)}}
}

// and adds what else is to be said, once. The next step is that of the last finding
// that has one.
func (d draft) and(findings ...explain.Finding) draft {
	for _, f := range findings {
		if !slices.ContainsFunc(d.findings, f.Equal) {
			d.findings = append(slices.Clip(d.findings), f)
		}
	}
	return d
}

func (d draft) plus(code explain.Code, args ...any) draft { return d.and(explain.New(code, args...)) }

func (d draft) isLate() draft {
	d.late = true
	return d
}

// reason puts the findings into words. An update that failed is mended besides
// what else is to be done.
func (d draft) reason(id pipeline.TaskID, now time.Time) Reason {
	r := Reason{Stage: d.stage, Since: d.since.UTC(), Late: d.late, Findings: d.findings}
	for i := range d.findings {
		f := &d.findings[i]
		f.Task = id
		r.Lines = append(r.Lines, f.Text(now))
		switch next := f.Next(now); {
		case next == "":
		case r.Next != "" && slices.Contains(ofUpdates, f.Code):
			r.Or = next
		default:
			r.Next, r.Or = next, f.Or(now)
		}
	}
	r.Sentence = strings.Join(r.Lines, "; ")
	return r
}

// ofUpdates are the codes of updates that failed.
var ofUpdates = []explain.Code{explain.UpdateFailed, explain.UpdateConflict, explain.UpdateInvalid}

// Of finds the reason for one task. The error is one of reading the directory.
func Of(v *view.View, id pipeline.TaskID) (Reason, error) {
	t := v.Task(id)
	d, err := cause(v, t)
	if err != nil {
		return Reason{}, err
	}
	return withParent(v, withUpdates(v, withDispatcher(v, d), t), t).reason(id, v.Now), v.Err()
}

// withDispatcher says that the dispatcher does not run, of each task that an agent has or is to get.
func withDispatcher(v *view.View, d draft) draft {
	f := view.NoDispatcher(v)
	if f == nil || !slices.Contains([]Stage{ToAgent, ToTake, IsIgnored, AtWork, ToRetry}, d.stage) {
		return d
	}
	return d.and(*f)
}

// withParent says of which task it is a part.
func withParent(v *view.View, d draft, t *view.Task) draft {
	if t.State == nil || t.State.Parent == 0 {
		return d
	}
	parent := v.Task(t.State.Parent)
	if parent.State == nil && parent.Row == nil && parent.Create == nil {
		return d.plus(explain.PartOfUnknown, "other", t.State.Parent)
	}
	return d.plus(explain.PartOf, "other", parent.ID, "status", parent.Status())
}

// OfRow finds the reason for a row that is no step, whatever its Task ID says.
func OfRow(v *view.View, row *pipeline.Row) (Reason, error) {
	t := v.OfRow(row)
	if t.ID != 0 {
		return Of(v, t.ID)
	}
	return stranger(v, t).reason(0, v.Now), v.Err()
}

// Entry is a task with the reason why it is where it is.
type Entry struct {
	TaskID pipeline.TaskID `json:"taskId,omitempty"` // 0: a row that a person typed
	Title  string          `json:"title,omitempty"`
	Reason
}

// Slow returns the tasks that have stood longer than usual, and the rows that
// are no task, the oldest first.
func Slow(v *view.View) ([]Entry, error) {
	slow := []Entry{}
	for _, id := range v.IDs() {
		r, err := Of(v, id)
		if err != nil {
			return nil, err
		}
		if r.Slow(v) {
			slow = append(slow, Entry{id, v.Task(id).Title(), r})
		}
	}
	for _, row := range v.Tops() {
		t := v.OfRow(row)
		if t.ID != 0 {
			continue // it is among the ids
		}
		if r := stranger(v, t).reason(0, v.Now); r.Slow(v) {
			slow = append(slow, Entry{0, row.Title, r})
		}
	}
	slices.SortStableFunc(slow, func(a, b Entry) int { return a.Since.Compare(b.Since) })
	return slow, v.Err()
}

// cause is the reason without what is to be said about updates.
func cause(v *view.View, t *view.Task) (draft, error) {
	switch {
	case t.State == nil && (t.Row == nil || t.Create != nil):
		return stateless(v, t)
	case t.Row != nil && isTyped(t.State):
		return typed(v, t, t.Row), nil
	case !t.State.OnBoard() && !t.State.Away():
		return comingOnBoard(v, t), nil
	case t.Row == nil || v.Gone(t.State):
		return withoutRow(v, t), nil
	}
	d := withOddRow(v, withoutAgent(v, byStatus(v, t), t), t)
	d.findings = slices.Insert(slices.Clip(d.findings), min(1, len(d.findings)), undelivered(t)...) // what else holds it up has the step that counts
	return d, nil
}

// isTyped reports whether a row is one that a person typed, and no task yet: the store
// does not know it, or its adoption has begun.
func isTyped(t *core.Task) bool {
	return t == nil || t.DropID == "" && t.Dispatch == nil && (!t.OnBoard() || len(t.Steps) == 0)
}

// trouble is what keeps a component from getting on with a task: what is wrong with
// the component, in one short sentence, and what its last run reported about this
// task or its agent. What it reported about others says nothing here.
func trouble(v *view.View, t *view.Task, id string) (found []explain.Finding) {
	c := v.Component(id)
	if c.OldConfig { // what it reports may no longer be so
		return []explain.Finding{*v.OldConfig()}
	}
	if f := c.Problem; f != nil {
		found = append(found, *f)
	}
	if t.Agent != nil && id == heartbeat.Dispatcher {
		found = append(found, v.Wakes(t.Agent)...)
	}
	for _, f := range v.Reported(c) {
		if f.Code != explain.ListFull && concerns(&f, t) {
			found = append(found, f)
		}
	}
	return found
}

// concerns reports whether a finding of a component is about a task, about its
// agent, or about the whole board.
func concerns(f *explain.Finding, t *view.Task) bool {
	switch {
	case f.Code == explain.TaskNoAgent:
		return false // withoutAgent says it
	case f.Task != 0:
		return f.Task == t.ID
	case f.Code == explain.DispatchUnkept:
		return t.Agent != nil && f.Args["path"] == t.Agent.Workspace
	case f.Code == explain.RowUnfit, f.Code == explain.RowNoTaskID, f.Code == explain.RowNoAgent:
		return t.Row != nil && f.Args["title"] == t.Row.Title
	}
	return true
}

// rowTrouble is trouble for a component that has to make a row. Not every board
// says how many rows it holds: the component learns it when it makes one.
func rowTrouble(v *view.View, t *view.Task, id string) []explain.Finding {
	found := trouble(v, t, id)
	switch {
	case v.Full():
		found = append(found, explain.New(explain.ListFullAt, "rows", v.Board.Count, "limit", v.Board.Limit))
	case v.Component(id).Has(explain.ListFull):
		found = append(found, explain.New(explain.ListFull))
	}
	return found
}

func configPath(v *view.View) string { return filepath.Join(v.Dir, "otm.toml") }
