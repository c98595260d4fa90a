package core

import "otm/pipeline"

// Say writes a message in the thread of a task. It changes no status.
type Say struct{ pipeline.Message }

func (s Say) decide(d *decision) error {
	t := d.task
	switch {
	case t == nil:
		return ErrNoTask
	case !t.ArchivedAt.IsZero():
		return d.refuse(RuleArchived, Conflict)
	}
	said := Said{Message: s.Message}
	if d.By.Kind == Agent && t.Dispatch != nil && SameAgent(t.Dispatch.Agent, d.By.Name) {
		said.Heard = d.At.UTC()
	}
	d.emit(said)
	return nil
}

// ReadMentions says that the agent of the command was shown the messages that mention it,
// up to an event.
type ReadMentions struct{ To int64 }

func (r ReadMentions) decide(d *decision) error {
	now := d.agentState().Clone()
	now.ReadTo = max(now.ReadTo, r.To)
	return d.changeAgent(now, Read)
}
