package core

import (
	"time"

	"otm/pipeline"
)

// HandOut hands a task out to its agent: it becomes assigned, or pending if the agent has
// another one. Its rows stand on the board, all of them, so that people can see what is
// being worked on.
type HandOut struct {
	Agent     string
	Workspace string // "": of a person
	Via       pipeline.Trigger
	Queue     bool // the agent has another task
}

func (h HandOut) decide(d *decision) error {
	t := d.task
	switch {
	case t == nil:
		return ErrNoTask
	case t.Away() || !t.OnBoard():
		return d.refuse(RuleNotOn, Conflict)
	case !t.Ready(d.At):
		return nil // handed out already, or not to be yet
	case !SameAgent(h.Agent, t.Agent):
		return ErrOutdated
	}
	d.Agent = h.Agent
	d.emit(HandedOut{Attempt: t.Attempt + 1, Agent: h.Agent, Workspace: h.Workspace, Via: h.Via, AllTicked: t.StepsDone() == len(t.Steps)})
	switch {
	case h.Queue:
		return queue(d)
	case d.task.Status != pipeline.Assigned:
		return d.move(pipeline.Assigned, TaskMoved{})
	}
	return nil
}

// Queue puts a task that nobody has taken back into its agent's queue.
type Queue struct{}

func (Queue) decide(d *decision) error {
	if t := d.task; t == nil || !t.Waiting() || t.Queued() {
		return nil
	}
	return queue(d)
}

func queue(d *decision) error {
	d.emit(Queued{})
	if d.task.Status == pipeline.Pending {
		return nil
	}
	return d.move(pipeline.Pending, TaskMoved{})
}

// dequeue ends the wait of a task in its agent's queue: the agent takes it, or is woken
// for it.
func dequeue(d *decision) error {
	if !d.task.Queued() {
		return nil
	}
	return d.moveAs(Component("otm"), pipeline.Assigned, TaskMoved{})
}

// Ready reports whether the task is to be handed out now, as soon as its agent is known
// and its rows stand on the board.
func (t *Task) Ready(now time.Time) bool {
	switch t.Status {
	case pipeline.New:
		return true
	case pipeline.Assigned:
		return t.Dispatch == nil
	case pipeline.Pending:
		return t.Wait != nil && !t.Queued() && !t.Wait.Waits(now)
	}
	return false
}

// Take says that an agent takes a task, or is given it again. The command names the agent
// if a process of it runs: while OTM ends that, the error is ErrEnding.
type Take struct{ By TakenBy }

func (k Take) decide(d *decision) error {
	t := d.task
	switch {
	case t == nil:
		return ErrNoTask
	case !t.Out() || !SameAgent(t.Dispatch.Agent, d.By.Name):
		return ErrOutdated
	case d.agentState().Ends != nil:
		return ErrEnding
	case t.Taken() && k.By == TakenByFile:
		return nil // it is known
	}
	if err := dequeue(d); err != nil {
		return err
	}
	d.emit(Acknowledged{By: k.By, Again: t.Taken()})
	if d.task.Status != pipeline.Blocked { // else the mark in its file is from before the block
		d.begin(nil)
	}
	if k.By == TakenByNext && d.task.Status == pipeline.Assigned {
		return d.move(pipeline.InProgress, TaskMoved{})
	}
	return nil
}

// Claim says that an agent takes a task from the shared queue, see Take.
type Claim struct {
	Workspace string
	Via       pipeline.Trigger
}

func (c Claim) decide(d *decision) error {
	t := d.task
	switch {
	case t == nil:
		return ErrNoTask
	case !Claimable(t, d.At):
		return ErrOutdated // another agent was faster
	case d.agentState().Ends != nil:
		return ErrEnding
	}
	if t.Status == pipeline.Pending {
		if err := d.moveAs(Component("otm"), pipeline.New, TaskMoved{}); err != nil {
			return err
		}
	}
	d.Agent = d.By.Name
	d.emit(HandedOut{
		Attempt: t.Attempt + 1, Agent: d.By.Name, Workspace: c.Workspace, Via: c.Via, AllTicked: t.StepsDone() == len(t.Steps), Claimed: true,
	})
	d.emit(Acknowledged{By: TakenByNext})
	d.begin(nil)
	return d.move(pipeline.InProgress, TaskMoved{})
}

// MoveWorkspace says that the workspace of the task's agent is another one now.
type MoveWorkspace struct{ Workspace string }

func (m MoveWorkspace) decide(d *decision) error {
	if t := d.task; t != nil && t.Dispatch != nil && t.Dispatch.Workspace != m.Workspace {
		d.emit(WorkspaceMoved(m))
	}
	return nil
}

// Promote moves a task to agent_done if all its steps are done and one of them was open
// when the agent took it.
type Promote struct{ Types pipeline.Types }

func (p Promote) decide(d *decision) error {
	t := d.task
	if t == nil || !t.Complete() {
		return nil
	}
	if t.Status == pipeline.Assigned { // a person's, who reports by ticking
		if err := d.moveAs(Actor{Kind: Worker, Name: t.Agent}, pipeline.InProgress, TaskMoved{}); err != nil {
			return err
		}
	}
	if err := d.move(pipeline.AgentDone, TaskMoved{Reason: "all steps are done"}); err != nil {
		return err
	}
	return acceptUnreviewed(d, p.Types)
}

// Complete reports whether the task is to be promoted to agent_done by its steps.
func (t *Task) Complete() bool {
	begun := t.Status == pipeline.InProgress || t.Status == pipeline.Assigned && t.Dispatch != nil && t.Dispatch.Workspace == ""
	return begun && t.OnBoard() && !t.Away() && len(t.Steps) > 0 && t.StepsDone() == len(t.Steps) && !t.EndsByWord()
}

// acceptUnreviewed moves a task that has just become agent_done to done, if its type needs
// no review.
func acceptUnreviewed(d *decision, types pipeline.Types) error {
	t := d.task
	if t.Status != pipeline.AgentDone || types.Rules(t.Type).Review {
		return nil
	}
	return d.moveAs(Component("otm"), pipeline.Done, TaskMoved{Reason: "tasks of type " + string(t.Type) + " need no review"})
}
