package core

import (
	"slices"
	"time"

	"otm/pipeline"
)

// Loss says that a person or a reviewer took a task from an agent at the gateway. The process of
// an agent with a command is ended; a turn at the gateway may go on, so its agent is told.
type Loss struct {
	Agent   string          `json:"agent"`
	Attempt int             `json:"attempt"` // of the hand-out that it lost
	At      time.Time       `json:"at"`
	Status  pipeline.Status `json:"status"`           // what the task became
	Gone    bool            `json:"gone,omitempty"`   // its row was deleted
	To      string          `json:"to,omitempty"`     // who has it now; "": nobody, or it is over
	Reason  string          `json:"reason,omitempty"` // why, in the words of who did it
}

// Key returns the key of the wake that tells the agent.
func (l *Loss) Key(id pipeline.TaskID) string { return WakeKey(id, l.Agent, l.Attempt) + "-loss" }

// takeAway returns a function that notes the loss of the task, if the command takes it from an
// agent that knows of it. reason is the one that the command gives; nil: it gives none.
func takeAway(d *decision, reason *string) func() {
	had := d.task.Dispatch
	if had == nil || had.Via != pipeline.TriggerGateway || !d.task.Out() || !reached(d.task) {
		return func() {}
	}
	agent, attempt := had.Agent, had.Attempt
	return func() {
		t := d.task
		l := Loss{Agent: agent, Attempt: attempt, At: d.At.UTC(), Status: t.Status, Gone: t.Away()}
		switch t.Status {
		case pipeline.AgentDone, pipeline.Done:
			return
		case pipeline.New, pipeline.Assigned, pipeline.Pending, pipeline.InProgress, pipeline.Blocked:
			if SameAgent(t.Agent, agent) && !l.Gone {
				return // it keeps the task, or is given it again: it is woken for that
			}
			if !pipeline.IsSharedQueue(t.Agent) {
				l.To = t.Agent
			}
		}
		if reason != nil {
			l.Reason = Excerpt(*reason)
		}
		d.emit(TakenAway{l})
	}
}

// reached reports whether the present hand-out of the task may have reached its agent: it took
// the task, or was woken for it.
func reached(t *Task) bool {
	d := t.Dispatch
	woken := t.Woken != nil && SameAgent(t.Woken.Agent, d.Agent) && !t.Woken.At.Before(d.At)
	return t.Taken() || woken || slices.ContainsFunc(t.Wakes, func(w Wake) bool {
		return SameAgent(w.Agent, d.Agent) && !w.AskedAt.Before(d.At) && w.MaybeQueued()
	})
}

// LossOf returns the loss that an agent is still to be told of; nil: there is none.
func LossOf(t *Task, agent string) *Loss {
	return pipeline.Find(t.Losses, func(l *Loss) bool { return SameAgent(l.Agent, agent) })
}

// forgetLoss forgets that an agent is to be told of a loss: it was, or has the task again.
func forgetLoss(t *Task, agent string) {
	t.Losses = slices.DeleteFunc(t.Losses, func(l Loss) bool { return SameAgent(l.Agent, agent) })
}
