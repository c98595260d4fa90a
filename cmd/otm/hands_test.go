package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"otm/internal/crash/crashtest"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// newHands is a house in which all agents look by themselves.
func newHands(t *testing.T) *soak {
	t.Helper()
	s := newSoak(t, 0, "")
	text := "[board]\nlisten = \"127.0.0.1:0\"\n" + soakTimes + "[agents.olga]\nkind = \"human\"\n"
	for _, name := range s.agents {
		text += fmt.Sprintf("[agents.%s]\nworkspace = %q\n", name, s.workspace(name))
	}
	if err := os.WriteFile(filepath.Join(s.dir, "otm.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// mustDo is do where all must go well.
func (s *soak) mustDo(line ...string) string {
	s.Helper()
	out, said, code := s.do("", line...)
	if code != 0 {
		s.Errorf("%v: exit %d\n%s%s", line, code, out, said)
	}
	return out
}

// atOnce does something n times at once.
func atOnce(n int, do func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	wg.Wait()
}

// onBoard waits until so many tasks have a status.
func (s *soak) onBoard(n int, status string) {
	s.Helper()
	s.until(fmt.Sprintf("%d tasks to be %s", n, status), func() string {
		cards, err := s.desk.cards()
		if err != nil {
			return err.Error()
		}
		got := 0
		for _, c := range cards {
			if c.isTask() && c.cells["status"] == status {
				got++
			}
		}
		if got >= n {
			return ""
		}
		return fmt.Sprint(n-got, " of them")
	})
}

// drained waits until nothing is in the inboxes.
func (s *soak) drained() {
	s.Helper()
	s.until("the inboxes to be empty", func() string {
		if n := count(s.dir, "new-tasks") + count(s.dir, "task-updates"); n > 0 {
			return fmt.Sprint(n, " drops")
		}
		return ""
	})
}

// endUp ends what runs the way a supervisor does, and holds what came of it
// against otm fsck.
func (s *soak) endUp(crew *group) {
	s.Helper()
	crew.signal = syscall.SIGTERM
	crew.end()
	s.atRest()
}

// TestManyHands: creators and as many updaters at once, beside daemons, and beside
// agents that rewrite their dispatch files without a lock.
func TestManyHands(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "starts many processes")
	hands := setting(t, soakHands, 20)
	s := newHands(t)
	crew := s.crew(t.Context(), 0)
	create := func(i int) {
		title := fmt.Sprint("task ", i)
		if s.create(spec{Title: title, Agent: s.agents[i%len(s.agents)], Priority: "normal", Subtasks: []string{"a", "b"}}) != 1 {
			s.Errorf("%q was not created", title)
		}
	}
	atOnce(hands, create)
	s.onBoard(hands, "assigned")
	rewriters := s.begin(t.Context(), s.rewriter("alpha"), s.rewriter("gamma"))
	reports := make([]string, hands) // the name of the file, by task
	atOnce(2*hands, func(i int) {
		if i >= hands {
			create(i)
			return
		}
		id := s.idOf(fmt.Sprint("task ", i))
		out := s.mustDo("otm-update", "--json", "--task-id", id, "--subtask-done", "b", "--result", "by "+id)
		var answer struct{ File string }
		if err := json.Unmarshal([]byte(out), &answer); err != nil {
			s.Errorf("otm-update printed %q", out)
		}
		reports[i] = answer.File
	})
	s.drained()
	s.onBoard(hands, "in_progress")
	s.onBoard(hands, "assigned")
	rewriters.end()
	s.endUp(crew)
	s.checkCreates(s.store.all())
	for i, file := range reports {
		id := s.idOf(fmt.Sprint("task ", i))
		task := must(pipeline.ParseFileID(id))
		rec, reported := s.store.load(task), s.store.reports(task)
		if len(reported) != 1 || reported[0] != file || rec.Steps[0].Done || !rec.Steps[1].Done || rec.Result != "by "+id {
			t.Errorf("%s: reported was %s; the record is %+v", id, file, rec)
		}
	}
}

// rewriter is an agent that takes notes in its dispatch file all the time,
// writing back what it read a moment ago.
func (s *soak) rewriter(agent string) func(context.Context) {
	path := filepath.Join(s.workspace(agent), "task-dispatch.json")
	return func(ctx context.Context) {
		for n := 0; ctx.Err() == nil; n++ {
			data, err := os.ReadFile(path)
			var file map[string]any
			if err != nil || json.Unmarshal(data, &file) != nil {
				continue
			}
			file["note"] = n
			if data, err = json.Marshal(file); err != nil {
				continue
			}
			os.WriteFile(path+"~", data, 0o600)
			os.Rename(path+"~", path)
			pause(ctx, time.Millisecond)
		}
	}
}

// TestInjectorsTogether (B110): of two residents that are started together, one works
// and the other says who; single runs beside it take turns; each drop is
// settled once.
func TestInjectorsTogether(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "starts many processes")
	s := newHands(t)
	s.startBoard("")
	var all []spec
	for i := range 20 {
		all = append(all, spec{Title: fmt.Sprint("task ", i), Agent: "alpha", Priority: "normal"})
	}
	s.createAll(all)
	type end struct {
		code int
		said string
	}
	ends := make(chan end, 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 {
		go func() {
			var out bytes.Buffer
			cmd := s.process("otm-injector")
			cmd.Stderr = &out
			if err := cmd.Start(); err != nil {
				t.Error(err)
			}
			stop := context.AfterFunc(ctx, func() { cmd.Process.Signal(syscall.SIGTERM) })
			cmd.Wait()
			stop()
			ends <- end{cmd.ProcessState.ExitCode(), out.String()}
		}()
	}
	atOnce(4, func(int) { s.mustDo("otm-injector", "--once") })
	if refused := <-ends; refused.code != 11 || !strings.Contains(refused.said, "otm-injector is running already, as process") {
		t.Errorf("the second resident: exit %d\n%s", refused.code, refused.said)
	}
	s.drained()
	cancel()
	if stayed := <-ends; stayed.code != 0 {
		t.Errorf("the first resident: exit %d\n%s", stayed.code, stayed.said)
	}
	s.mustDo("otm-dispatcher", "--once")
	s.atRest()
	s.checkCreates(s.store.all())
}

// TestOddDrops: an update that comes before its create waits for it, and what
// comes under two names counts once.
func TestOddDrops(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "starts many processes")
	s := newHands(t)
	s.startBoard("")
	drop := func(kind inbox.Kind, name, text string) {
		if err := inbox.Open(s.dir).Publish(kind, name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	update := `{"id":"6a0e7a35-9d3a-4c38-a5f5-5d9c61c39c01","taskId":"T-00042","action":"update","subtasksDone":["a"],"result":"r"}`
	drop(inbox.TaskUpdates, "20260101T000000.000000001Z-a.json", update)
	s.mustDo("otm-injector", "--once")
	if n := count(s.dir, "task-updates"); n != 1 {
		t.Errorf("%d updates wait for their create", n)
	}
	create := `{"id":"6a0e7a35-9d3a-4c38-a5f5-5d9c61c39c02","taskId":"T-00042","title":"x","agent":"alpha","subtasks":["a","b"]}`
	drop(inbox.NewTasks, "one.json", create)
	drop(inbox.NewTasks, "two.json", create)
	drop(inbox.TaskUpdates, "20260101T000000.000000002Z-b.json", update)
	s.mustDo("otm-injector", "--once")
	s.mustDo("otm-dispatcher", "--once")
	s.mustDo("otm-injector", "--once")
	s.atRest()
	var took, skipped []string
	for _, settled := range s.settled(inbox.ProcessedDir) {
		if settled.Result.SkippedDuplicate {
			skipped = append(skipped, settled.Name)
		} else {
			took = append(took, settled.Name)
		}
	}
	if fmt.Sprint(took, skipped) != "[20260101T000000.000000001Z-a.json one.json] [20260101T000000.000000002Z-b.json two.json]" {
		t.Errorf("took effect: %v, skipped: %v", took, skipped)
	}
	rec := s.store.load(42)
	if len(s.store.reports(42)) != 1 || rec.Result != "r" || !rec.Steps[0].Done || rec.Steps[1].Done {
		t.Errorf("%+v", rec)
	}
}

// TestOneWorkspace: two agents that share a workspace, each of which asks for
// its tasks in several processes at once, beside the dispatcher, are each given
// their own, each once.
func TestOneWorkspace(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "starts many processes")
	const each = 8
	s := newHands(t)
	crew := s.crew(t.Context(), 0)
	var all []spec
	for i := range 2 * each {
		all = append(all, spec{Title: fmt.Sprint("task ", i), Agent: s.agents[i%2], Priority: "normal"})
	}
	s.createAll(all)
	s.onBoard(2*each, "assigned")
	given := make([]string, 2*each)
	atOnce(2*each, func(i int) {
		var task ownTask
		out := s.mustDo("otm", "next", "--agent", s.agents[i%2], "--another", "--json")
		if err := json.Unmarshal([]byte(out), &task); err != nil || task.Continue || task.Agent != s.agents[i%2] {
			s.Errorf("%s was given %s", s.agents[i%2], out)
		}
		given[i] = task.TaskID.String()
	})
	slices.Sort(given)
	if got := slices.Compact(slices.Clone(given)); len(got) != 2*each {
		t.Errorf("given were %v", given)
	}
	s.drained()
	s.onBoard(2*each, "in_progress")
	s.endUp(crew)
}

// ownTask is a task with the agent whose it is.
type ownTask struct {
	given
	Agent string
}

// TestSameRows: a person edits the rows on which agents report, all the time:
// what each of them wrote last stands there.
func TestSameRows(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "starts many processes")
	const tasks, edits = 6, 8
	s := newHands(t)
	crew := s.crew(t.Context(), 0)
	var all []spec
	for i := range tasks {
		all = append(all, spec{Title: fmt.Sprint("task ", i), Agent: "gamma", Priority: "low", Subtasks: []string{"a", "b", "c", "d"}})
	}
	s.createAll(all)
	s.onBoard(tasks, "assigned")
	cards := must(s.desk.cards())
	atOnce(2, func(who int) {
		if who == 0 {
			for n := range edits {
				for _, c := range cards {
					if c.isTask() {
						if err := s.desk.set("title", fmt.Sprintf("%s, edit %d", c.cells["title"], n), c.ID); err != nil {
							s.Error(err)
						}
						if err := s.desk.set("priority", []string{"critical", "high"}[n%2], c.ID); err != nil {
							s.Error(err)
						}
					}
				}
			}
			return
		}
		for _, step := range []string{"d", "1", "c"} {
			for i := range tasks {
				s.mustDo("otm-update", "--task-id", s.idOf(fmt.Sprint("task ", i)), "--subtask-done", step, "--result", "after "+step)
			}
		}
	})
	s.drained()
	s.endUp(crew)
	cards = must(s.desk.cards())
	for _, c := range cards {
		if !c.isTask() {
			continue
		}
		if !strings.HasSuffix(c.cells["title"], fmt.Sprint(", edit ", edits-1)) || c.cells["priority"] != "high" || c.cells["result"] != "after c" || c.cells["status"] != "in_progress" {
			t.Errorf("%v", c.cells)
		}
		done := ""
		for _, step := range cards {
			if step.Parent == c.ID && step.cells["status"] == "done" {
				done += step.cells["title"]
			}
		}
		if letters := strings.Split(done, ""); len(letters) != 3 || slices.Contains(letters, "b") {
			t.Errorf("%s: done are %q", c.cells["task_id"], letters)
		}
	}
}
