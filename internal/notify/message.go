package notify

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf16"

	"otm/core"
	"otm/internal/explain"
	"otm/internal/incident"
	"otm/internal/safe"
	"otm/pipeline"
)

// Kind is the subject of an item.
type Kind string

// The kinds.
const (
	Blocked Kind = "blocked" // an agent asks
	Review  Kind = "review"  // a task is agent_done
	Done    Kind = "done"    // a task is done
	Retry   Kind = "retry"   // a run failed, and another follows
	Failed  Kind = "failed"  // a dead letter
	Problem Kind = "problem" // an incident was opened, became worse, or is over
	Daily   Kind = "daily"   // a day with incidents is over
	Mention Kind = "mention" // a message on a task is for a person
)

// Usual are the kinds of which people are told by default.
var Usual = []Kind{Blocked, Review, Failed, Problem, Daily, Mention}

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
	Text   string          `json:"text"`           // one line, without control characters; a title stands in *asterisks*
	Next   string          `json:"next,omitempty"` // what to run or to do
	Or     string          `json:"or,omitempty"`   // what may be done instead
	Update int64           `json:"seq,omitempty"`  // the number of the event
	Trace  pipeline.Trace  `json:"traceparent,omitempty"`
	// Incident is the number of that of a problem.
	Incident int64 `json:"incident,omitempty"`

	told  bool // of a problem: people were told of it before
	words      // of Text
}

// words are the text of an item, in parts that outlets escape.
type words struct{ before, title, after string }

// line is the text with the title in asterisks.
func (w words) line(escape func(string) string) string {
	if w.title == "" {
		return escape(w.before + w.after)
	}
	return escape(w.before) + "*" + escape(w.title) + "*" + escape(w.after)
}

// Message is a message to people.
type Message struct {
	Text  string `json:"text"` // the items, a line each, with the next steps
	Items []Item `json:"items"`
	More  int    `json:"more,omitempty"` // items that were left out, as there were too many
}

// message makes a message of items.
func message(items []Item) Message {
	m := Message{More: max(0, len(items)-maxItems)}
	m.Items = items[m.More:]
	m.Text = m.render(plain, 0)
	return m
}

// plain escapes nothing.
func plain(s string) string { return s }

// Test is a message for otm notify test.
func Test(now time.Time) Message {
	return Trouble(Item{At: now.UTC()}, "a test: OTM can tell you what needs you")
}

// Trouble is a message about one problem.
func Trouble(item Item, text string) Message { return message([]Item{problem(item, text)}) }

// Bounds of the parts of a line where an outlet bounds a message, in code points. A line
// with everything escaped takes less than a message.
const (
	maxTitle = 200
	maxAfter = 900
	maxNext  = 300
)

// render puts the message into lines for an outlet that takes so many UTF-16 units; 0: any
// number. The oldest items are left out first.
func (m *Message) render(escape func(string) string, limit int) string {
	more, room := m.More, limit-100
	var lines []string
	for i := len(m.Items) - 1; i >= 0; i-- {
		w, next := m.Items[i].words, m.Items[i].Next
		if limit > 0 {
			w = words{w.before, safe.Cut(w.title, maxTitle), safe.Cut(w.after, maxAfter)}
			next = safe.Cut(next, maxNext)
		}
		line := w.line(escape)
		if next != "" {
			line += escape(" → " + next)
		}
		if or := m.Items[i].Or; or != "" {
			line += escape("; or: " + safe.Cut(or, maxNext))
		}
		if room -= len(utf16.Encode([]rune(line))) + 1; limit > 0 && room < 0 {
			more += i + 1
			break
		}
		lines = append([]string{line}, lines...)
	}
	if more > 0 {
		lines = append([]string{escape(fmt.Sprintf("%d earlier ones are left out: otm why --all", more))}, lines...)
	}
	return strings.Join(lines, "\n")
}

// trace is the place in the trace to which all items belong; "": they belong to several, or
// to none.
func (m *Message) trace() (t pipeline.Trace) {
	for i, item := range m.Items {
		if i > 0 && item.Trace.ID() != t.ID() {
			return ""
		}
		t = item.Trace
	}
	return t
}

// problem returns an item about an incident.
func problem(item Item, text string) Item {
	item.Kind, item.Text, item.words = Problem, text, words{after: text}
	return item
}

// moves are the moves that are news, by the status that the task got.
var moves = map[pipeline.Status]struct {
	kind  Kind
	code  explain.Code // of the finding that has the next steps; "": there are none
	after func(*core.Task) string
}{
	pipeline.Blocked: {Blocked, explain.Blocked, func(t *core.Task) string {
		return fmt.Sprintf(": %s is blocked: %s", t.Agent, core.Excerpt(t.Reason))
	}},
	pipeline.AgentDone: {Review, explain.ToReview, func(t *core.Task) string {
		return fmt.Sprintf(" completed by %s, to be reviewed. %s", t.Agent, core.Excerpt(t.Result))
	}},
	pipeline.Done: {Done, "", func(t *core.Task) string {
		return fmt.Sprintf(" completed by %s. %s", t.Agent, core.Excerpt(t.Result))
	}},
	pipeline.Failed: {Failed, explain.SetFailed, failed},
}

// item returns the news of an event; nil: it is no news.
func (n *Notifier) item(ctx context.Context, e *core.Event) (*Item, error) {
	if ended, ok := e.Data.(core.DayEnded); ok {
		return n.dayItem(ctx, e, ended)
	}
	retry, isRetry := e.Data.(core.RetryScheduled)
	m, _ := e.Data.(core.TaskMoved)
	news, isNews := moves[m.To]
	byPerson := e.By.Kind == core.Person || e.By.Kind == core.Board
	said, _ := e.Data.(core.Said)
	people := pipeline.Filter(said.Mentions, n.Person)
	if len(people) == 0 && (!isRetry && !isNews || byPerson && m.To != pipeline.Done) {
		return nil, nil // no news, or the person who did it knows
	}
	t, err := n.Store.Task(ctx, e.Task)
	if err != nil {
		return nil, err
	}
	if isNews && m.To != pipeline.Done && t.Status != m.To {
		return nil, nil // it went on since
	}
	item := &Item{Kind: news.kind, At: e.At, Task: e.Task, Title: t.Title, Agent: t.Agent, Update: e.Seq, Trace: e.Trace}
	w := words{e.Task.String() + " ", core.Excerpt(t.Title), ""}
	switch {
	case isRetry:
		item.Kind, item.Next = Retry, "otm why "+e.Task.String()
		w = n.retried(w, t, retry)
	case len(people) > 0:
		item.Kind, item.Next, item.Or = Mention, "otm show "+e.Task.String(), "otm say "+e.Task.String()+" '…'"
		w.after = fmt.Sprintf(": %s to %s: %s", e.By, strings.Join(people, ", "), core.Excerpt(said.Text))
	default:
		w.after = news.after(t)
		f := explain.New(news.code).On(e.Task)
		if item.Next = f.Next(time.Time{}); news.kind != Blocked {
			item.Or = f.Or(time.Time{})
		}
	}
	item.words = words{w.before, safe.Escape(w.title), safe.Escape(strings.TrimRight(w.after, ": "))}
	item.Text = item.line(plain)
	return item, nil
}

// dayItem is the news of the end of a day.
func (n *Notifier) dayItem(ctx context.Context, e *core.Event, day core.DayEnded) (*Item, error) {
	here := n.Now().Location()
	from := day.From.In(here)
	var text string
	switch d, err := incident.Daily(ctx, n.Store, from, day.To.In(here)); {
	case err == nil:
		text = d.Text()
	case ctx.Err() != nil:
		return nil, err
	default: // such as a damaged archive; it holds up no other news
		text = fmt.Sprintf("%s: the day's report cannot be made: %v", from.Format(time.DateOnly), err)
	}
	item := problem(Item{At: e.At, Update: e.Seq, Next: "otm daily"}, safe.Escape(text))
	item.Kind = Daily
	return &item, nil
}

// failed says that a task is a dead letter.
func failed(t *core.Task) string {
	tries, reason := t.Runs.Tries(t.CountFrom), core.Excerpt(t.Reason)
	if r := t.Runs.Last(); r != nil && r.Ending == core.EndFailed {
		reason = core.Excerpt(r.Failure.String())
	}
	if tries > 1 {
		return fmt.Sprintf(" failed after %d attempts. Needs human attention. Reason: %s", tries, reason)
	}
	return fmt.Sprintf(" failed. Reason: %s. Retry: no", reason)
}

// retried says that another run of a task follows.
func (n *Notifier) retried(w words, t *core.Task, retry core.RetryScheduled) words {
	for _, r := range t.Runs {
		switch {
		case r.Number != retry.Run-1:
		case r.Ending == core.EndFailed:
			w.before += fmt.Sprintf("Retry %d/%d: ", retry.Try, n.Types.Rules(t.Type).MaxRetries)
			w.after = " back in queue. Reason: " + core.Excerpt(r.Failure.String())
		default: // it was taken from an agent that is silent
			w.after = fmt.Sprintf(" stuck — %s offline. Returning to queue.", r.Agent)
		}
	}
	return w
}
