package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/pipeline"
)

// failOnce makes a task whose first run failed, and returns it.
func (w *world) failOnce(agent string) pipeline.TaskID {
	w.Helper()
	id := w.create("A task of "+agent, agent, pipeline.Normal)
	w.pass()
	w.next(agent)
	w.clock.Advance(time.Second)
	w.do(core.Command{At: w.clock.Now(), By: by(), Task: id, Agent: agent, Do: core.FailRun{Run: 1, Failure: core.Failure{Exit: "exit 1"}}})
	return id
}

// advised counts the answers that are noted of a task.
func (w *world) advised(id pipeline.TaskID) int { return w.count(id, "RetryAdvised") }

// TestAdvice: advice is asked once for each failed run, and stands in the entry of the next
// one. SKIP makes a dead letter. A command that fails changes nothing, and is told once.
func TestAdvice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha", "beta", "gamma", "delta")
	asked := make(chan Question, 10)
	w.d.Advise = func(_ context.Context, q Question) (core.Advice, error) {
		asked <- q
		switch q.Agent {
		case "alpha":
			return core.Advice{Text: "  use\nthe other key  "}, nil
		case "beta":
			return core.Advice{Skip: true, Text: "it cannot be done"}, nil
		case "gamma":
			return core.Advice{}, errors.New("no such command")
		}
		return core.Advice{}, nil
	}
	var ids []pipeline.TaskID
	for _, name := range w.agents.Names() {
		ids = append(ids, w.failOnce(name))
	}
	old := w.record(ids[0])
	for range 3 {
		w.pass()
		w.d.Wait()
	}
	w.d.adviseOn(t.Context(), questionOn(old, old.Runs.Last(), w.d.Types)) // by a pass that read it before
	if len(asked) != len(ids) {
		t.Errorf("%d questions, want %d", len(asked), len(ids))
	}
	if q := <-asked; q.Run != 1 || q.Try != 1 || q.Retries != 3 || q.Exit != "exit 1" || !strings.HasPrefix(q.Title, "A task of ") || q.NextRunAt.IsZero() {
		t.Errorf("question %+v", q)
	}
	for i, id := range ids {
		if n := w.advised(id); n != 1 {
			t.Errorf("%s: %d answers are noted", w.agents[i].Name, n)
		}
	}
	if got := w.record(ids[1]); got.Status != pipeline.Failed || got.Wait != nil {
		t.Errorf("skipped: %s, waits %+v", got.Status, got.Wait)
	}
	if got := w.record(ids[2]).Runs[0].Advice; got == nil || got.Failed != "no such command" {
		t.Errorf("failed: %+v", got)
	}
	w.clock.Advance(time.Minute)
	w.pass()
	if got := w.entry("alpha", ids[0])["advice"]; got != "use the other key" {
		t.Errorf("the entry says %v", got)
	}
	for _, i := range []int{2, 3} {
		name := w.agents[i].Name
		if e := w.entry(name, ids[i]); e == nil || e["advice"] != nil {
			t.Errorf("%s: entry %v, want one without advice", name, e)
		}
	}
	// An answer that comes again, or after the next run was handed out, counts no more.
	w.do(core.Command{At: w.clock.Now(), By: by(), Task: ids[0], Do: core.AdviseRetry{Run: 1, Advice: core.Advice{Skip: true}}})
	if got := w.record(ids[0]); got.Status != pipeline.Assigned || got.Runs[0].Advice.Skip {
		t.Errorf("after a late answer: %s, %+v", got.Status, got.Runs[0].Advice)
	}
}

// TestAdviceBlocksNobody: while a command thinks, passes go on for other agents, and the
// retry follows in its time. At most a few questions are asked at once.
func TestAdviceBlocksNobody(t *testing.T) {
	t.Parallel()
	names := []string{"alpha", "beta", "gamma", "delta", "epsilon", "zeta"}
	w := newWorld(t, append(names, "other")...)
	release, asked := make(chan struct{}), make(chan Question, 10)
	w.d.Advise = func(ctx context.Context, q Question) (core.Advice, error) {
		asked <- q
		<-release
		return core.Advice{Text: "late"}, nil
	}
	var ids []pipeline.TaskID
	for _, name := range names {
		ids = append(ids, w.failOnce(name))
	}
	w.pass()
	for range maxAdvising {
		<-asked
	}
	w.create("Another", "other", pipeline.Normal)
	if got := w.pass(); got.Woken == 0 || len(asked) > 0 {
		t.Errorf("woken %d, more questions %d", got.Woken, len(asked))
	}
	w.clock.Advance(time.Minute)
	w.pass()
	for _, id := range ids {
		if got := w.record(id).Status; got != pipeline.Assigned {
			t.Errorf("%v is %s, want it handed out again", id, got)
		}
	}
	close(release)
	w.d.Wait()
	w.pass()
	w.d.Wait()
	for _, id := range ids {
		if w.advised(id) > 0 {
			t.Errorf("%v: advice that came after the hand-out counts", id)
		}
	}
}

// TestAdviceAfterAKill: a dispatcher that stops before the answer leaves no trace, and the
// next one asks again.
func TestAdviceAfterAKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	id := w.failOnce("alpha")
	ctx, stop := context.WithCancel(t.Context())
	w.d.Advise = func(ctx context.Context, _ Question) (core.Advice, error) {
		stop()
		<-ctx.Done()
		return core.Advice{}, ctx.Err()
	}
	w.d.Pass(ctx, 0)
	w.d.Wait()
	if n := w.advised(id); n != 0 {
		t.Fatalf("%d answers are noted", n)
	}
	w.restart()
	w.d.Advise = func(context.Context, Question) (core.Advice, error) { return core.Advice{Text: "again"}, nil }
	w.pass()
	w.d.Wait()
	if got := w.record(id).Runs[0].Advice; got == nil || got.Text != "again" {
		t.Errorf("advice %+v", got)
	}
}

// TestAdviser: the command gets the question as JSON and no secret. Its answer is bounded in
// size and in time, and it is killed with all that it started.
func TestAdviser(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("OTM_SECRET_OF_A_TEST", "x")
	t.Setenv("A_SECRET_OF_A_TEST", "x")
	ask := func(limit time.Duration, script string) (core.Advice, error) {
		a := &Adviser{Command: []string{"sh", "-c", script}, Dir: dir, Secrets: []string{"A_SECRET_OF_A_TEST"}, Limit: limit}
		return a.Ask(t.Context(), Question{TaskID: 7, Title: "a \"title\"\n", Run: 2})
	}
	for script, want := range map[string]core.Advice{
		"cat >question; env >env; echo ' do it '": {Text: "do it"},
		"echo SKIP":                              {Skip: true},
		"echo 'SKIP: no such project'":           {Skip: true, Text: "no such project"},
		"echo SKIPPER is its name":               {Text: "SKIPPER is its name"},
		"true":                                   {},
		"exec 0<&-; echo 'reads nothing'":        {Text: "reads nothing"},
		"printf '%020000d' 0 | tr 0 x":           {Text: strings.Repeat("x", 16<<10)},
		"sleep 2 & echo 'left something behind'": {Text: "left something behind"},
	} {
		if got, err := ask(time.Hour, script); err != nil || got != want {
			t.Errorf("%s: %.60q, %v", script, got.Text, err)
		}
	}
	var q Question
	data, err := os.ReadFile(filepath.Join(dir, "question"))
	if err == nil {
		err = json.Unmarshal(data, &q)
	}
	if err != nil || q.TaskID != 7 || q.Title != "a \"title\"\n" || q.Run != 2 {
		t.Errorf("question %s: %v", data, err)
	}
	env, _ := os.ReadFile(filepath.Join(dir, "env"))
	if strings.Contains(string(env), "SECRET_OF_A_TEST") || !strings.Contains(string(env), "OTM_TASK_ID=T-00007\n") || !strings.Contains(string(env), "OTM_DIR="+dir+"\n") {
		t.Errorf("environment:\n%s", env)
	}
	for script, want := range map[string]string{
		"echo SKIP; exit 3": "exit status 3",
		"kill -9 $$":        "signal: killed",
	} {
		if got, err := ask(time.Hour, script); err == nil || !strings.Contains(err.Error(), want) || got != (core.Advice{}) {
			t.Errorf("%s: %+v, %v", script, got, err)
		}
	}
	lives := filepath.Join(dir, "lives")
	if err := syscall.Mkfifo(lives, 0o600); err != nil {
		t.Fatal(err)
	}
	for limit, began := 50*time.Millisecond, ""; began == ""; limit *= 2 { // else it was ended before it began
		reader, err := os.OpenFile(lives, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ask(limit, "exec 3>lives; sleep 1000 & echo began >&3; wait"); err == nil || !strings.Contains(err.Error(), "did not end within") {
			t.Errorf("too slow: %v", err)
		}
		all, err := io.ReadAll(reader) // to its end, when nobody holds the pipe any more
		if began = string(all); err != nil {
			t.Fatal(err)
		}
		reader.Close()
	}
	none := &Adviser{Command: []string{filepath.Join(dir, "no such program")}, Dir: dir}
	if _, err := none.Ask(t.Context(), Question{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no program: %v", err)
	}
}
