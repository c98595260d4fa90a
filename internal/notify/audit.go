package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"otm/core"
	"otm/internal/explain"
	"otm/internal/incident"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/slacklist"
)

// Audit mirrors the events of tasks in a channel of Slack. Each task has a thread there, with a
// line for each event, in order. It is for one goroutine.
//
// Messages carry marks that only programs see. After a crash, or an answer that was lost,
// the audit looks for them before it posts again.
type Audit struct {
	Place
	Chat    *slacklist.Chat
	Channel string
	StoreID string
	// Words say what an event means; "": nothing to people.
	Words func(*core.Event) string
	Sleep func(time.Duration) // tests replace it; nil: it waits
}

const (
	// auditAtOnce bounds the events that are mirrored together.
	auditAtOnce = 100
	// auditPause is the pause after a message: Slack takes one a second in a channel.
	auditPause = 1100 * time.Millisecond
	// auditSkew is how far the clock of Slack may be behind ours.
	auditSkew = 10 * time.Minute
)

// Run mirrors until ctx ends.
func (a *Audit) Run(ctx context.Context) error { return a.run(ctx, a.Once) }

// Once mirrors the next events, if there are any.
func (a *Audit) Once(ctx context.Context) error {
	if ready, err := a.ready(ctx); err != nil || !ready {
		return err
	}
	next := *a.state
	next.Lost = "" // what was told stands in the threads
	events, err := a.Store.Events(ctx, core.EventFilter{After: next.Seq, Limit: auditAtOnce})
	if err != nil {
		return a.unread(ctx, err)
	}
	next.readAgain()
	if len(events) == 0 {
		return errors.Join(a.follow(ctx, &next), a.keep(&next))
	}
	tried := next.Until
	next.Until = max(tried, events[len(events)-1].Seq)
	trying := next
	if err := a.keep(&trying); err != nil {
		return err
	}
	last := events[len(events)-1].Seq
	var done []pipeline.TaskID
	for i := range events {
		id := events[i].Task
		if id == 0 || slices.Contains(done, id) {
			continue
		}
		done = append(done, id)
		if err := a.mirror(ctx, id, &events[i], last, events[i].Seq <= tried); err != nil {
			if ctx.Err() != nil {
				return err // a stop is no failure
			}
			return errors.Join(err, a.failed(refusedBySlack(err, a.Now()), false))
		}
	}
	next.Seq, next.Failing = last, nil
	return a.keep(&next)
}

// line is what the audit says of an event.
type line struct {
	seq  int64
	text string
}

// mirror posts the lines of a task for its events from first to the one of a number. again
// says that some may have been posted already.
func (a *Audit) mirror(ctx context.Context, id pipeline.TaskID, first *core.Event, to int64, again bool) error {
	t, err := a.Store.Task(ctx, id)
	if errors.Is(err, core.ErrNoTask) {
		return nil // an incident named it
	}
	if err != nil {
		return err
	}
	events, damage, err := core.EventsAtHand(ctx, a.Store, core.EventFilter{Task: id})
	if err != nil {
		return err
	}
	var s core.State // as of each event; it stays empty where an archive is damaged
	var said []line
	for i := range events {
		e := &events[i]
		if e.Seq > to {
			break
		}
		if damage == nil {
			core.Apply(&s, e)
		}
		if lines := a.lines(e, cmp.Or(s.Tasks[id], t)); e.Seq >= first.Seq && len(lines) > 0 {
			said = append(said, line{e.Seq, strings.Join(lines, "\n")})
		}
	}
	if len(said) == 0 {
		return nil
	}
	thread, err := a.thread(ctx, t, first, again)
	if err != nil {
		return err
	}
	if again {
		marked, err := a.marked(ctx, thread, first.At)
		if err != nil {
			return err
		}
		for _, m := range marked {
			said = slices.DeleteFunc(said, func(l line) bool { return l.seq <= m.Seq })
		}
	}
	anew := false
	for len(said) > 0 {
		text, n := said[0].text, 1
		for ; n < len(said) && len(text)+len(said[n].text) < slackLimit; n++ {
			text += "\n" + said[n].text
		}
		_, err := a.post(ctx, thread, text, slacklist.Mark{Store: a.StoreID, Task: id.String(), Seq: said[n-1].seq})
		if e, ok := errors.AsType[*pipeline.BoardError](err); ok && e.Class == pipeline.Refused && !anew {
			anew = true // the thread may be gone; if it is the channel, that is refused too
			if thread, err = a.begin(ctx, t, ""); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		said = said[n:]
	}
	return nil
}

// thread returns the thread of a task, and begins it if there is none.
func (a *Audit) thread(ctx context.Context, t *core.Task, first *core.Event, again bool) (string, error) {
	if t.Audit != nil && t.Audit.Channel == a.Channel {
		return t.Audit.TS, nil
	}
	ts := ""
	if again {
		marked, err := a.marked(ctx, "", first.At)
		if err != nil {
			return "", err
		}
		for _, m := range marked {
			if m.Task == t.ID.String() {
				ts = m.TS
			}
		}
	}
	return a.begin(ctx, t, ts)
}

// begin begins the thread of a task, and notes it. ts is that of the message that begins it;
// "": it is posted now.
func (a *Audit) begin(ctx context.Context, t *core.Task, ts string) (_ string, err error) {
	if ts == "" {
		text := fmt.Sprintf("%v *%s*", t.ID, escapeSlack(safe.Escape(core.Excerpt(t.Title))))
		if ts, err = a.post(ctx, "", text, slacklist.Mark{Store: a.StoreID, Task: t.ID.String()}); err != nil {
			return "", err
		}
	}
	begun := core.AuditPosted{Channel: a.Channel, TS: ts}
	if begun.Link, err = a.Chat.Link(ctx, a.Channel, ts); err != nil {
		a.Log.Warn("the link to a thread is not known", "task", t.ID, "err", err)
	}
	_, err = core.DoOne(ctx, a.Store, core.Command{At: a.Now(), By: core.Component("otm"), Task: t.ID, Do: core.PostAudit{AuditPosted: begun}})
	return ts, err
}

func (a *Audit) post(ctx context.Context, thread, text string, mark slacklist.Mark) (string, error) {
	ts, err := a.Chat.Post(ctx, a.Channel, thread, text, &mark)
	if err != nil {
		return "", err
	}
	if a.Sleep != nil {
		a.Sleep(auditPause)
		return ts, nil
	}
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-time.After(auditPause):
		return ts, nil
	}
}

// marked returns our marks of messages since a time. Without the right to read the channel it
// finds none, and a line may come twice.
func (a *Audit) marked(ctx context.Context, thread string, since time.Time) ([]slacklist.Mark, error) {
	found, err := a.Chat.Marked(ctx, a.Channel, thread, since.Add(-auditSkew))
	if e, ok := errors.AsType[*pipeline.BoardError](err); ok && e.Needed != "" {
		a.Log.Warn("the audit may repeat lines, as it may not read its channel", "err", err)
		return nil, nil
	}
	return slices.DeleteFunc(found, func(m slacklist.Mark) bool { return m.Store != a.StoreID }), err
}

// lines returns the lines of an event. t is the task as it was after the event.
func (a *Audit) lines(e *core.Event, t *core.Task) []string {
	return pipeline.Map(a.say(e, t), func(line string) string {
		return fmt.Sprintf("[%s] %s", e.At.UTC().Format("2006-01-02 15:04:05"), escapeSlack(safe.Escape(safe.Cut(line, maxAfter))))
	})
}

// asks are the codes of the requests of reviewers, by the status that they ask for.
var asks = map[pipeline.Status]string{pipeline.Done: "IE-04", pipeline.Rejected: "IE-05", pipeline.New: "IE-07"}

func (a *Audit) say(e *core.Event, t *core.Task) []string {
	by, words := cmp.Or(e.By.Name, string(e.By.Kind)), a.Words(e)
	person := e.By.Kind == core.Person || e.By.Kind == core.Board
	agent := e.By.Kind == core.Agent || e.By.Kind == core.Worker
	switch data := e.Data.(type) {
	case core.TaskMoved:
		changed := strings.TrimSuffix(fmt.Sprintf("OTM: Status changed %s → %s (%s)", data.From, data.To, data.Move), " ()")
		switch {
		case person:
			return []string{fmt.Sprintf("Human(%s) change detected: status = %s (IE-01)", by, data.To), changed}
		case e.By.Kind == core.Reviewer:
			return []string{fmt.Sprintf("Orchestrator → OTM: %s requested (%s)", data.To, cmp.Or(asks[data.To], "IE-06")), changed}
		}
		return []string{changed}
	case core.Approved: // the move says it
		return nil
	case core.EditedByPerson:
		return []string{fmt.Sprintf("Human(%s) change detected: %s = %s (IE-01)", by, data.Field, data.To)}
	case core.Notified:
		if data.Loss {
			return []string{fmt.Sprintf("OTM → Agent(%s): Task taken away — %s (OE-04)", data.Agent, t.Title)}
		}
		return []string{fmt.Sprintf("OTM → Agent(%s): Task assigned — %s (OE-01)", data.Agent, t.Title)}
	case core.Acknowledged:
		return []string{fmt.Sprintf("Agent(%s) → OTM: Task acknowledged (IE-03)", by)}
	case core.StepDone:
		if agent && data.Done {
			return []string{fmt.Sprintf("Agent(%s) → OTM: Subtask done — %s (IE-02). Remaining: %d", by, data.Title, len(t.Steps)-t.StepsDone())}
		}
	case core.ReconciliationDrift, core.ReportFailed, core.WakeFailed, core.RunFailed:
		return []string{"OTM ERROR: " + words + " (IE-10)"}
	case core.IncidentOpened:
		found := incident.Finding(&data.Found)
		return watchdog(found.Text(time.Time{}))
	case core.IncidentClosed:
		found := incident.Finding(&data.Found)
		return watchdog("over: " + explain.Fact(&found, time.Time{}))
	}
	switch {
	case words == "":
		return nil
	case agent:
		return []string{fmt.Sprintf("Agent(%s) → OTM: %s", by, words)}
	case person:
		return []string{fmt.Sprintf("Human(%s) change detected: %s (IE-01)", by, words)}
	}
	return []string{"OTM: " + words}
}

func watchdog(text string) []string { return []string{"Watchdog: " + text + " (IE-08)"} }
