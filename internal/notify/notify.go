// Package notify tells people what needs them: tasks that are blocked, failed, or to be
// reviewed, and what is wrong with agents and components.
//
// News are events of the store, read in their order. Of an incident people are told once
// when it is opened, once when it becomes worse, and once when it is over. What was told
// is kept in a file of the data directory. A crash between the telling and the file repeats
// one message; nothing is left out. While an outlet does not take messages, they become one.
package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"otm/core"
	"otm/internal/durable"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/pipeline"
)

// Kind is what an item is about.
type Kind string

// The kinds.
const (
	Blocked Kind = "blocked" // an agent asks
	Review  Kind = "review"  // a task is agent_done
	Done    Kind = "done"    // a task is done
	Retry   Kind = "retry"   // a run failed, and another follows
	Failed  Kind = "failed"  // a dead letter
	Problem Kind = "problem" // an incident was opened, became worse, or is over
)

// Kinds are all kinds; Usual are those of which people are told by default.
var (
	Kinds = []Kind{Blocked, Review, Done, Retry, Failed, Problem}
	Usual = []Kind{Blocked, Review, Failed, Problem}
)

// Item is one piece of news.
type Item struct {
	Kind   Kind            `json:"kind"`
	At     time.Time       `json:"at"`
	Task   pipeline.TaskID `json:"taskId,omitzero"`
	Title  string          `json:"title,omitempty"`
	Agent  string          `json:"agent,omitempty"`
	Code   explain.Code    `json:"code,omitempty"` // of a problem: of its finding
	Err    string          `json:"err,omitempty"`  // of a problem: its code in the specification, such as ERR-01
	Over   bool            `json:"over,omitempty"` // the problem is no more
	Text   string          `json:"text"`           // one line, without control characters
	Next   string          `json:"next,omitempty"` // what to run or to do
	Update int64           `json:"seq,omitempty"`  // the number of the event
	// Incident is the number of that of a problem.
	Incident int64 `json:"incident,omitempty"`

	told bool // of a problem: people were told of it before
}

// Message is what an outlet gets.
type Message struct {
	Text  string `json:"text"` // the items, a line each, with the next steps
	Items []Item `json:"items"`
	More  int    `json:"more,omitempty"` // items that were left out, as there were too many
}

// Outlet takes messages to people. An error means that the message is told again later.
type Outlet interface {
	Tell(ctx context.Context, m Message) error
}

// Notifier tells an outlet what happens. It is for one goroutine.
type Notifier struct {
	Store  core.Reader
	Outlet Outlet
	What   []Kind
	Path   string // of the file that says what was told
	Now    func() time.Time
	Log    *slog.Logger
	Every  time.Duration // between two looks; zero: lookEvery

	state *State
}

const (
	lookEvery = 5 * time.Second
	// maxItems bounds the items of a message; the newest are kept.
	maxItems = 50
	// longestPause is the longest pause after a message that was not taken.
	longestPause = 10 * time.Minute
)

// State is what was told.
type State struct {
	Seq int64 `json:"seq"` // of the last event that was told, or is of no interest
	// Failing is since when messages are not taken, and why; nil: they are.
	Failing *Failing `json:"failing,omitempty"`
}

// Failing says that messages are not taken.
type Failing struct {
	Since time.Time `json:"since"`
	Last  time.Time `json:"last"`
	Tries int       `json:"tries"`
	Error string    `json:"error"`
}

// Read reads what was told; nil: nothing ever was.
func Read(path string) (*State, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &State{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Run tells until ctx ends.
func (n *Notifier) Run(ctx context.Context) error {
	every := n.Every
	if every == 0 {
		every = lookEvery
	}
	for {
		if err := n.Once(ctx); err != nil && ctx.Err() == nil {
			n.Log.Warn("people were not told", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// Once looks for news and tells them. It begins with what happens after its first call in
// a directory.
func (n *Notifier) Once(ctx context.Context) error {
	if n.state == nil {
		if err := n.begin(ctx); err != nil {
			return err
		}
	}
	next := *n.state
	if f := next.Failing; f != nil && n.Now().Before(f.Last.Add(pause(f.Tries))) && !f.Last.After(n.Now()) {
		return nil
	}
	items, err := n.news(ctx, &next)
	if err != nil {
		return err
	}
	if len(items) > 0 {
		if err := n.Outlet.Tell(ctx, message(items)); err != nil {
			return errors.Join(err, n.failed(err))
		}
		next.Failing = nil
	}
	return n.keep(&next)
}

// pause is how long to wait after so many tries in vain.
func pause(tries int) time.Duration {
	return min(10*time.Second<<min(tries-1, 8), longestPause)
}

// begin reads what was told. In a new directory nothing of the past is.
func (n *Notifier) begin(ctx context.Context) (err error) {
	s, err := Read(n.Path)
	if err != nil { // it was damaged, and begins anew
		n.Log.Error("what people were told is not known; they are told what happens from now on", "err", err)
	}
	if s == nil {
		last, err := n.Store.Events(ctx, core.EventFilter{Last: true})
		if err != nil {
			return err
		}
		s = &State{}
		if len(last) > 0 {
			s.Seq = last[0].Seq
		}
	}
	return n.keep(s)
}

// keep keeps what was told.
func (n *Notifier) keep(s *State) error {
	old, _ := json.Marshal(n.state)
	data, err := json.Marshal(s)
	if err != nil || string(old) == string(data) {
		return err
	}
	n.state = s
	return durable.Replace(n.Path, append(data, '\n'))
}

// failed notes that a message was not taken.
func (n *Notifier) failed(why error) error {
	s := *n.state
	f := Failing{Since: n.Now().UTC(), Error: safe.Escape(why.Error())}
	if n.state.Failing != nil {
		f.Since, f.Tries = n.state.Failing.Since, n.state.Failing.Tries
	}
	f.Last, f.Tries = n.Now().UTC(), f.Tries+1
	s.Failing = &f
	return n.keep(&s)
}

// atOnce bounds the events that are read together.
const atOnce = 1000

// news are the events since the last message that people are to hear of.
func (n *Notifier) news(ctx context.Context, s *State) (items []Item, err error) {
	for {
		events, err := n.Store.Events(ctx, core.EventFilter{After: s.Seq, Limit: atOnce})
		if err != nil {
			return nil, err
		}
		for i := range events {
			s.Seq = events[i].Seq
			if events[i].IncidentOf() != 0 {
				items = n.incident(items, &events[i])
				continue
			}
			item, err := n.item(ctx, &events[i])
			if err != nil {
				return nil, err
			}
			if item != nil && slices.Contains(n.What, item.Kind) {
				same := func(o Item) bool { return item.Kind != Retry && o.Kind == item.Kind && o.Task == item.Task }
				items = append(slices.DeleteFunc(items, same), *item) // of what came and went, the last
			}
		}
		if len(events) < atOnce {
			return items, n.follow(ctx, s)
		}
	}
}

// follow takes up the numbers of another store: one that was lost begins anew, a backup goes
// on where it was made.
func (n *Notifier) follow(ctx context.Context, s *State) error {
	last, err := n.Store.Events(ctx, core.EventFilter{Last: true})
	if err == nil && len(last) > 0 && last[0].Seq < s.Seq {
		n.Log.Warn("the store is another one than before; people are told what happens from now on")
		s.Seq = last[0].Seq
	}
	return err
}

// item is what an event says to people; nil: nothing.
func (n *Notifier) item(ctx context.Context, e *core.Event) (*Item, error) {
	item := &Item{At: e.At, Task: e.Task, Update: e.Seq}
	retry, isRetry := e.Data.(core.RetryScheduled)
	m, moved := e.Data.(core.TaskMoved)
	switch {
	case isRetry:
		item.Kind, item.Next = Retry, "otm why "+e.Task.String()
	case !moved, e.By.Kind == core.Person && m.To != pipeline.Done, e.By.Kind == core.Board && m.To != pipeline.Done:
		return nil, nil // who did it knows
	case m.To == pipeline.Blocked:
		item.Kind, item.Next = Blocked, fmt.Sprintf("otm say --unblock %v 'TEXT'", e.Task)
	case m.To == pipeline.AgentDone:
		item.Kind, item.Next = Review, fmt.Sprintf("otm accept %v, or otm rework %v --reason 'what is to be done'", e.Task, e.Task)
	case m.To == pipeline.Done:
		item.Kind = Done
	case m.To == pipeline.Failed:
		item.Kind, item.Next = Failed, fmt.Sprintf("otm requeue %v, or otm assign %v --to AGENT", e.Task, e.Task)
	default:
		return nil, nil
	}
	t, err := n.Store.Task(ctx, e.Task)
	if err != nil {
		return nil, err
	}
	if moved && item.Kind != Done && t.Status != m.To {
		return nil, nil // it went on since
	}
	item.Title, item.Agent = t.Title, t.Agent
	failure := t.Reason
	for _, r := range t.Runs {
		if r.Ending == core.EndFailed && (item.Kind == Failed || r.Number == retry.Run-1) {
			failure = r.Failure.String()
		}
	}
	says := map[Kind]string{
		Blocked: t.Agent + " is blocked: " + t.Reason, Review: "to be reviewed: " + t.Result, Done: "done", Failed: "failed: " + failure,
		Retry: fmt.Sprintf("run %d failed (%s), it is tried again", retry.Run-1, failure),
	}[item.Kind]
	item.Text = safe.Escape(fmt.Sprintf("%v %s: %s", e.Task, core.Excerpt(t.Title), strings.TrimSuffix(core.Excerpt(says), ":")))
	return item, nil
}

// message makes a message of items.
func message(items []Item) Message {
	m := Message{More: max(0, len(items)-maxItems)}
	items = items[m.More:]
	m.Items = items
	var lines []string
	for _, i := range items {
		line := i.Text
		if i.Next != "" {
			line += " → " + i.Next
		}
		lines = append(lines, line)
	}
	if m.More > 0 {
		lines = append([]string{fmt.Sprintf("%d earlier ones are left out: otm why --all", m.More)}, lines...)
	}
	m.Text = strings.Join(lines, "\n")
	return m
}
