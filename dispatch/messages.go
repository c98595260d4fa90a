package dispatch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"otm/core"
	"otm/pipeline"
)

// Message is what somebody wrote for an agent: a message in a thread, an answer, or the
// reason why a task was sent back. Its text is untrusted.
type Message struct {
	TaskID pipeline.TaskID `json:"taskId"`
	At     time.Time       `json:"at"`
	By     string          `json:"by"`
	What   string          `json:"what"` // said, answered, sent back, reason
	pipeline.Message
}

const (
	// maxMessages bounds the messages that an agent is shown at once: the newest ones.
	maxMessages = 20
	// maxUnread bounds the messages, none of which mentions the agent, that each call reads
	// again.
	maxUnread = 200
)

// thread returns what others wrote on a task since the agent was last given it, and counts
// the messages before. given is the number of the event that gives it the task now: later
// messages are for the next time. What stands as the task's reason is not among them: the
// agent is shown that every time.
func (d *Desk) thread(ctx context.Context, t *core.Task, agent string, given int64) (fresh []Message, earlier int, err error) {
	events, _, err := core.EventsAtHand(ctx, d.Store, core.EventFilter{Task: t.ID, Types: []string{"Acknowledged", "EditedByPerson", "Said"}})
	for i := range events {
		e := &events[i]
		if taken, ok := e.Data.(core.Acknowledged); ok && taken.By == core.TakenByNext && e.Seq < given && isBy(e, agent) {
			earlier, fresh = earlier+len(fresh), nil
		} else if m, ok := messageOf(e); ok && e.Seq < given && !isBy(e, agent) {
			fresh = append(fresh, m)
		}
	}
	for i, m := range slices.Backward(fresh) {
		if m.What != "said" && t.Answered && m.Text == t.Reason {
			fresh = slices.Delete(fresh, i, i+1)
			break
		}
	}
	more := max(0, len(fresh)-maxMessages)
	return fresh[more:], earlier + more, err
}

// Mentions returns the messages on tasks of others that mention an agent and that it has
// not been shown. Pass to to MentionsRead once it was shown them.
func (d *Desk) Mentions(ctx context.Context, agent string) (all []Message, to int64, err error) {
	if d.Store == nil {
		return nil, 0, nil
	}
	state, err := d.Store.Agent(ctx, agent)
	if err != nil {
		return nil, 0, err
	}
	events, err := d.Store.Events(ctx, core.EventFilter{After: state.ReadTo, Types: []string{"Said"}})
	for i := range events {
		e := &events[i]
		said, _ := e.Data.(core.Said)
		named := slices.ContainsFunc(said.Mentions, func(name string) bool { return core.SameAgent(name, agent) })
		if m, ok := messageOf(e); ok && named && !core.SameAgent(e.Agent, agent) && !isBy(e, agent) {
			all, to = append(all, m), e.Seq
		}
	}
	if to == 0 && len(events) >= maxUnread {
		to = events[len(events)-1].Seq
	}
	return all[max(0, len(all)-maxMessages):], to, err
}

// MentionsRead notes up to which event an agent was shown what mentions it; 0: nothing new.
func (d *Desk) MentionsRead(ctx context.Context, agent string, to int64) error {
	if to == 0 {
		return nil
	}
	_, err := d.Store.Do(ctx, core.Command{At: d.Now(), By: core.ByAgent(agent), Agent: agent, Do: core.ReadMentions{To: to}})
	return err
}

// isBy reports whether the agent caused an event.
func isBy(e *core.Event, agent string) bool {
	return (e.By.Kind == core.Agent || e.By.Kind == core.Worker) && core.SameAgent(e.By.Name, agent)
}

// messageOf returns what an event says to the agent of its task; false: nothing.
func messageOf(e *core.Event) (m Message, ok bool) {
	m = Message{TaskID: e.Task, At: e.At.UTC(), By: e.By.String()}
	switch data := e.Data.(type) {
	case core.Said:
		m.What, m.Message = "said", data.Message
	case core.EditedByPerson:
		if data.Step != 0 || data.Field != pipeline.FieldReason || data.To == "" || data.Means == core.Explains {
			return m, false
		}
		m.What, m.Text = cmp.Or(data.Means, "reason"), data.To
	default:
		return m, false
	}
	return m, true
}
