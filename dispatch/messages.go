package dispatch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"otm/core"
	"otm/pipeline"
)

// Message is what somebody wrote for an agent: a message in a thread, an answer, or why a
// task was sent back. It is untrusted text.
type Message struct {
	TaskID pipeline.TaskID `json:"taskId"`
	At     time.Time       `json:"at"`
	By     string          `json:"by"`
	What   string          `json:"what"` // said, answered, sent back, reason
	pipeline.Message
}

const (
	// maxMessages bounds the messages that an agent is shown at once, the newest of them.
	maxMessages = 20
	// maxUnread bounds the messages that are read again and again because none of them
	// mentions the agent.
	maxUnread = 200
)

// thread returns what others wrote on a task since the agent was given it before, and how
// many messages came earlier. given is the number of the event by which the agent was given
// the task now: what came later is for the next time.
func (d *Desk) thread(ctx context.Context, id pipeline.TaskID, agent string, given int64) (fresh []Message, earlier int, err error) {
	events, err := d.Store.Events(ctx, core.EventFilter{Task: id, Types: []string{"Acknowledged", "EditedByPerson", "Said"}})
	for i := range events {
		e := &events[i]
		if taken, ok := e.Data.(core.Acknowledged); ok && taken.By == core.TakenByNext && e.Seq < given && isBy(e, agent) {
			earlier, fresh = earlier+len(fresh), nil
		} else if m, ok := messageOf(e); ok && e.Seq < given && !isBy(e, agent) {
			fresh = append(fresh, m)
		}
	}
	more := max(0, len(fresh)-maxMessages)
	return fresh[more:], earlier + more, err
}

// Mentions returns the messages on tasks of others that mention an agent and that it was
// not shown yet, and the number up to which it has read when it was shown them; 0: nothing
// is to be noted.
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

// MentionsRead notes that an agent was shown what Mentions returned.
func (d *Desk) MentionsRead(ctx context.Context, agent string, to int64) error {
	if to == 0 {
		return nil
	}
	_, err := d.Store.Do(ctx, core.Command{At: d.Now(), By: core.ByAgent(agent), Agent: agent, Do: core.ReadMentions{To: to}})
	return err
}

// isBy reports whether an event is what an agent did.
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
		if data.Step != 0 || data.Field != pipeline.FieldReason || data.To == "" {
			return m, false
		}
		m.What, m.Text = cmp.Or(data.Means, "reason"), data.To
	default:
		return m, false
	}
	return m, true
}
