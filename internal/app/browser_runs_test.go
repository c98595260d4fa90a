package app

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"otm/core"
	"otm/internal/board"
	"otm/internal/page"
	"otm/pipeline"
)

// failedRun is a run that ended as failed.
func failedRun(number int, at time.Time, f core.Failure) core.Run {
	return core.Run{Number: number, Agent: "devdas", Attempt: number, Began: at, Ended: at.Add(3 * time.Minute), Ending: core.EndFailed, Failure: f}
}

// What went wrong is what one sees first: dead letters and what is held up stand before
// all else, in words. A task shows its runs, how they ended, and which retry it waits for.
func TestPageRuns(t *testing.T) {
	t.Parallel()
	one, at := 1, time.Now().Add(-time.Hour)
	evil := `<img src=x onerror="window.hit=1">`
	runs := []core.Run{
		failedRun(1, at, core.Failure{Exit: "exit code 1", Code: &one, Log: "/logs/exec/devdas/1.log"}),
		failedRun(2, at.Add(10*time.Minute), core.Failure{Words: evil, Free: true}),
	}
	with := func(wait time.Duration, more ...core.Run) func(*core.Task) {
		return func(task *core.Task) {
			task.Runs = append(slices.Clone(runs), more...)
			if wait > 0 {
				task.Wait = &core.Wait{Why: core.WaitBackoff, Until: time.Now().Add(wait)}
			}
		}
	}
	taken := func(task *core.Task) {
		task.Dispatch = &core.Dispatch{Attempt: 3, Agent: "devdas", At: at, FlippedAt: at, TakenAt: at, TakenBy: core.TakenByNext}
	}
	o := newOffice(t,
		seed{title: "Waits", status: "pending", agent: "devdas", priority: "low", alter: with(time.Hour)},
		seed{title: "Works", status: "in_progress", agent: "devdas", priority: "critical", alter: func(task *core.Task) {
			with(0, core.Run{Number: 3, Agent: "devdas", Attempt: 3, Began: at.Add(20 * time.Minute)})(task)
			taken(task)
			task.Heard = map[string]core.Heard{"devdas": {At: time.Now()}}
		}},
		seed{title: "Silent", status: "in_progress", agent: "devdas", priority: "low", alter: func(task *core.Task) {
			taken(task)
			task.Heard = map[string]core.Heard{"devdas": {At: time.Now().Add(-48 * time.Hour)}}
		}},
		seed{title: "Asks", status: "blocked", agent: "devdas", reason: "which colour?"},
		seed{title: "Dead", status: "failed", agent: "devdas", reason: "no GPU", alter: with(0)},
		seed{title: "Done", status: "done", agent: "devdas", alter: with(0)})
	tab := newTab(t)
	tab.open(o.link)
	order := eval[[]string](tab, `[...document.querySelectorAll(".column")].filter((c) => c.checkVisibility()).flatMap((c) => [...c.querySelectorAll(".card h3 bdi")].map((e) => c.dataset.column + " " + e.textContent))`)
	if got := strings.Join(order, ", "); got != "failed Dead, blocked Asks, pending Waits, in_progress Silent, in_progress Works, done Done" {
		t.Errorf("the cards stand as %s", got)
	}
	card := func(title string) string {
		return eval[string](tab, fmt.Sprintf(`[...document.querySelectorAll(".card")].find((c) => c.querySelector("bdi").textContent === %q).innerText`, title))
	}
	for title, want := range map[string]string{"Waits": "not before", "Works": "Retry 1/3", "Silent": "Silent since", "Asks": "Blocked", "Dead": "Dead letter"} {
		if text := card(title); !strings.Contains(text, want) {
			t.Errorf("%s shows %q, lacks %q", title, text, want)
		}
	}
	if text := card("Done"); strings.Contains(text, "Retry") {
		t.Errorf("a task that is over shows %q", text)
	}
	if text := card("Waits"); !strings.Contains(text, "Retry 1/3") {
		t.Errorf("a task that waits shows %q", text)
	}
	for need, want := range map[string]int{"retries": 4, "person": 3, "": 6} {
		tab.choose("#byNeed", need)
		if n := eval[int](tab, `document.querySelectorAll(".card").length`); n != want {
			t.Errorf("%q shows %d cards, want %d", need, n, want)
		}
	}
	tab.choose("#byNeed", "")
	for _, scheme := range []string{"light", "dark"} {
		tab.scheme(scheme)
		if bad := eval[[]string](tab, contrast); len(bad) > 0 {
			t.Errorf("%s: hard to read: %q", scheme, bad)
		}
	}
	chain := func(title string) []string {
		tab.card(title)
		defer tab.press(kb.Escape)
		return eval[[]string](tab, `[...document.querySelectorAll("#taskRuns li")].map((li) => (li.ariaCurrent ? "* " : "") + li.innerText.replaceAll("\n", " "))`)
	}
	for title, want := range map[string][]string{
		"Waits": {"devdas, until", "failed: <img", "* Run 3 (next) Retry 1/3, not before"},
		"Works": {"failed: exit code 1 /logs/exec/devdas/1.log", "counts no retry", "* Run 3 (current)"},
		"Dead":  {"Run 1", "* Run 2 (last)"},
	} {
		lines := chain(title)
		for i, part := range want {
			if i >= len(lines) || !strings.Contains(lines[len(lines)-len(want)+i], part) {
				t.Errorf("the runs of %s are %q, lack %q", title, lines, part)
			}
		}
	}
	if got := chain("Asks"); len(got) > 0 || eval[bool](tab, `"hit" in window`) {
		t.Errorf("the runs of a task that has none: %q; or a text became more than text", got)
	}
}

// A task leads to the one of which it is a part, and that one to its parts.
func TestPageParts(t *testing.T) {
	t.Parallel()
	part := func(of pipeline.TaskID) func(*core.Task) { return func(task *core.Task) { task.Parent = of } }
	o := newOffice(t, seed{title: "Whole", status: "dormant", agent: "devdas"}, seed{title: "Part", status: "done", agent: "devdas", alter: part(1)},
		seed{title: "Orphan", status: "dormant", agent: "devdas", alter: part(7)})
	tab := newTab(t)
	tab.open(o.link)
	tab.card("Part")
	tab.has("#taskKin", "Part of")
	tab.click("#taskKin button")
	tab.has("#taskTitle", "Whole")
	tab.has("#taskKin", "Its part")
	tab.click("#taskKin button")
	tab.has("#taskTitle", "Part")
	tab.press(kb.Escape)
	tab.card("Orphan")
	tab.has("#taskKin", "T-00007: not on the board")
}

// Each command that suits a task has a button, and does what the command does. A command
// that needs words asks for them.
func TestPageCommands(t *testing.T) {
	t.Parallel()
	retries := func(task *core.Task) {
		at := time.Now().Add(-time.Hour)
		for n := range 4 {
			task.Runs = append(task.Runs, failedRun(n+1, at.Add(time.Duration(n)*5*time.Minute), core.Failure{Exit: "exit code 1"}))
		}
	}
	o := newOffice(t,
		seed{title: "Dead", status: "failed", agent: "devdas", alter: retries},
		seed{title: "Unwanted", status: "dormant", agent: "devdas"},
		seed{title: "By hand", status: "assigned", agent: "robin"},
		seed{title: "Again", status: "agent_done", agent: "devdas", steps: []string{"x a", "x b"}})
	tab := newTab(t)
	tab.open(o.link)
	buttons := func() string {
		return strings.Join(eval[[]string](tab, `[...document.querySelectorAll("#taskCommands button")].map((b) => b.innerText)`), ", ")
	}
	press := func(name string) {
		t.Helper()
		tab.has("#taskCommands button", name)
		eval[bool](tab, fmt.Sprintf(`([...document.querySelectorAll("#taskCommands button")].find((b) => b.innerText === %q).click(), true)`, name))
	}
	tab.card("Dead")
	if got := buttons(); got != "Cancel …, Requeue, Requeue, all retries again, Dormant …" {
		t.Errorf("a dead letter has the buttons %s", got)
	}
	press("Requeue, all retries again")
	tab.has("#task .notice", "Requeue: done.")
	tab.focus("taskStatus")
	tab.column("assigned", "Dead")
	if task := stateOf(t, o.home, 1); task.Runs.Tries(task.CountFrom) != 0 {
		t.Errorf("the count of failed runs goes on: %d after run %d", task.Runs.Tries(task.CountFrom), task.CountFrom)
	}
	press("Release")
	tab.until("another hand-out", `document.getElementById("taskHistory").innerText.includes("dispatched again")`)
	tab.press(kb.Escape)

	tab.card("Unwanted")
	press("Cancel …")
	tab.focus("commandReason")
	tab.checkTree("a command", "group Commands", "form Cancel: why it is no longer wanted", "textbox Cancel: why it is no longer wanted", "button Cancel", "button Back")
	tab.click("#commandButton")
	if !eval[bool](tab, `!document.getElementById("commandReason").validity.valid`) {
		t.Error("it is cancelled without a reason")
	}
	tab.fill("#commandReason", "nobody needs it")
	tab.click("#commandButton")
	tab.has("#task .notice", "Cancel: done.")
	tab.has("#taskReason", "nobody needs it")
	press("Reopen …")
	tab.focus("commandReason")
	tab.click("#commandButton")
	tab.column("assigned", "Unwanted")
	tab.press(kb.Escape)

	tab.card("By hand")
	tab.has("#taskReviewText", "robin, a person, has it")
	tab.click("#accept")
	tab.column("done", "By hand")

	tab.card("Again")
	tab.click("#reworkOpen")
	tab.fill("#reworkReason", "one more")
	tab.click("#reworkSteps summary")
	tab.fill("#reworkAdd", "c\n\nd")
	tab.click("#reworkDrop li:nth-child(2) input")
	tab.click("#reworkButton")
	tab.column("assigned", "Again")
	if task := stateOf(t, o.home, 4); strings.Join(task.StepTitles(), " ") != "a c d" {
		t.Errorf("its steps are %q", task.StepTitles())
	}
}

// The end of what a run printed is text, short, and from the folder of these logs only.
func TestPageLog(t *testing.T) {
	t.Parallel()
	h := newHome(t, fmt.Sprintf("[agents.runner]\nworkspace = %q\ncommand = [\"true\"]\n", t.TempDir()))
	put(t, filepath.Join(h.LogDir(), "exec", "runner", "now.log"), "what it prints now\n")
	logs := filepath.Join(h.LogDir(), "exec", "devdas")
	outside := filepath.Join(h.Dir, "secrets", "x.log")
	put(t, outside, "a secret\n")
	put(t, filepath.Join(logs, "long.log"), strings.Repeat("an old line\n", 5000)+"\x1b[31m<img src=x onerror=\"window.hit=1\">\xff\nthe last line\n\nexit status 1\n")
	put(t, filepath.Join(logs, "wide.log"), strings.Repeat("wide", 5000))
	put(t, filepath.Join(logs, "empty.log"), "")
	if err := os.Symlink(outside, filepath.Join(logs, "link.log")); err != nil {
		t.Fatal(err)
	}
	var seeds []seed
	add := func(title, path string) {
		seeds = append(seeds, seed{title: title, status: "failed", agent: "devdas", alter: func(task *core.Task) {
			task.Runs = core.Runs{failedRun(1, time.Now().Add(-time.Hour), core.Failure{Exit: "exit status 1", Log: path})}
		}})
	}
	for _, name := range []string{"long", "wide", "empty", "link", "gone"} {
		add(name, filepath.Join(logs, name+".log"))
	}
	add("outside", outside)
	add("above", logs+"/../../../secrets/x.log")
	add("folder", logs)
	add("none", "")
	seeds = append(seeds, seed{title: "running", status: "in_progress", agent: "runner", alter: func(task *core.Task) {
		task.Runs = core.Runs{{Number: 1, Agent: "runner", Began: time.Now()}}
	}})
	plant(t, h, seeds...)
	v := visit(t, h, board.Options{})
	tail := func(title string) *page.Log { return get[page.Detail](v, "/page/task?row="+v.task(title).Row).Log }
	if l := tail("long"); l == nil || l.Run != 1 || strings.Count(l.Text, "\n") != 19 || !strings.HasSuffix(l.Text, "the last line\n\nexit status 1") {
		t.Errorf("the log is %+v", l)
	}
	if l := tail("wide"); l == nil || len(l.Text) != 4096 {
		t.Errorf("the log of one long line has %d bytes", len(l.Text))
	}
	if l := tail("running"); l == nil || l.Text != "what it prints now" {
		t.Errorf("the log of a run that goes on is %+v", l)
	}
	if l := tail("empty"); l == nil || l.Text+l.Error != "" {
		t.Errorf("an empty log is %+v", l)
	}
	for _, title := range []string{"link", "gone", "outside", "above"} {
		if l := tail(title); l == nil || l.Text != "" || l.Error == "" {
			t.Errorf("%s: %+v", title, l)
		}
	}
	for _, title := range []string{"folder", "none"} {
		if l := tail(title); l != nil {
			t.Errorf("%s: %+v", title, l)
		}
	}
	tab := tabOn(t, h, v)
	tab.card("long")
	tab.has("#taskLog", `\u001b[31m<img src=x onerror="window.hit=1">`)
	tab.checkTree("log", "region Last lines of run 1", "heading Last lines of run 1", "heading Runs")
	if eval[bool](tab, `"hit" in window || document.getElementById("taskLog").children.length > 0`) {
		t.Error("what a run printed became more than text")
	}
}

// The page says what each agent is doing as otm agents does, and pauses and resumes it.
// The tasks of one that is left alone are among those that need a person.
func TestPageAgents(t *testing.T) {
	t.Parallel()
	h := newHome(t, fmt.Sprintf("[agents.runner]\nworkspace = %q\ncommand = [\"true\"]\n", t.TempDir()))
	at := time.Now().Add(-time.Hour)
	plant(t, h,
		seed{title: "Held", status: "assigned", agent: "runner"},
		seed{title: "Works", status: "in_progress", agent: "devdas", alter: func(task *core.Task) {
			task.Dispatch = &core.Dispatch{Attempt: 1, Agent: "devdas", At: at, FlippedAt: at, TakenAt: at, TakenBy: core.TakenByNext}
			task.Heard = map[string]core.Heard{"devdas": {At: at.Add(30 * time.Minute)}}
		}})
	do(t, h, core.Command{At: h.Now(), By: core.Component("otm-dispatcher"), Agent: "runner",
		Do: core.JudgeStart{MaxFailures: 1, Over: true, End: &core.StartEnd{Start: core.EndedStart{Key: "k", Via: pipeline.TriggerExec, StartResult: core.StartResult{Ended: at, Exit: "exit status 1"}}}}})
	v := visit(t, h, board.Options{})
	tab := tabOn(t, h, v)
	tab.has(".card.held .stuck", "runner is left alone")
	tab.card("Held")
	tab.has("#taskFacts", "left alone")
	tab.press(kb.Escape)
	tab.click("#healthButton")
	for _, text := range []string{"runner left alone for 1 h", "devdas working for 1 h", "last word 30 min ago", "robin free", "1 in progress"} {
		tab.has("#agents li", text)
	}
	tab.checkTree("agents", "heading Agents", "button Resume runner", "button Pause devdas")
	if first := tab.text("#agents li:first-child b"); first != "runner" {
		t.Errorf("first comes %s", first)
	}
	if bad := eval[[]string](tab, contrast); len(bad) > 0 {
		t.Errorf("hard to read: %q", bad)
	}
	tab.click(`[aria-label="Pause devdas"]`)
	tab.has("#health .notice", "devdas: paused until otm resume devdas")
	tab.has("#agents li", "devdas paused for")
	tab.click(`[aria-label="Resume devdas"]`)
	tab.has("#health .notice", "devdas: was paused by human")
	tab.has("#agents li", "devdas working")
	tab.click(`[aria-label="Resume runner"]`)
	tab.has("#health .notice", "runner: was left alone since")
	tab.until("a card that is not held up", `document.querySelector(".card.held") === null`)
	v.refused(page.Action{Do: "pause", Agent: "robin"}, "robin is a person")
	v.refused(page.Action{Do: "resume", Agent: "nobody"}, `no agent \"nobody\"`)
	eval[bool](tab, `([...document.querySelectorAll("#agents button")].find((b) => b.innerText === "T-00002").click(), true)`)
	tab.has("#taskTitle", "Works")
}
