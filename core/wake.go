package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"otm/pipeline"
)

// BeginWake notes that an agent is about to be woken, before that happens. The task of
// the command holds the wake. If Key is not empty, that wake is sent again.
type BeginWake struct {
	Version int64 // of the task, as the wake was planned; ErrOutdated if it is another
	Key     string
	Via     pipeline.Trigger
	Tasks   []pipeline.TaskID // that the message names, the task of the command first
	AskedAt time.Time         // after that of the agent's wakes before
	Loss    bool              // it only tells the agent that the task was taken from it
}

func (b BeginWake) decide(d *decision) error {
	t := d.task
	if t == nil || t.Version != b.Version {
		return ErrOutdated
	}
	if b.Key != "" && b.Loss {
		return b.again(d)
	} else if b.Loss {
		return b.tell(d)
	}
	if err := dequeue(d); err != nil {
		return err
	}
	t = d.task
	if b.Key != "" {
		return b.again(d)
	}
	attempt := t.Attempt
	if attempt == 0 || slices.ContainsFunc(t.Wakes, func(w Wake) bool { return w.Attempt >= attempt }) {
		attempt++
	}
	d.emit(WakeBegun{Wake: Wake{
		Attempt: attempt, Key: WakeKey(t.ID, d.Agent, attempt), Agent: d.Agent, Via: b.Via, Tasks: b.Tasks, AskedAt: b.AskedAt, Sent: true,
	}})
	return nil
}

// tell begins the wake that tells the agent of its loss.
func (b BeginWake) tell(d *decision) error {
	l := LossOf(d.task, d.Agent)
	if l == nil {
		return ErrOutdated
	}
	d.emit(WakeBegun{Wake: Wake{
		Attempt: l.Attempt, Key: l.Key(d.Task), Agent: d.Agent, Via: b.Via, Tasks: b.Tasks, Loss: true, AskedAt: b.AskedAt, Sent: true,
	}})
	return nil
}

// again sends a wake once more. One that may be queued stays the same; else it names
// the tasks that wait now.
func (b BeginWake) again(d *decision) error {
	old := d.task.WakeNamed(b.Key)
	if old == nil {
		return ErrOutdated
	}
	w := *old
	if !w.MaybeQueued() || len(w.Tasks) == 0 {
		w.AskedAt, w.Tasks = b.AskedAt, b.Tasks
	}
	w.Sent, w.Refused = true, ""
	d.emit(WakeBegun{Wake: w, Again: true})
	return nil
}

// WakeKey is the key of a wake: the idempotency key and the run id.
func WakeKey(id pipeline.TaskID, agent string, attempt int) string {
	return fmt.Sprintf("otm-%v-%s-%d", id, strings.ReplaceAll(agent, " ", "_"), attempt)
}

// SettleWake notes the answer to a wake. Also are the other tasks that the message
// named.
type SettleWake struct {
	Key     string
	Answer  WakeAnswer
	Refused string // why, for people
}

// WakeAnswer is the answer to a wake.
type WakeAnswer string

// The answers.
const (
	WakeAccepted WakeAnswer = "accepted"
	WakeRefused  WakeAnswer = "refused"
	WakeUnsent   WakeAnswer = "unsent" // it is known not to have been sent: its key is unused
)

func (s SettleWake) decide(d *decision) error {
	if d.task == nil {
		return ErrNoTask
	}
	w := d.task.WakeNamed(s.Key)
	if w == nil {
		return ErrOutdated
	}
	agent := d.agentState().Clone()
	agent.answered(s.Answer, d.At)
	if err := d.changeAgent(agent, Answered); err != nil {
		return err
	}
	if s.Answer != WakeAccepted {
		d.emit(WakeFailed{Key: s.Key, Refused: s.Refused})
		return nil
	}
	n := Notified{Key: s.Key, Agent: w.Agent, Via: w.Via, Attempt: w.Attempt, First: true, Loss: w.Loss}
	d.emit(n)
	n.First = false
	for _, id := range d.Also {
		if id != d.Task && d.State.Tasks[id] != nil {
			d.emitOn(id, d.By, d.At, n)
		}
	}
	return nil
}

// EndStart notes how a start ended. The gateway may report a turn twice, by an
// event and by the final answer: a failure then replaces a success.
type EndStart struct {
	Key        string
	Ended      time.Time    // zero, or impossible: now, as the gateway's clock may differ from ours
	Outcome    StartOutcome // of a run at the gateway
	Detail     string       // why it failed, for people
	Process    bool         // it was a process
	ExitCode   *int
	Log        string
	LastWords  string        // untrusted
	RetryAfter time.Duration // the pause that the gateway asks for; zero: none
}

func (r EndStart) decide(d *decision) error {
	if d.task == nil {
		return nil // the gateway also reports runs that others began
	}
	w := d.task.WakeNamed(r.Key)
	if w == nil {
		return nil
	}
	first := w.Ended.IsZero()
	worse := !first && r.Outcome.Failed() && !w.Outcome.Failed()
	words := Excerpt(r.LastWords)
	if !first && !worse && (r.Process || words == "" || w.LastWords != "") {
		return nil
	}
	e := StartEnded{Key: r.Key, Agent: w.Agent, StartResult: w.StartResult, Process: r.Process}
	e.Log, e.LastWords = cmp.Or(r.Log, w.Log), cmp.Or(w.LastWords, words)
	if first {
		e.Ended = r.Ended
		if e.Ended.IsZero() || e.Ended.After(d.At) || e.Ended.Before(w.AskedAt) {
			e.Ended = d.At
		}
	}
	if first || worse {
		e.Outcome, e.Code, e.RetryAt = r.Outcome, r.ExitCode, time.Time{}
		e.Exit = cmp.Or(Excerpt(r.Detail), string(r.Outcome))
		if r.RetryAfter > 0 {
			e.RetryAt = d.At.Add(r.RetryAfter)
		}
	}
	d.Agent = w.Agent
	d.emit(e)
	return nil
}

// LoseStart notes that nobody knows how a start ended.
type LoseStart struct{ Key string }

func (l LoseStart) decide(d *decision) error {
	if d.task == nil || d.task.WakeNamed(l.Key) == nil {
		return nil
	}
	d.emit(StartUnknown(l))
	return nil
}

// maxWords bounds foreign text in a state, in bytes.
const maxWords = 500

// Excerpt returns text on one line, at most 500 bytes, as valid UTF-8.
func Excerpt(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "\uFFFD")
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "")
	}
	return text
}
