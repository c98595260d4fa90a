package core

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"otm/pipeline"
)

var t0 = time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)

// world is a state with its events, as a store keeps it.
type world struct {
	t      *testing.T
	state  State
	events []Event
	now    time.Time
}

func newWorld(t *testing.T) *world {
	return &world{t: t, now: t0, state: State{Tasks: map[pipeline.TaskID]*Task{}}}
}

// do carries a command out as a store does: a refused one changes nothing.
func (w *world) do(c Command) error {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	c.At = w.now
	work := State{Tasks: map[pipeline.TaskID]*Task{}, Agents: map[string]*AgentState{}}
	for id, t := range w.state.Tasks {
		work.Tasks[id] = t.Clone()
	}
	for name, a := range w.state.Agents {
		work.Agents[name] = a.Clone()
	}
	events, err := Decide(&work, c)
	if err != nil {
		return err
	}
	w.state = work
	w.events = append(w.events, events...)
	return nil
}

func (w *world) must(c Command) {
	w.t.Helper()
	if err := w.do(c); err != nil {
		w.t.Fatalf("%T: %v", c.Do, err)
	}
}

func (w *world) task() *Task { return w.state.Tasks[1] }

// requested has task 1 with two steps, dropped and on the board.
func (w *world) requested() {
	w.t.Helper()
	w.must(Command{ID: "d1", Task: 1, By: Component("otm-injector"), Do: Request{
		Task: pipeline.Task{ID: 1, Title: "Build it", Agent: "devdas", Priority: pipeline.Normal, Type: pipeline.Action, Steps: []string{"one", "two"}},
		Drop: "d1.json", CreatedAt: t0,
	}})
	w.show()
}

// show writes the board as it is wanted.
func (w *world) show() {
	w.t.Helper()
	t := w.task()
	b := Written{Shown: t.View()}
	if t.RowID == "" {
		b.Row = "Rec1"
	}
	for _, s := range t.Steps {
		b.Steps = append(b.Steps, WrittenStep{s.ID, "Step" + s.Title, StepShown{s.Title, s.Done}})
	}
	w.must(Command{Task: 1, By: Component("otm-injector"), Do: b})
	if w.task().Unshown() {
		w.t.Fatalf("the board does not show %v after it was written", w.task().Stale())
	}
}

func (w *world) handedOut() {
	w.t.Helper()
	w.requested()
	w.must(Command{Task: 1, By: Component("otm-dispatcher"), Do: HandOut{Agent: "devdas", Workspace: "/w"}})
	w.show()
}

func (w *world) want(s pipeline.Status) {
	w.t.Helper()
	if got := w.task().Status; got != s {
		w.t.Fatalf("the task is %s, want %s", got, s)
	}
}

// checkRebuild replays the events, through JSON as a store keeps them, and compares.
func (w *world) checkRebuild() {
	w.t.Helper()
	again := State{Tasks: map[pipeline.TaskID]*Task{}}
	for i := range w.events {
		e := w.events[i]
		data, err := json.Marshal(e.Data)
		if err != nil {
			w.t.Fatal(err)
		}
		if e.Data, err = DecodeData(e.Type(), data); err != nil {
			w.t.Fatal(err)
		}
		Apply(&again, &e)
	}
	live, rebuilt := mustJSON(w.t, w.state.Tasks), mustJSON(w.t, again.Tasks)
	if live != rebuilt {
		w.t.Errorf("rebuilt:\n%s\nlive:\n%s", rebuilt, live)
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A task goes its usual way, and the states follow from the events.
func TestLifeOfATask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.handedOut()
	w.want(pipeline.Assigned)
	if w.task().Dispatch.FlippedAt.IsZero() {
		t.Error("the board shows the hand-out, and the dispatch does not know")
	}
	me := ByAgent("devdas")
	w.must(Command{Task: 1, By: me, Do: Take{TakenByNext}})
	w.want(pipeline.InProgress)
	w.must(Command{ID: "u1", Task: 1, By: me, Do: Report{Drop: "u1.json", Dropped: w.now, Steps: []string{"ONE"}}})
	w.must(Command{ID: "u2", Task: 1, By: me, Do: Report{Drop: "u2.json", Dropped: w.now, Status: pipeline.Blocked, Reason: "which db?"}})
	w.want(pipeline.Blocked)
	w.show()
	open, answer := pipeline.InProgress, "sqlite"
	w.must(Command{Task: 1, By: ByPerson("Ada"), Do: Edits{Seen: true, Status: &open, Reason: &answer}})
	w.want(pipeline.InProgress)
	if !w.task().Answered || w.task().Shown.Reason != answer {
		t.Errorf("the answer: %+v", w.task())
	}
	w.must(Command{ID: "u3", Task: 1, By: me, Do: Report{Drop: "u3.json", Dropped: w.now, Steps: []string{"2"}}})
	w.must(Command{Task: 1, By: Component("otm-completion-detector"), Do: Promote{}})
	w.want(pipeline.AgentDone)
	var refused *Refused
	err := w.do(Command{ID: "u4", Task: 1, By: me, Do: Report{Drop: "u4.json", Dropped: w.now, Status: pipeline.InProgress}})
	if !errors.As(err, &refused) || refused.From != pipeline.AgentDone || refused.Class != Conflict {
		t.Errorf("a report after the end: %v", err)
	}
	done := pipeline.Done
	w.must(Command{Task: 1, By: ByPerson("Ada"), Do: Edits{From: []pipeline.Status{pipeline.AgentDone}, Status: &done, Accept: true}})
	w.want(pipeline.Done)
	w.show()
	w.must(Command{Task: 1, By: Component("otm archive"), Do: Archive{Row: pipeline.Row{ID: "Rec1"}}})
	if !w.task().Unshown() {
		t.Error("the rows of an archived task stay")
	}
	w.checkRebuild()
}

// Every status, move and kind of actor: permitted by the table, or refused.
func TestMoves(t *testing.T) {
	t.Parallel()
	for _, from := range pipeline.Statuses {
		for _, to := range pipeline.Statuses {
			for _, kind := range []Kind{OTM, Agent, Worker, Person, Board, Creator, Reviewer} {
				w := newWorld(t)
				w.requested()
				w.task().Status = from
				d := &decision{Command: &Command{Task: 1, By: Actor{Kind: kind, Name: "x"}, At: t0}, State: &w.state, task: w.task()}
				err := d.move(to, TaskMoved{})
				code, ok := Permitted(from, to, kind)
				var refused *Refused
				switch {
				case ok && (err != nil || w.task().Status != to || d.events[0].Code() != code):
					t.Errorf("%s %s→%s is permitted, and ended %v, %s", kind, from, to, err, w.task().Status)
				case !ok && (!errors.As(err, &refused) || refused.From != from || refused.To != to || refused.By.Kind != kind || len(d.events) > 0 || w.task().Status != from):
					t.Errorf("%s %s→%s is refused, and ended %v, %s", kind, from, to, err, w.task().Status)
				case !ok && !reflect.DeepEqual(refused.Allowed, Reachable(from, kind)):
					t.Errorf("%s %s→%s: allowed are %v", kind, from, to, refused.Allowed)
				}
			}
		}
	}
}

// Each type of event survives its JSON.
func TestEventsRoundTrip(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		data, err := k.decode([]byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		e := Event{Data: data}
		if e.Type() != k.name {
			t.Errorf("type %s is called %s", k.name, e.Type())
		}
	}
	for former, now := range formerNames {
		data, err := DecodeData(former, []byte(`{"key":"k"}`))
		if err != nil || (&Event{Data: data}).Type() != now {
			t.Errorf("an old %s is read as %+v, %v", former, data, err)
		}
	}
	if _, err := DecodeData("FromTheFuture", nil); err == nil {
		t.Error("an unknown type is read")
	}
}

// C1: who unblocked a task is known: an agent that blocks its task and unblocks it by
// itself gets nothing on.
func TestC1WhoUnblocked(t *testing.T) {
	t.Parallel()
	for _, by := range []Actor{ByAgent("a"), ByPerson("robin")} {
		task := &Task{ID: 1, Status: pipeline.Blocked}
		s := &State{Tasks: map[pipeline.TaskID]*Task{1: task}}
		Apply(s, &Event{At: time.Unix(100, 0), By: by, Task: 1, Data: TaskMoved{From: pipeline.Blocked, To: pipeline.InProgress}})
		if task.ResumedBy != by.Kind || task.ResumedAt.IsZero() {
			t.Errorf("%v unblocked it: %v at %v", by, task.ResumedBy, task.ResumedAt)
		}
	}
}
