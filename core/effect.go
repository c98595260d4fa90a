package core

import (
	"reflect"

	"otm/pipeline"
)

// Sink is where effects of tasks go. The effects of one task go in the order of Sinks:
// a later one waits for an earlier one of the same task.
type Sink string

// The sinks.
const (
	SinkRender Sink = "render" // tasks/T-NNNNN.json, for otm-create and otm-update
	SinkEntry  Sink = "entry"  // the task's entry in the dispatch file of its agent
	SinkBoard  Sink = "board"  // the task's rows on the board
)

// Sinks are all sinks, in their order.
var Sinks = []Sink{SinkRender, SinkEntry, SinkBoard}

// Effects returns the sinks that do not have the task as it is any more, after it
// changed, and those that have nothing to do for it. before is nil for a new task.
func Effects(before, after *Task) (stale, settled []Sink) {
	if before == nil || !reflect.DeepEqual(before.Rendering(), after.Rendering()) {
		stale = append(stale, SinkRender)
	}
	var had entry
	if before != nil {
		had = before.entry()
	}
	if !reflect.DeepEqual(had, after.entry()) {
		stale = append(stale, SinkEntry)
	}
	if after.Unshown() {
		stale = append(stale, SinkBoard)
	} else {
		settled = append(settled, SinkBoard)
	}
	return stale, settled
}

// Rendering is what otm-create and otm-update check reports against.
func (t *Task) Rendering() pipeline.Rendering {
	return pipeline.Rendering{
		TaskID: t.ID, Title: t.Title, Agent: ReporterOf(t), Status: t.Status, Attempt: t.Attempt, Run: dueRun(t), Steps: t.PlainSteps(), Body: t.Body,
	}
}

// entry is what the dispatch file shows of a task. The zero value: it has no entry.
type entry struct {
	attempt   int
	run       int
	agent     string
	workspace string
	taken     bool
	title     string
	priority  pipeline.Priority
	steps     []string
	question  string
	answer    string
	woken     string
	wokenAt   int64 // Unix microseconds
}

func (t *Task) entry() entry {
	d := t.Dispatch
	if !t.Out() || d.Workspace == "" {
		return entry{}
	}
	e := entry{
		attempt: d.Attempt, run: t.Runs.Next(), agent: d.Agent, workspace: d.Workspace, taken: t.Taken(),
		title: t.Title, priority: t.Priority, steps: t.StepTitles(),
	}
	if t.Question != "" {
		e.question, e.answer = t.Question, t.Reason
	}
	if t.Woken != nil {
		e.woken, e.wokenAt = t.Woken.Key, t.Woken.At.UnixMicro()
	}
	return e
}
