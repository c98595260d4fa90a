package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/dispatch"
	"otm/heartbeat"
	"otm/internal/crash/crashtest"
	"otm/internal/explain"
	"otm/internal/install"
	"otm/internal/lock"
	"otm/internal/view"
	"otm/internal/why"
	"otm/pipeline"
	"otm/pipeline/inbox"
	"otm/slacklist"
)

// whyWorld is a directory in which all components ran a moment ago, with task
// T-00001 of gate, which is woken over the gateway, on the board.
type whyWorld struct {
	*testing.T
	h    *Home
	now  time.Time
	rows []pipeline.Row
	task *core.Task // nil: the store does not know it

	also    *core.Task // another task
	agent   *core.AgentState
	limit   int            // of the rows of the list
	held    []string       // methods that the rate limit holds off for the next minute
	pending []core.Pending // effects that are not delivered
	unread  error          // of reading wakes
}

// whyStore is the store of a world, with the effects and the errors that the world says.
type whyStore struct {
	view.Store
	w *whyWorld
}

func (s whyStore) Pending(context.Context, core.Sink, ...pipeline.TaskID) ([]core.Pending, error) {
	return s.w.pending, nil
}

func (s whyStore) Tasks(ctx context.Context, f core.Filter) ([]*core.Task, error) {
	if s.w.unread != nil && f.Woken != nil {
		return nil, s.w.unread
	}
	return s.Store.Tasks(ctx, f)
}

func newWhyWorld(t *testing.T) *whyWorld {
	t.Helper()
	gate := filepath.Join(t.TempDir(), "gate")
	w := &whyWorld{T: t, now: time.Now().UTC()}
	w.h = newHome(t, fmt.Sprintf("[agents.gate]\nworkspace = %q\ntrigger = \"gateway\"\n[agents.runner]\nworkspace = %q\ncommand = [\"true\"]\n", t.TempDir(), gate))
	w.beat(heartbeat.Success, "fine", heartbeat.Components...)
	w.rows = []pipeline.Row{
		{ID: "Rec1", TaskID: "T-00001", Title: "One", Assignee: "gate", Status: pipeline.Assigned, Created: w.now.Unix(), Updated: w.now.Add(-time.Hour).Unix()},
		{ID: "Rec2", Parent: "Rec1", Title: "a"},
	}
	at := w.now.Add(-2 * time.Hour)
	w.task = &core.Task{ID: 1, DropID: "d1", Title: "One", Agent: "gate", RowID: "Rec1", Status: pipeline.Assigned, CreatedAt: at, ChangedAt: at,
		StatusAt: at, StatusBy: core.Component("otm-dispatcher"), Steps: []core.Step{{ID: 1, Title: "a", RowID: "Rec2"}},
		Dispatch: &core.Dispatch{Attempt: 1, Agent: "gate", At: at, FlippedAt: at}}
	return w
}

func (w *whyWorld) beat(result heartbeat.Result, details string, ids ...string) {
	w.Helper()
	for _, id := range ids {
		if err := heartbeat.NewWriter(w.h.Dir, id, "", func() time.Time { return w.now }).Beat(result, details); err != nil {
			w.Fatal(err)
		}
	}
}

// status brings the task into a state.
func (w *whyWorld) status(s pipeline.Status) {
	w.rows[0].Status, w.task.Status = s, s
}

// taken notes that its agent took it.
func (w *whyWorld) taken() {
	w.task.Dispatch.TakenAt = w.now.Add(-time.Minute)
	w.heard(w.task.Agent, w.task.Dispatch.TakenAt)
}

// answered notes that it was blocked, and that a person sent it on.
func (w *whyWorld) answered() {
	w.status(pipeline.InProgress)
	w.task.ResumedAt, w.task.ResumedBy = w.now.Add(-10*time.Second), core.Person
}

// heard notes that an agent said something about the task.
func (w *whyWorld) heard(agent string, at time.Time) {
	w.task.Heard = map[string]core.Heard{agent: {At: at}}
}

// gone notes that its row is gone.
func (w *whyWorld) gone() {
	w.task.GoneAt = w.now.Add(-30 * time.Minute)
}

// typed leaves one row that a person typed.
func (w *whyWorld) typed(row pipeline.Row) {
	row.ID, row.Updated = "Rec1", w.now.Add(-time.Hour).Unix()
	w.rows, w.task = []pipeline.Row{row}, nil
}

func (w *whyWorld) woken(how func(n int, wake *core.Wake), n int) {
	for i := range n {
		at := w.now.Add(-70*time.Minute + time.Duration(i)*16*time.Minute)
		wake := core.Wake{Attempt: i + 1, Key: fmt.Sprint("k", i), Agent: w.task.Agent, Via: "gateway", Tasks: []pipeline.TaskID{1}, AskedAt: at, Sent: true, Accepted: at}
		if how != nil {
			how(i, &wake)
		}
		w.task.Wakes = append(w.task.Wakes, wake)
	}
}

// installed leaves a file as otm install writes it for this directory.
func (w *whyWorld) installed() {
	w.Helper()
	home := w.TempDir()
	w.h.Getenv = func(key string) string { return map[string]string{"HOME": home}[key] }
	path := filepath.Join(home, ".config", "systemd", "user", "otm-dispatcher.service")
	if install.Native() == install.Launchd {
		path = filepath.Join(home, "Library", "LaunchAgents", "ai.openclaw.otm-dispatcher.plist")
	}
	o := install.Options{Manager: install.Native(), Dir: w.h.Dir}
	put(w, path, "# "+o.Marker()+"\n")
}

// by makes it a task of runner, which is started by a command.
func (w *whyWorld) byCommand() {
	w.rows[0].Assignee, w.task.Agent, w.task.Dispatch.Agent = "runner", "runner", "runner"
	if err := os.MkdirAll(w.h.Config.Agents.Named("runner").Workspace, 0o700); err != nil {
		w.Fatal(err)
	}
}

// link has the dispatcher stay, with this connection to the gateway.
func (w *whyWorld) link(l dispatch.Link) {
	w.Helper()
	stays, err := takeResident(w.Context(), w.h, heartbeat.Dispatcher)
	if err == nil {
		w.Cleanup(func() { stays.Release() })
		err = dispatch.WriteLink(w.h.Dir, l)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// agentState is what the runs of runner add up to.
func (w *whyWorld) agentState(format string, times ...time.Time) {
	args := make([]any, len(times))
	for i, t := range times {
		args[i] = t.Format(time.RFC3339)
	}
	w.agent = &core.AgentState{}
	if err := json.Unmarshal(fmt.Appendf(nil, format, args...), w.agent); err != nil {
		w.Fatal(err)
	}
}

// runs has the process of runner run.
func (w *whyWorld) runs() {
	w.Helper()
	l, err := lock.Acquire(w.Context(), filepath.Join(w.h.Dir, "locks", "exec-runner"), 0)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { l.Release() })
}

// failCreate leaves a create that failed an hour ago.
func (w *whyWorld) failCreate(class inbox.Class) {
	put(w, filepath.Join(w.h.Dir, inbox.FailedDir, "c.json"),
		fmt.Sprintf(`{"id":"d1","taskId":"T-00001","title":"One","agent":"gate","_result":{"at":%q,"inbox":"new-tasks","attempts":1,"error":"not so","class":%q}}`, w.now.Add(-time.Hour).Format(time.RFC3339), class))
}

// oddFailure leaves a failed drop that does not say in a form of ours why.
func (w *whyWorld) oddFailure() {
	put(w, filepath.Join(w.h.Dir, inbox.FailedDir, "odd.json"), `{"taskId":"T-00009","title":"x","_result":"x"}`)
}

// asked has the row of the task have been asked for, without an answer.
func (w *whyWorld) asked(at time.Time) {
	w.pending = append(w.pending, core.Pending{Task: 1, Sink: core.SinkBoard, Since: at, AskedAt: at})
}

func (w *whyWorld) dropUpdate() {
	path := filepath.Join(w.h.Box.Dir(inbox.TaskUpdates), "u.json")
	put(w, path, `{"id":"u1","taskId":"T-00001","status":"in_progress"}`)
	if err := os.Chtimes(path, w.now, w.now); err != nil {
		w.Fatal(err)
	}
}

func (w *whyWorld) ageUpdate(by time.Duration) {
	at := w.now.Add(-by)
	if err := os.Chtimes(filepath.Join(w.h.Box.Dir(inbox.TaskUpdates), "u.json"), at, at); err != nil {
		w.Fatal(err)
	}
}

func createOf(id string) string {
	return fmt.Sprintf(`{"id":"d1","taskId":%q,"title":"One","agent":"gate"}`, id)
}

// dropCreate leaves a create that came an hour ago.
func (w *whyWorld) dropCreate(id string) {
	path := filepath.Join(w.h.Box.Dir(inbox.NewTasks), "c.json")
	put(w, path, createOf(id))
	at := w.now.Add(-time.Hour)
	if err := os.Chtimes(path, at, at); err != nil {
		w.Fatal(err)
	}
}

// begun makes it a row that a person typed, whose adoption lacks the step.
func (w *whyWorld) begun() {
	w.rows, w.task.DropID, w.task.Steps, w.task.Dispatch = w.rows[:1], "", []core.Step{{ID: 1, Title: "a"}}, nil
	w.status(pipeline.New)
}

// second puts another task, T-00002, on the board.
func (w *whyWorld) second(t core.Task) {
	t.ID, t.DropID, t.Title, t.RowID = 2, "d2", "Two", "Rec9"
	w.also = &t
	w.rows = append(w.rows, pipeline.Row{ID: t.RowID, TaskID: t.ID.String(), Title: t.Title, Assignee: t.Agent, Status: t.Status})
}

// noDispatcher lets the dispatcher have ended.
func (w *whyWorld) noDispatcher() {
	put(w, heartbeat.ResidentLock(w.h.Dir, heartbeat.Dispatcher), fmt.Sprintln(os.Getpid()))
}

// failUpdate leaves an update that failed, as the injector notes it.
func (w *whyWorld) failUpdate() {
	put(w, filepath.Join(w.h.Dir, inbox.FailedDir, "u.json"),
		fmt.Sprintf(`{"id":"u1","taskId":"T-00001","status":"done","_result":{"at":%q,"inbox":"task-updates","attempts":1,"error":"robin sets done","class":"conflict"}}`, w.now.Format(time.RFC3339)))
}

// view writes the store anew and loads the directory.
func (w *whyWorld) view() *view.View {
	w.Helper()
	emptyStore(w, w.h)
	for _, task := range []*core.Task{w.task, w.also} {
		if task != nil {
			seedTask(w, w.h, *task)
		}
	}
	if w.agent != nil {
		do(w, w.h, core.Command{At: w.now, By: core.Component("otm"), Agent: w.agent.Agent, Do: core.ImportAgent{State: *w.agent}})
	}
	snap := &slacklist.Snapshot{Rows: w.rows, WalkAt: w.now, Count: len(w.rows), Limit: w.limit}
	for _, id := range []string{heartbeat.Injector, heartbeat.Dispatcher} {
		for _, method := range w.held {
			limited := explain.New(explain.RateLimited, "method", method, "until", time.Date(2126, 3, 14, 9, 15, 2, 0, time.UTC))
			if err := heartbeat.NewWriter(w.h.Dir, id, "", func() time.Time { return w.now }).Beat(heartbeat.Partial, "", limited); err != nil {
				w.Fatal(err)
			}
		}
	}
	w.h.Now = func() time.Time { return w.now }
	v, err := view.Load(w.Context(), viewSources(w.h, whyStore{storeOf(w, w.h), w}, snap, false))
	if err != nil {
		w.Fatal(err)
	}
	return v
}

// Each cause is named, with what to do.
func TestWhy(t *testing.T) {
	t.Parallel()
	refused := func(_ int, wake *core.Wake) {
		wake.Accepted, wake.Sent, wake.Refused = time.Time{}, true, "token mismatch"
	}
	started := func(_ int, wake *core.Wake) { wake.Via = "exec" }
	for _, c := range []struct {
		name  string
		spoil func(w *whyWorld)
		want  string // the sentence holds it
		next  string
		slow  bool // otm why --all tells of it
	}{
		{"taken", func(w *whyWorld) { w.taken() }, "gate took it 1m ago and has reported nothing yet", "", false},
		{"woken, and the gateway is asked what became of it", func(w *whyWorld) {
			w.woken(func(_ int, wake *core.Wake) {
				wake.AskedAt, wake.Accepted = w.now.Add(-4*time.Minute), w.now.Add(-4*time.Minute)
			}, 1)
		}, "gate was woken 4m ago and has not taken it", "it is woken again at ", true},
		{"woken", func(w *whyWorld) { w.woken(nil, 1) }, "gate was woken 1h ago and has not taken it", "it is woken again with the dispatcher's next pass", true},
		{"woken, and no answer came", func(w *whyWorld) { w.woken(func(_ int, wake *core.Wake) { wake.Accepted = time.Time{} }, 1) },
			"no answer came to the wake of 1h ago", "otm doctor", true},
		{"whether it was woken cannot be read", func(w *whyWorld) { w.unread = syscall.EIO }, "whether gate was woken for it is not known: ", "otm fsck", true},
		{"its agent is configured no more", func(w *whyWorld) { w.rows[0].Assignee = "former" }, `unknown agent "former"`, "otm assign T-00001 --to AGENT", true},
		{"so is the one that had begun it", func(w *whyWorld) { w.taken(); w.status(pipeline.InProgress); w.rows[0].Assignee = "former" },
			`former was at work on it, 1 of 1 steps open, last heard 1m ago; unknown agent "former"`, "otm assign T-00001 --to AGENT", true},
		{"and the one that is blocked", func(w *whyWorld) { w.status(pipeline.Blocked); w.rows[0].Assignee = "former" }, `; unknown agent "former"`, "otm assign T-00001 --to AGENT", true},
		{"its work is done without it", func(w *whyWorld) { w.status(pipeline.AgentDone); w.rows[0].Assignee = "former" }, "waits for review", "otm accept T-00001", false},
		{"sent back to nobody", func(w *whyWorld) { w.status(pipeline.New); w.rows[0].Assignee = "" }, "nobody is assigned", "otm assign T-00001 --to AGENT", false},
		{"new, and the workspace is gone", func(w *whyWorld) {
			w.status(pipeline.New)
			w.h.Config.Agents.Named("gate").Workspace = filepath.Join(w.h.Dir, "no such")
		}, "the workspace of gate is missing: ", "mkdir -p ", true},
		{"handed out, and the workspace is gone", func(w *whyWorld) { w.h.Config.Agents.Named("gate").Workspace = filepath.Join(w.h.Dir, "no such") },
			"; the workspace of gate is missing: ", "mkdir -p ", true},
		{"refused", func(w *whyWorld) { w.woken(refused, 1) }, "the wake was refused 1h ago: token mismatch", "correct that", true},
		{"nothing runs any more", func(w *whyWorld) {
			w.dropUpdate()
			put(w, heartbeat.ResidentLock(w.h.Dir, heartbeat.Injector), fmt.Sprintln(os.Getpid())) // it beat, and has ended
		}, "otm-injector ran 0s ago and does not run any more", "otm up", true},
		{"what was installed does not run", func(w *whyWorld) {
			w.dropUpdate()
			w.installed()
		}, "otm-injector ran 0s ago and does not run any more", "otm install --", true},
		{"woken for one that left the board", func(w *whyWorld) {
			at := w.now.Add(-30 * time.Minute)
			w.also = &core.Task{ID: 2, DropID: "d2", Title: "Two", Agent: "gate", RowID: "Rec9", Status: pipeline.Assigned, GoneAt: at,
				Wakes: []core.Wake{{Attempt: 1, Key: "k", Agent: "Gate", Via: "gateway", Tasks: []pipeline.TaskID{2}, AskedAt: at, Sent: true, Accepted: at}}}
		}, "gate was woken 30m ago and has not taken it", "it is woken again with the dispatcher's next pass", true},
		{"given up", func(w *whyWorld) {
			w.woken(func(_ int, wake *core.Wake) { wake.Unknown = wake.Accepted }, 4)
			key := w.task.Wakes[3].Key
			state := fmt.Sprintf(`{"agent":"gate","failures":3,"fruitless":3,"lastRun":{"key":%q,"endedAt":%q},"nextStart":%q,"leftAloneSince":%[2]q}`,
				key, w.now.Add(-time.Minute).Format(time.RFC3339), w.now.Add(29*time.Minute).Format(time.RFC3339))
			w.agentState(state)
		}, "gate is left alone: 3 starts in a row ended without progress", "otm resume gate", true},
		{"its process takes nothing", func(w *whyWorld) {
			w.byCommand()
			w.woken(started, 1)
			w.runs()
		}, "runs and has taken nothing for 1h", "→ kill -- -", true},
		{"its process begins with another of its tasks behind", func(w *whyWorld) {
			w.byCommand()
			w.woken(func(_ int, wake *core.Wake) {
				wake.Via, wake.AskedAt, wake.Accepted, wake.Tasks = "exec", w.now.Add(-time.Minute), w.now.Add(-time.Minute), []pipeline.TaskID{1, 2}
			}, 1)
			w.second(core.Task{Agent: "runner", Status: pipeline.Pending, Wait: &core.Wait{Why: core.WaitBusy}, Dispatch: &core.Dispatch{Agent: "runner"}})
			w.runs()
		}, "the process of runner was started 1m ago, and has not taken it yet", "tail ", true},
		{"a process runs on after its task was done", func(w *whyWorld) {
			w.byCommand()
			w.woken(started, 1)
			w.second(core.Task{Agent: "runner", Status: pipeline.AgentDone, StatusAt: w.now.Add(-time.Minute), Dispatch: &core.Dispatch{Agent: "runner", TakenAt: w.now},
				Heard: map[string]core.Heard{"runner": {At: w.now, Took: w.now}}})
			w.task.Wakes[0].Tasks = []pipeline.TaskID{2, 1}
			w.runs()
		}, "still runs for T-00002, which is agent_done: nothing else is started meanwhile", "→ kill -- -", true},
		{"a process runs on after its task was blocked", func(w *whyWorld) {
			w.byCommand()
			w.woken(started, 1)
			w.second(core.Task{Agent: "runner", Status: pipeline.Blocked, Dispatch: &core.Dispatch{Agent: "runner", TakenAt: w.now},
				Heard: map[string]core.Heard{"runner": {At: w.now, Took: w.now}}})
			w.task.Wakes[0].Tasks = []pipeline.TaskID{2, 1}
			w.runs()
		}, "still runs for T-00002, which is blocked: nothing else is started meanwhile", "→ kill -- -", true},
		{"its process has begun", func(w *whyWorld) {
			w.byCommand()
			w.woken(func(_ int, wake *core.Wake) {
				wake.Via, wake.AskedAt, wake.Accepted = "exec", w.now.Add(-time.Second), w.now
			}, 1)
			w.runs()
		}, "the process of runner was started 1s ago, and has not taken it yet", "tail ", true},
		{"its process has begun, and its log may tell what it waits for", func(w *whyWorld) {
			w.byCommand()
			w.woken(func(_ int, wake *core.Wake) {
				wake.Via, wake.AskedAt, wake.Accepted = "exec", w.now.Add(-10*time.Minute), w.now.Add(-10*time.Minute)
			}, 1)
			w.runs()
		}, "the process of runner was started 10m ago, and has not taken it yet", "tail ", true},
		{"answered, and its agent works on another task", func(w *whyWorld) {
			w.taken()
			w.answered()
			w.second(core.Task{Agent: "gate", Status: pipeline.InProgress, Steps: []core.Step{{ID: 1, Title: "b"}},
				Dispatch: &core.Dispatch{Agent: "gate", At: w.now, TakenAt: w.now}})
		}, "it was sent on 10s ago, and gate has not asked for it since; waits behind T-00002, which gate has taken", "", false},
		{"its agent looks by itself, and works on another task", func(w *whyWorld) {
			w.h.Config.Agents.Named("gate").Trigger = pipeline.TriggerNone
			w.second(core.Task{Agent: "gate", Status: pipeline.InProgress, Steps: []core.Step{{ID: 1, Title: "b"}},
				Dispatch: &core.Dispatch{Agent: "gate", At: w.now, TakenAt: w.now}})
		}, "dispatched to gate 2h ago; waits behind T-00002, which gate has taken", "", true},
		{"answered, and nobody asked for it", func(w *whyWorld) {
			w.taken()
			w.answered()
		}, "it was sent on 10s ago, and gate has not asked for it since", "", false},
		{"answered, and its process runs on", func(w *whyWorld) {
			w.byCommand()
			w.woken(started, 1)
			w.taken()
			w.answered()
			w.runs()
		}, "it was sent on 10s ago, and runner has not asked for it since; the process of runner, pid ", "kill -- -", false},
		{"its process died, and so did the dispatcher", func(w *whyWorld) {
			w.byCommand()
			w.woken(started, 1)
			w.taken()
			w.noDispatcher()
		}, "otm-dispatcher ran 0s ago and does not run any more", "otm up", true},
		{"at work, and the dispatcher has died", func(w *whyWorld) {
			w.status(pipeline.InProgress)
			w.taken()
			w.noDispatcher()
		}, "gate works on it, 1 of 1 steps open, last heard 1m ago; otm-dispatcher ran 0s ago and does not run any more", "otm up", false},
		{"answered, its process ended before, and the dispatcher has died", func(w *whyWorld) {
			w.byCommand()
			w.taken()
			w.woken(func(_ int, wake *core.Wake) { wake.Via, wake.Exit, wake.Ended = "exec", "exit status 0", w.now }, 1)
			w.answered()
			w.noDispatcher()
		}, "it was sent on 10s ago, and runner has not asked for it since; ", "otm up", false},
		{"its process takes too long, and was told to end", func(w *whyWorld) {
			w.byCommand()
			w.status(pipeline.InProgress)
			w.woken(started, 1)
			w.taken()
			w.agentState(`{"agent":"runner","ends":{"task":"T-00001","since":%q,"late":true}}`, w.now.Add(-3*time.Second))
			w.runs()
		}, "runner works on it, 1 of 1 steps open, last heard 1m ago; OTM told the process of runner, pid ", "", false},
		{"its next run is due, and the workspace is gone", func(w *whyWorld) {
			w.byCommand()
			os.Remove(w.h.Config.Agents.Named("runner").Workspace)
			w.status(pipeline.Pending)
			w.task.Dispatch, w.task.Wait = nil, &core.Wait{Why: core.WaitBackoff, Until: w.now.Add(-time.Second)}
			w.task.Runs = core.Runs{{Number: 1, Agent: "runner", Began: w.now.Add(-time.Minute), Ended: w.now.Add(-30 * time.Second), Ending: core.EndFailed}}
		}, "the workspace of runner is missing: ", "mkdir -p ", true},
		{"its next run is to come, and the workspace is gone", func(w *whyWorld) {
			w.byCommand()
			os.Remove(w.h.Config.Agents.Named("runner").Workspace)
			w.status(pipeline.Pending)
			w.task.Dispatch, w.task.Wait = nil, &core.Wait{Why: core.WaitBackoff, Until: w.now.Add(time.Minute)}
			w.task.Runs = core.Runs{{Number: 1, Agent: "runner", Began: w.now.Add(-time.Minute), Ended: w.now.Add(-30 * time.Second), Ending: core.EndFailed}}
		}, "; the workspace of runner is missing: ", "mkdir -p ", true},
		{"a failed task of the shared queue", func(w *whyWorld) {
			w.status(pipeline.Pending)
			w.rows[0].Assignee, w.task.Agent = pipeline.SharedQueue, pipeline.SharedQueue
			w.task.Dispatch, w.task.Wait = nil, &core.Wait{Why: core.WaitBackoff, Until: w.now.Add(time.Minute)}
			w.task.Runs = core.Runs{{Number: 1, Agent: "runner", Began: w.now.Add(-time.Minute), Ended: w.now.Add(-30 * time.Second), Ending: core.EndFailed}}
		}, "any agent may claim it again ", "otm requeue T-00001", true},
		{"a process runs on after its task was handed out again", func(w *whyWorld) {
			w.byCommand()
			w.woken(started, 1)
			w.second(core.Task{Agent: "runner", Status: pipeline.Pending, Wait: &core.Wait{Why: core.WaitBusy},
				Dispatch: &core.Dispatch{Agent: "runner", At: w.now, Attempt: 2}, Heard: map[string]core.Heard{"runner": {At: w.now.Add(-time.Hour), Took: w.now.Add(-time.Hour)}},
				Runs: core.Runs{{Number: 1, Agent: "runner", Began: w.now.Add(-time.Hour), Ended: w.now.Add(-time.Minute), Ending: core.EndFailed}}})
			w.task.Wakes[0].Tasks = []pipeline.TaskID{2, 1}
			w.runs()
		}, "still runs for T-00002, which is handed out again: nothing else is started meanwhile", "→ kill -- -", true},
		{"its process ended, and its last report waits", func(w *whyWorld) {
			w.byCommand()
			w.taken()
			w.woken(func(_ int, wake *core.Wake) { wake.Exit, wake.Ended = "exit status 1", w.now }, 1)
			w.dropUpdate()
		}, "was taken by runner, whose process has ended (exit status 1); what it reported last is not applied yet; 1 update of it waits", "", false},
		{"sent back, and the process of the run before runs on", func(w *whyWorld) {
			w.byCommand()
			w.woken(started, 1)
			at := w.now.Add(-time.Minute)
			w.task.Attempt, w.task.Dispatch = 2, &core.Dispatch{Attempt: 2, Agent: "runner", At: at, FlippedAt: at}
			w.task.Heard = map[string]core.Heard{"runner": {At: at, Took: at}}
			w.runs()
		}, "has run since 1h ago: OTM starts nothing beside it", "kill -- -", true},
		{"its process ended", func(w *whyWorld) {
			w.byCommand()
			w.woken(func(_ int, wake *core.Wake) {
				wake.Via, wake.Ended, wake.Exit = "exec", wake.Accepted, "exit status 1"
			}, 1)
		}, "ended (exit status 1), and took nothing", "it should run otm next --agent runner", true},
		{"taken, and its process ended", func(w *whyWorld) {
			w.byCommand()
			w.taken()
			w.woken(func(_ int, wake *core.Wake) { wake.Exit, wake.Ended = "exit status 1", w.now }, 1)
		}, "was taken by runner, whose last start ended 0s ago (exit status 1)", "otm release T-00001", true},
		// C2: the injector applies the last report a moment after the process has ended.
		{"its process ended after its last report, which was applied later (C2)", func(w *whyWorld) {
			w.byCommand()
			w.status(pipeline.InProgress)
			w.taken()
			dropped, ended := w.now.Add(-30*time.Second), w.now.Add(-29*time.Second)
			w.heard("runner", dropped)
			w.woken(func(_ int, wake *core.Wake) { wake.Via, wake.Exit, wake.Ended = "exec", "exit status 1", ended }, 1)
		}, "was taken by runner, whose last start ended 29s ago (exit status 1)", "otm release T-00001", true},
		{"its process ended before its last report", func(w *whyWorld) {
			w.byCommand()
			w.status(pipeline.InProgress)
			w.taken()
			dropped, ended := w.now.Add(-28*time.Second), w.now.Add(-29*time.Second)
			w.heard("runner", dropped)
			w.woken(func(_ int, wake *core.Wake) { wake.Via, wake.Exit, wake.Ended = "exec", "exit status 1", ended }, 1)
		}, "runner works on it, 1 of 1 steps open, last heard 28s ago", "", false},
		// C50: what became of the wake before it was sent back says nothing of this attempt.
		{"sent back, and not woken for it since (C50)", func(w *whyWorld) {
			w.woken(nil, 1)
			at := w.now.Add(-time.Minute)
			w.task.Attempt, w.task.Dispatch = 3, &core.Dispatch{Attempt: 3, Agent: "gate", At: at, FlippedAt: at}
		}, "dispatched to gate 2h ago; gate was not woken for it yet", "", true},
		{"the gateway refuses us", func(w *whyWorld) {
			w.link(dispatch.Link{Since: w.now.Add(-5 * time.Minute), Reason: "token_wrong", Error: "unauthorized", Next: "put it there"})
		}, "the gateway has refused OTM since 5m ago: unauthorized", "put it there", true},
		// C7: while the gateway is dead, nobody knows whether the agent works.
		{"at work, and the gateway is out of reach (C7)", func(w *whyWorld) {
			w.status(pipeline.InProgress)
			w.taken()
			w.link(dispatch.Link{Since: w.now.Add(-5 * time.Minute), Error: "connection refused"})
		}, "gate was at work on it, 1 of 1 steps open, last heard 1m ago; the gateway has not been reachable since 5m ago: connection refused; OTM connects again by itself", "openclaw gateway status", true},
		// C65: a wake without an answer has a next step where the gateway is down.
		{"no answer came, and the gateway is out of reach (C65)", func(w *whyWorld) {
			w.woken(func(_ int, wake *core.Wake) { wake.Accepted = time.Time{} }, 1)
			w.link(dispatch.Link{Since: w.now.Add(-5 * time.Minute), Error: "connection refused"})
		}, "no answer came to the wake of 1h ago; the gateway has not been reachable", "openclaw gateway status", true},
		// C5: the process of a task that a person ended holds up the next one.
		{"its process is still at a cancelled task (C5)", func(w *whyWorld) {
			w.byCommand()
			w.rows = append(w.rows, pipeline.Row{ID: "Rec7", TaskID: "T-00002", Title: "Two", Assignee: "runner", Status: pipeline.Cancelled})
			at := w.now.Add(-time.Minute)
			w.also = &core.Task{ID: 2, DropID: "d2", Title: "Two", Agent: "runner", RowID: "Rec7", Status: pipeline.Cancelled,
				Wakes: []core.Wake{{Attempt: 1, Key: "k", Agent: "runner", Via: "exec", Tasks: []pipeline.TaskID{2}, AskedAt: at, Sent: true, Accepted: at}}}
			w.runs()
		}, "still runs for T-00002, which is cancelled: nothing else is started meanwhile", fmt.Sprintf("→ kill -- -%d", os.Getpid()), true},
		// C1, C3: the state of the agent says more than its last wake.
		{"its agent is left alone (C3)", func(w *whyWorld) {
			w.byCommand()
			w.woken(started, 1)
			w.agentState(`{"agent":"runner","failures":3,"fruitless":3,"leftAloneSince":%q,"nextStart":%q,"lastRun":{"key":"k","startedAt":%q,"endedAt":%q,"exit":"exit status 1","log":"/x y/run.log"}}`,
				w.now.Add(-time.Hour), w.now.Add(time.Hour), w.now.Add(-time.Hour), w.now.Add(-time.Hour))
		}, "runner is left alone: 3 starts in a row ended without progress, the last 1h ago (exit status 1); its next probe is due at ", "tail '/x y/run.log'; or: otm resume runner", true},
		{"taken by hand after its process ended", func(w *whyWorld) {
			w.byCommand()
			w.taken()
			w.woken(func(_ int, wake *core.Wake) { wake.Exit, wake.Ended = "exit status 1", wake.Accepted }, 1)
		}, "runner took it 1m ago and has reported nothing yet", "", false},
		{"at work", func(w *whyWorld) { w.status(pipeline.InProgress); w.taken() }, "gate works on it, 1 of 1 steps open, last heard 1m ago", "", false},
		{"at work, and never heard of", func(w *whyWorld) { w.status(pipeline.InProgress) }, "gate works on it, 1 of 1 steps open, last heard 2h ago; gate took it and has reported nothing for too long, the last time 2h ago", "otm release T-00001", true},
		{"all steps done", func(w *whyWorld) {
			w.status(pipeline.InProgress)
			w.taken()
			w.rows[1].Checked, w.task.Steps[0].Done = true, true
			w.beat(heartbeat.Error, "no board", heartbeat.Detector)
		}, "all steps are done; the completion detector's next pass ends it; otm-completion-detector failed 0s ago: no board", "tail ", false},
		{"all steps deleted", func(w *whyWorld) {
			w.status(pipeline.InProgress)
			w.taken()
			w.rows, w.task.Steps, w.task.Dispatch.AllTicked = w.rows[:1], nil, true
		}, "all its steps were deleted on the board: the agent has to report agent_done", "", false},
		{"sent back with its ticks", func(w *whyWorld) {
			w.status(pipeline.InProgress)
			w.taken()
			w.rows[1].Checked, w.task.Steps[0].Done, w.task.Dispatch.AllTicked = true, true, true
		}, "every step was ticked before", "", false},
		{"an update waits", func(w *whyWorld) { w.taken(); w.dropUpdate(); w.beat(heartbeat.Error, "no board", heartbeat.Injector) },
			"1 update of it waits in the inbox, the oldest for 0s; otm-injector failed 0s ago: no board", "tail ", false},
		{"an update waits for the rate limit", func(w *whyWorld) { w.taken(); w.dropUpdate(); w.held = []string{"slackLists.items.update"} },
			"1 update of it waits in the inbox, the oldest for 0s; otm-injector waits for the board: the rate limit of slackLists.items.update is reached until 2126-03-14T09:15:02Z", "", false},
		{"a create waits for the rate limit", func(w *whyWorld) {
			w.task, w.rows, w.held = nil, nil, []string{"slackLists.items.create"}
			w.dropCreate("T-00001")
		},
			"in the inbox for 1h; otm-injector waits for the board: the rate limit of slackLists.items.create is reached until 2126-03-14T09:15:02Z", "", true},
		{"new, and the rate limit is reached", func(w *whyWorld) {
			w.status(pipeline.New)
			w.task.Dispatch = nil
			w.held = []string{"slackLists.items.list"}
		},
			"waits for the dispatcher's next pass; otm-dispatcher waits for the board: the rate limit of slackLists.items.list is reached until 2126-03-14T09:15:02Z", "", true},
		// What is under way is no alarm: the snapshot is older than the row.
		{"its row was made after the board was read", func(w *whyWorld) {
			w.rows, w.task.CreatedAt = nil, w.now.Add(-time.Second)
		}, "is being put on the board, since 1s ago", "", false},
		{"its row was asked for just now", func(w *whyWorld) {
			w.task.RowID, w.rows, w.task.CreatedAt = "", nil, w.now.Add(-time.Second)
			w.asked(w.task.CreatedAt)
			w.dropCreate("T-00001")
		}, "is being put on the board, since 1s ago", "", false},
		{"its row was asked for long ago", func(w *whyWorld) {
			w.task.RowID, w.rows = "", nil
			w.asked(w.now.Add(-time.Hour))
			w.dropCreate("T-00001")
		}, "its row was asked for 1h ago and no answer came", "", true},
		// A run that took and ended another task took something.
		{"the last run of its agent worked on another task", func(w *whyWorld) {
			w.byCommand()
			w.woken(func(_ int, wake *core.Wake) {
				wake.Via, wake.Ended, wake.Exit = "exec", wake.Accepted, "exit status 0"
			}, 1)
			took := w.task.Wakes[0].AskedAt.Add(time.Second)
			w.rows = append(w.rows, pipeline.Row{ID: "Rec7", TaskID: "T-00002", Title: "Two", Assignee: "runner", Status: pipeline.Done})
			w.also = &core.Task{ID: 2, DropID: "d2", Title: "Two", Agent: "runner", RowID: "Rec7", Status: pipeline.Done,
				Heard: map[string]core.Heard{"runner": {At: took, Took: took}}}
		}, "the last start of runner ended 1h ago and worked on other tasks; its next start is due ", "", true},
		// An agent whose process has ended works on nothing.
		{"behind a task of an agent whose process has ended", func(w *whyWorld) {
			w.byCommand()
			took, ended := w.now.Add(-2*time.Minute), w.now.Add(-time.Minute)
			w.rows = append(w.rows, pipeline.Row{ID: "Rec7", TaskID: "T-00002", Title: "Two", Assignee: "runner", Status: pipeline.InProgress})
			w.also = &core.Task{ID: 2, DropID: "d2", Title: "Two", Agent: "runner", RowID: "Rec7", Status: pipeline.InProgress, Steps: []core.Step{{ID: 1, Title: "b", RowID: "Rec8"}},
				Dispatch: &core.Dispatch{Attempt: 1, Agent: "runner", At: took, FlippedAt: took, TakenAt: took},
				Wakes:    []core.Wake{{Attempt: 1, Key: "k", Agent: "runner", Via: "exec", Tasks: []pipeline.TaskID{2}, AskedAt: took, Sent: true, Accepted: took, StartResult: core.StartResult{Ended: ended, Exit: "exit status 1"}}}}
		}, "waits behind T-00002, which was taken by runner, whose last start ended 1m ago (exit status 1)", "otm release T-00002", true},
		{"blocked, and the board has a page", func(w *whyWorld) { w.status(pipeline.Blocked); w.h.Config.Slack.ListID = "" },
			"blocked 2h ago: ", "or: otm board --link", true},
		{"blocked, on a list without a column for the reason", func(w *whyWorld) { w.status(pipeline.Blocked); w.task.Reason = "no password" },
			"blocked 2h ago: no password", "otm unblock T-00001 --reason '…'", true},
		{"answered on the board, and still blocked", func(w *whyWorld) {
			w.status(pipeline.Blocked)
			w.task.Question, w.task.Reason, w.task.Answered = "Which?", "That one.", true
		}, `blocked 2h ago; somebody answered "Which?": "That one."; gate goes on once the status is in_progress`, "otm unblock T-00001", true},
		{"an update failed", func(w *whyWorld) { w.taken(); w.failUpdate() }, "an update of it failed 0s ago (conflict): robin sets done", "otm retry u.json", true},
		{"its id was taken", func(w *whyWorld) { w.rows, w.task = nil, nil; w.failCreate(inbox.Conflict) }, "failed 1h ago (conflict): not so", "otm retry c.json --new-id", true},
		{"its create is wrong", func(w *whyWorld) { w.rows, w.task = nil, nil; w.failCreate(inbox.Invalid) }, "failed 1h ago (invalid): not so", "failed/c.json, then: otm retry c.json", true},
		{"refused when it was half made", func(w *whyWorld) {
			w.task.RowID, w.rows = "", nil
			w.failCreate(inbox.Rejected)
		}, "failed 1h ago (rejected): not so", "otm retry c.json", true},
		{"a drop of somebody that failed says nothing of use", func(w *whyWorld) { w.taken(); w.oddFailure() }, "gate took it 1m ago and has reported nothing yet", "", false},
		{"it stands nowhere, and a drop cannot be read", func(w *whyWorld) {
			w.rows, w.task = nil, nil
			w.oddFailure()
			refused := false // once: other readers of it come later
			crashtest.Below(w, filepath.Join(w.h.Dir, inbox.FailedDir, "odd.json"), func(string, string) error {
				if refused {
					return nil
				}
				refused = true
				return syscall.EIO
			})
		},
			"was never issued; but failed/odd.json cannot be read: ", "otm list", false},
		{"an update waits, and the heartbeat cannot be read", func(w *whyWorld) {
			w.taken()
			w.dropUpdate()
			crashtest.Below(w, heartbeat.Path(w.h.Dir, heartbeat.Injector), func(string, string) error { return syscall.EIO })
		}, "in the inbox, the oldest for 0s; whether otm-injector runs is not known", "ls -l ", false},
		{"row gone", func(w *whyWorld) { w.rows = nil; w.gone() }, "somebody deleted or archived its row on the board, seen 30m ago", "name the old board in otm.toml again; or: otm cancel T-00001 --reason '…'", true},
		{"row gone, not noted", func(w *whyWorld) { w.rows = nil }, "or otm.toml names another board now", "restore the row", true},
		{"row of a done task gone", func(w *whyWorld) { w.status(pipeline.Done); w.rows = nil; w.gone() }, "done; somebody deleted or archived its row", "", false},
		{"row of a reviewed task gone, not noted", func(w *whyWorld) { w.status(pipeline.AgentDone); w.rows = nil }, "agent_done; its row was not on the board", "", false},
		{"archived", func(w *whyWorld) { w.status(pipeline.Done); w.rows = nil; w.task.ArchivedAt = w.now }, "archived 0s ago", "otm history T-00001", false},
		{"its id cleared", func(w *whyWorld) { w.taken(); w.rows[0].TaskID = "" }, "reported nothing yet; somebody changed the Task ID of its row; the dispatcher writes it back", "", false},
		{"another row bears its id", func(w *whyWorld) { w.taken(); w.rows[0].ID = "Rec7" }, "it is not made again; another row, \"One\", bears its id", "clear the Task ID of that row", true},
		{"row gone, and typed again", func(w *whyWorld) { w.gone(); w.rows[0].ID = "Rec7" }, "it is not made again; another row, \"One\", bears its id", "clear the Task ID of that row", true},
		{"typed id, unknown agent", func(w *whyWorld) { w.typed(pipeline.Row{TaskID: "T-00001", Title: "x", Assignee: "deevdas"}) },
			`unknown agent "deevdas"`, "choose an agent on the board: archibald, devdas, ", true},
		{"typed id, nobody", func(w *whyWorld) { w.typed(pipeline.Row{TaskID: "T-00001", Title: "x"}) }, "nobody is assigned", "choose an assignee", false},
		{"typed id, no title", func(w *whyWorld) { w.typed(pipeline.Row{TaskID: "T-00001", Assignee: "gate"}) }, "without a title", "give it a title", false},
		{"typed id, done", func(w *whyWorld) {
			w.typed(pipeline.Row{TaskID: "T-00001", Title: "x", Assignee: "gate", Status: pipeline.Done})
		}, "typed on the board as done", "", false},
		{"adoption stuck", func(w *whyWorld) {
			w.begun()
			beat := heartbeat.NewWriter(w.h.Dir, heartbeat.Dispatcher, "", func() time.Time { return w.now })
			if err := beat.Beat(heartbeat.Partial, `row "One": no room`, explain.New(explain.ListFull)); err != nil {
				w.Fatal(err)
			}
		}, `not taken up completely; the list is full`, "otm archive --older-than 0d", true},
		{"adoption stuck on a full list", func(w *whyWorld) {
			w.begun()
			w.limit = len(w.rows)
			w.beat(heartbeat.Partial, "0 tasks, 1 failure", heartbeat.Dispatcher)
		}, "not taken up completely; otm-dispatcher: 0 tasks, 1 failure; the list is full (1 of 1 rows)", "otm archive --older-than 0d", true},
		{"row not made on a full list", func(w *whyWorld) {
			w.task.RowID, w.rows, w.limit = "", w.rows[:0], 1
			w.rows = append(w.rows, pipeline.Row{ID: "Rec9", Title: "x"})
			w.dropCreate("T-00001")
		}, "its row could not be made yet; the list is full (1 of 1 rows)", "otm archive --older-than 0d", true},
		{"row not made", func(w *whyWorld) { w.task.RowID, w.rows = "", nil }, "its row could not be made yet", "", true},
		{"row not made, as the board does not take it", func(w *whyWorld) {
			w.task.RowID, w.rows = "", nil
			w.pending = []core.Pending{{Task: 1, Sink: core.SinkBoard, Since: w.now.Add(-time.Hour), Tries: 3, Error: "there is no column x"}}
		}, "its row could not be made yet; the board does not show it as it is since ", "otm doctor", true},
		{"the dispatch file cannot be written", func(w *whyWorld) {
			w.woken(nil, 1)
			w.pending = []core.Pending{{Task: 1, Sink: core.SinkEntry, Since: w.now.Add(-time.Hour), Tries: 3, Error: "no space left on device"}}
		}, "after 3 tries: no space left on device", "otm doctor", true},
		{"typed, and its row does not show yet", func(w *whyWorld) { w.begun(); w.rows, w.task.RowID = nil, "" }, "typed on the board, and not taken up completely", "", true},
		{"row lacks one of its steps", func(w *whyWorld) { w.task.Steps = append(w.task.Steps, core.Step{ID: 2, Title: "b"}) },
			"1 of its 2 steps stand on the board", "", true},
		{"row lacks steps, and nothing waits", func(w *whyWorld) { w.task.Steps[0].RowID, w.rows = "", w.rows[:1] },
			"0 of its 1 steps stand on the board", "", true},
		{"two rows bear its id", func(w *whyWorld) {
			w.taken()
			w.rows = append([]pipeline.Row{{ID: "Rec0", TaskID: "T-00001", Title: "Copy", Assignee: "gate", Updated: w.now.Unix()}}, w.rows...)
		}, `reported nothing yet; another row, "Copy", bears its id`, "clear the Task ID of that row", false},
		{"its id cleared and on another row", func(w *whyWorld) {
			w.taken()
			w.rows[0].TaskID = ""
			w.rows = append(w.rows, pipeline.Row{ID: "Rec0", TaskID: "T-00001", Title: "Copy", Assignee: "gate"})
		}, `somebody changed the Task ID of its row, and it cannot be written back while another row, "Copy", bears it`, "clear the Task ID of that row", false},
		{"its id cleared, woken", func(w *whyWorld) { w.rows[0].TaskID = ""; w.woken(nil, 1) }, "it is woken again with the dispatcher's next pass; somebody changed the Task ID", "it is woken again", true},
		{"row back, not noted", func(w *whyWorld) { w.taken(); w.gone() }, "reported nothing yet; its row was gone and is back", "", false},
		{"row gone while the snapshot is older", func(w *whyWorld) {
			w.task.GoneAt = w.now
		}, "somebody deleted or archived its row", "restore the row", false},
		{"all steps of a typed task deleted", func(w *whyWorld) {
			w.status(pipeline.InProgress)
			w.taken()
			w.task.DropID, w.rows, w.task.Steps, w.task.Dispatch.AllTicked = "", w.rows[:1], nil, true
		}, "all its steps were deleted on the board: the agent has to report agent_done", "", false},
		{"lost task, create waits", func(w *whyWorld) { w.task = nil; w.dropCreate("T-00001") }, "in the inbox for", "", true},
		{"lost task and row, create took effect", func(w *whyWorld) {
			w.rows, w.task = nil, nil
			put(w, filepath.Join(w.h.Dir, inbox.ProcessedDir, "c.json"), createOf("T-00001"))
		}, "its file was processed, and neither the store nor the board has it", "otm fsck", true},
		{"an update of a task that nobody knows waits", func(w *whyWorld) { w.rows, w.task = nil, nil; w.dropUpdate() },
			"was never issued; 1 update of it waits in the inbox", "otm list", false},
		{"an update of a task that is coming waits long", func(w *whyWorld) {
			w.task.RowID, w.rows, w.task.CreatedAt = "", nil, w.now
			w.dropCreate("T-00001")
			w.dropUpdate()
			w.ageUpdate(time.Hour)
		}, "1 update of it waits in the inbox, the oldest for 1h", "", true},
		{"an update waits for long", func(w *whyWorld) { w.taken(); w.dropUpdate(); w.ageUpdate(time.Hour) }, "1 update of it waits in the inbox, the oldest for 1h", "", true},
		{"an update failed, and the agent went on", func(w *whyWorld) {
			w.taken()
			w.failUpdate()
			w.heard("gate", w.now.Add(time.Second))
		}, "an update of it failed 0s ago", "otm retry u.json", false},
		{"typed, a cell cannot be read", func(w *whyWorld) { w.typed(pipeline.Row{Title: "x", Assignee: "gate", TaskID: "T-00001", Odd: true}) },
			"a cell of its row has a form that OTM cannot read", "choose its values anew", true},
		{"typed, its step was just made", func(w *whyWorld) {
			w.typed(pipeline.Row{TaskID: "T-00001", Title: "x", Assignee: "gate"})
			w.rows = append(w.rows, pipeline.Row{ID: "Rec2", Parent: "Rec1", Title: "a", Updated: w.now.Unix()})
		}, "it is taken up when nobody has changed it for 1m0s", "", false},
		{"lost task at work", func(w *whyWorld) { w.task = nil }, "assigned on the board, and the store does not have it: the dispatcher's next pass takes it over", "", true},
		{"its id is another task's row's", func(w *whyWorld) {
			w.rows[0].TaskID = "T-00002"
			w.also = &core.Task{ID: 2, DropID: "d2", Title: "Two", RowID: "Rec9"}
			w.rows = append(w.rows, pipeline.Row{ID: "Rec9", TaskID: "T-00001", Title: "Two", Assignee: "gate"})
			w.task = nil
		}, "was never issued", "otm list", false},
		{"jumped over", func(w *whyWorld) {
			w.rows, w.task = nil, nil
			put(w, filepath.Join(w.h.Dir, "next-task-id.json"), `{"next":5}`)
		}, "was never given to a task, as far as OTM knows", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWhyWorld(t)
			c.spoil(w)
			v := w.view()
			r, err := why.Of(v, 1)
			if err != nil || !strings.Contains(r.Sentence, c.want) || !strings.Contains(r.Sentence+" → "+r.Next+"; or: "+r.Or, c.next) || c.next == "" && r.Next != "" {
				t.Errorf("why = %+v, %v; want %q, next %q", r, err, c.want, c.next)
			}
			if got := r.Slow(v); got != c.slow {
				t.Errorf("told of by --all: %v, want %v (%+v)", got, c.slow, r)
			}
		})
	}
}

// An agent whose process ended while the dispatcher does not run works on nothing: agents,
// status and the page say so, each with what to start. An agent that has a task to do waits.
func TestToldWithoutDispatcher(t *testing.T) {
	t.Parallel()
	w := newWhyWorld(t)
	w.byCommand()
	w.status(pipeline.InProgress)
	w.taken()
	w.woken(func(_ int, wake *core.Wake) { wake.Via, wake.Exit, wake.Ended = "exec", "exit status 1", w.now }, 1)
	w.second(core.Task{Agent: "gate", Status: pipeline.New})
	w.noDispatcher()
	v := w.view()
	agents, err := AgentLines(v)
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for _, a := range agents {
		told[a.Name] = fmt.Sprint(a.State, " ", a.TaskID, " next ", a.Next)
		for _, f := range a.Findings {
			told[a.Name] += fmt.Sprint(" ", f.Code)
		}
	}
	want := map[string]string{"gate": "waits T-00000 next T-00002 component_ended", "runner": "ended T-00001 next T-00000 taken_ended component_ended"}
	for name := range want {
		if told[name] != want[name] {
			t.Errorf("%s: %s, want %s", name, told[name], want[name])
		}
	}
	w.dropUpdate()
	counted := viewSources(w.h, whyStore{storeOf(w, w.h), w}, &slacklist.Snapshot{Rows: w.rows, WalkAt: w.now}, true)
	if v, err := view.Load(t.Context(), counted); err != nil || slices.ContainsFunc(v.Problems(), func(f explain.Finding) bool { return f.Code == explain.TakenEnded }) {
		t.Errorf("its last report waits: the problems are %v, %v", v.Problems(), err)
	}
	if problems := v.Problems(); !slices.ContainsFunc(problems, func(f explain.Finding) bool { return f.Code == explain.TakenEnded && f.Task == 1 }) {
		t.Errorf("problems %v, without the agent that died", problems)
	}
}

// Who waits as max_running says is told for whom, also for a process that runs on with no task.
func TestWhyTellsOfTheLimit(t *testing.T) {
	t.Parallel()
	w := newWhyWorld(t)
	w.h.Config.Times.MaxRunning = 1
	w.second(core.Task{Agent: "runner", Status: pipeline.Blocked, Steps: []core.Step{{ID: 1, Title: "b"}},
		Dispatch: &core.Dispatch{Agent: "runner", At: w.now, TakenAt: w.now}})
	w.runs()
	r, err := why.Of(w.view(), 1)
	want := fmt.Sprintf("gate waits: 1 agent is at work, and max_running allows no more: runner (its process runs on, pid %d)", os.Getpid())
	if err != nil || !strings.HasSuffix(r.Sentence, want) || r.Next != "otm agents" {
		t.Errorf("%q → %q, %v; want %q", r.Sentence, r.Next, err, want)
	}
	w.agentState(`{"agent":"runner","paused":{"at":%q,"by":{"kind":"person","name":"ada"}}}`, w.now)
	v := w.view()
	if r, err := why.Of(v, 1); err != nil || !strings.HasSuffix(r.Sentence, want) {
		t.Errorf("beside a pause: %q, %v; want %q", r.Sentence, err, want)
	}
	runs := pipeline.Find(view.RegistryOf(v), func(r *view.Registered) bool { return r.Name == "runner" })
	if !slices.ContainsFunc(runs.Findings, func(f explain.Told) bool {
		return f.Code == explain.AgentRuns && strings.HasPrefix(f.Hint, "kill -- -")
	}) {
		t.Errorf("what is told of the process: %+v", runs.Findings)
	}
}

// A pause is told of in each state in which it holds the task up, whoever made it, and
// in no other.
func TestWhyTellsOfPauses(t *testing.T) {
	t.Parallel()
	untaken := func(w *whyWorld) { w.woken(nil, 1) }
	atWork := func(w *whyWorld) { w.status(pipeline.InProgress); w.taken() }
	isNew := func(w *whyWorld) { w.status(pipeline.New); w.task.Dispatch = nil }
	byCommand := func(then func(w *whyWorld)) func(w *whyWorld) {
		return func(w *whyWorld) { w.byCommand(); then(w) }
	}
	for name, c := range map[string]struct {
		spoil func(w *whyWorld)
		holds bool
	}{
		"new": {isNew, true},
		"new, by command": {byCommand(func(w *whyWorld) {
			isNew(w)
			w.h.Config.Agents.Named("runner").Workspace = w.TempDir()
		}), true},
		"not woken yet":   {func(*whyWorld) {}, true},
		"woken":           {untaken, true},
		"looks by itself": {func(w *whyWorld) { w.h.Config.Agents.Named("gate").Trigger = pipeline.TriggerNone }, true},
		"taken":           {(*whyWorld).taken, true},
		"at work":         {atWork, true},
		"at work by itself": {func(w *whyWorld) {
			atWork(w)
			w.h.Config.Agents.Named("gate").Trigger = pipeline.TriggerNone
		}, true},
		"behind another one": {func(w *whyWorld) {
			w.rows = append(w.rows, pipeline.Row{ID: "Rec7", TaskID: "T-00002", Title: "Two", Assignee: "gate", Status: pipeline.InProgress})
			w.also = &core.Task{ID: 2, DropID: "d2", Title: "Two", Agent: "gate", RowID: "Rec7", Status: pipeline.InProgress, Steps: []core.Step{{ID: 1, Title: "b", RowID: "Rec8"}},
				Dispatch: &core.Dispatch{Attempt: 1, Agent: "gate", At: w.now, FlippedAt: w.now, TakenAt: w.now}}
		}, true},
		"its process ended": {byCommand(func(w *whyWorld) {
			atWork(w)
			w.woken(func(_ int, wake *core.Wake) { wake.Exit, wake.Ended = "exit status 1", w.now }, 1)
		}), true},
		"its process hangs": {byCommand(func(w *whyWorld) {
			w.woken(func(_ int, wake *core.Wake) { wake.Via = "exec" }, 1)
			w.runs()
		}), true},
		"its process is at work": {byCommand(func(w *whyWorld) { atWork(w); w.runs() }), false},
		"blocked":                {func(w *whyWorld) { atWork(w); w.status(pipeline.Blocked) }, false},
		"agent_done":             {func(w *whyWorld) { atWork(w); w.status(pipeline.AgentDone) }, false},
		"done":                   {func(w *whyWorld) { atWork(w); w.status(pipeline.Done) }, false},
		"set aside":              {func(w *whyWorld) { w.status(pipeline.Pending) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, pause := range []struct{ code, state string }{
				{"agent_paused", `"paused":{"at":"TIME","by":{"kind":"person","name":"robin"},"reason":"its key is being changed"}`},
				{"agent_left_alone", `"failures":3,"fruitless":3,"rests":RESTS,"leftAloneSince":"TIME","nextStart":"TIME","lastRun":{"key":"k0","endedAt":"TIME"}`},
				{"agent_pausing", `"failures":1,"fruitless":1,"rests":RESTS,"nextStart":"TIME","lastRun":{"key":"k0","endedAt":"TIME"}`},
			} {
				w := newWhyWorld(t)
				c.spoil(w)
				if pause.code != "agent_paused" && name == "its process hangs" {
					continue // OTM waits for its end, whatever its former runs came to
				}
				agent := "gate"
				if w.rows[0].Assignee == "runner" {
					agent = "runner"
				}
				state := strings.NewReplacer("AGENT", agent, "TIME", w.now.Add(-time.Minute).Format(time.RFC3339), "RESTS", fmt.Sprint(name == "new"))
				w.agent = &core.AgentState{}
				if err := json.Unmarshal([]byte(state.Replace(`{"agent":"AGENT",`+pause.state+"}")), w.agent); err != nil {
					t.Fatal(err)
				}
				v := w.view()
				r, err := why.Of(v, 1)
				told := slices.ContainsFunc(r.Findings, func(f explain.Finding) bool { return string(f.Code) == pause.code })
				if err != nil || told != c.holds || told && (!strings.Contains(r.Next+r.Or, "otm resume "+agent) || !r.Slow(v)) {
					t.Errorf("%s: told of: %v, want %v; why = %+v, %v", pause.code, told, c.holds, r, err)
				}
			}
		})
	}
}

// What the dispatcher reported about other tasks and agents says nothing about this
// task. What it reported about this task is said.
func TestWhyTellsNothingOfOthers(t *testing.T) {
	t.Parallel()
	w := newWhyWorld(t)
	w.status(pipeline.New)
	w.task.Dispatch = nil
	long := strings.Repeat("the wall of somebody else's trouble; ", 30)
	beat := heartbeat.NewWriter(w.h.Dir, heartbeat.Dispatcher, "", func() time.Time { return w.now })
	if err := beat.Beat(heartbeat.Partial, long,
		explain.New(explain.TaskNoAgent, "name", "wall").On(9), explain.New(explain.WakeFailed, "agent", "runner", "error", "wall"),
		explain.New(explain.RowNoTaskID, "title", "wall", "cell", "x"), explain.New(explain.RowNoAgent, "title", "wall", "name", "x"),
		explain.New(explain.WorkspaceMissing, "agent", "gate", "path", "/wall"), // it was there again when we looked
		explain.New(explain.EffectUndelivered, "error", "dispatch file of gate: disk full").On(1)); err != nil {
		t.Fatal(err)
	}
	v := w.view()
	r, err := why.Of(v, 1)
	if want := "waits for the dispatcher's next pass; dispatch file of gate: disk full"; err != nil || r.Sentence != want || len(r.Lines) != 2 {
		t.Errorf("%v, %q, want %q", err, r.Sentence, want)
	}
}

// That no agent at the gateway can be woken follows from the gateway that is away, and is told once.
func TestWakesWhileTheGatewayIsAway(t *testing.T) {
	t.Parallel()
	for _, up := range []bool{true, false} {
		w := newWhyWorld(t)
		beat := heartbeat.NewWriter(w.h.Dir, heartbeat.Dispatcher, "", func() time.Time { return w.now })
		if err := beat.Beat(heartbeat.Partial, "", explain.New(explain.WakeFailed, "agent", "gate", "error", "connection refused")); err != nil {
			t.Fatal(err)
		}
		w.link(dispatch.Link{Up: up, Since: w.now.Add(-time.Hour), Error: "connection refused"})
		codes := map[explain.Code]bool{}
		for _, f := range w.view().Problems() {
			codes[f.Code] = true
		}
		if codes[explain.WakeFailed] != up || codes[explain.GatewayDown] == up {
			t.Errorf("the gateway can be reached: %v, the problems are %v", up, codes)
		}
	}
}

// Rows that people typed are told of by their titles, where they wait for
// longer than they have to; those of tasks that lost their id are not.
func TestWhyTypedRows(t *testing.T) {
	t.Parallel()
	w := newWhyWorld(t)
	old := w.now.Add(-48 * time.Hour).Unix()
	w.rows[0].TaskID = ""
	w.taken()
	w.rows = append(w.rows,
		pipeline.Row{ID: "Rec3", Title: "junk", TaskID: "soon", Assignee: "gate", Updated: old},
		pipeline.Row{ID: "Rec4", Title: "unknown", Assignee: "x", Updated: old},
		pipeline.Row{ID: "Rec5", Title: "", Assignee: "gate", Updated: old},
		pipeline.Row{ID: "Rec6", Title: "not new", Assignee: "gate", Status: pipeline.InProgress, Updated: old},
		pipeline.Row{ID: "Rec7", Title: "over", Assignee: "gate", Status: pipeline.Done, Updated: old},
		pipeline.Row{ID: "Rec8", Title: "just now", Assignee: "gate", Updated: w.now.Unix()},
		pipeline.Row{ID: "Rec9", Title: "taken up soon", Assignee: "gate", Updated: w.now.Add(-2 * time.Minute).Unix()})
	var out bytes.Buffer
	w.h.Out = &out
	w.rows = append(w.rows,
		pipeline.Row{ID: "RecA", Title: "copy", TaskID: "T-00002", Assignee: "gate", Updated: old},
		pipeline.Row{ID: "RecB", Title: "odd", Assignee: "gate", Odd: true, Updated: old},
		pipeline.Row{ID: "RecC", Title: "nobody", Updated: old},
		pipeline.Row{ID: "RecD", Title: "own", TaskID: "T-00002", Assignee: "gate", Status: pipeline.Done, Updated: old})
	w.also = &core.Task{ID: 2, DropID: "d2", Title: "Two", RowID: "RecD", Status: pipeline.Done}
	if err := whyAll(w.h, w.view()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`- junk: its Task ID says "soon", which is no task id`, `- unknown: unknown agent "x"`, "- (no title): typed on the board without a title",
		"- not new: typed on the board as in_progress: only new ones are taken up", "- copy: it bears the id of T-00002, which is another row",
		"- odd: a cell of its row has a form that OTM cannot read", "- nobody: nobody is assigned",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
	for _, no := range []string{"- over", "- just now", "- taken up soon", "- One", "T-00001 ", "T-00002 "} {
		if strings.Contains(out.String(), no) {
			t.Errorf("%q is told of:\n%s", no, out.String())
		}
	}
	out.Reset()
	w.h.asJSON = true
	if err := whyAll(w.h, w.view()); err != nil {
		t.Fatal(err)
	}
	var list []struct{ TaskID, Title, Why string }
	if err := json.Unmarshal(out.Bytes(), &list); err != nil || len(list) != 7 || list[0].TaskID != "" {
		t.Errorf("as JSON: %v, %s", err, out.String())
	}
	if r, err := why.OfRow(w.view(), &w.rows[0]); err != nil || !strings.Contains(r.Sentence, "gate took it") {
		t.Errorf("a row without its id: %+v, %v", r, err)
	}
}
