package app

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"otm/internal/board"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/slacklist"
)

// onBoard is a row as the board has it.
func (o *office) onBoard(row string) pipeline.Row {
	o.t.Helper()
	return (&visitor{t: o.t, home: o.home}).row(row)
}

// said are the lines of a task's history that a person made.
func (o *office) said(id string) []string {
	o.t.Helper()
	return (&visitor{t: o.t, home: o.home}).said(id)
}

// elsewhere is somebody who edits on the board, but not on the page.
func (o *office) elsewhere(row string, cells ...pipeline.Cell) {
	o.t.Helper()
	where, err := findBoard(o.home)
	if err != nil {
		o.t.Fatal(err)
	}
	b, err := slacklist.New(where).Begin(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	defer b.End()
	if err := b.Update(o.t.Context(), pipeline.Change{Row: row, Cells: cells}); err != nil {
		o.t.Fatal(err)
	}
}

// report drops an update, as otm-update does.
func (o *office) report(u drop.Update) {
	o.t.Helper()
	u.ID, u.CreatedAt = pipeline.NewDropID(), o.home.Now()
	if err := o.home.Box.Publish(inbox.TaskUpdates, inbox.NewName(u.CreatedAt, u.ID), u.Encode()); err != nil {
		o.t.Fatal(err)
	}
}

// The cards: where they stand, what they show, and that they can be filtered.
func TestPageCards(t *testing.T) {
	t.Parallel()
	o := newOffice(t,
		seed{title: "Build the login page", status: "in_progress", agent: "devdas", priority: "high", project: "website", steps: []string{"x Create the form", "Add validation"}},
		seed{title: "Fix the backup", status: "blocked", agent: "archibald", reason: "no key"},
		seed{title: "Look at it", status: "agent_done", agent: "devdas"},
		seed{title: "Old", status: "done", agent: "devdas"},
		seed{title: "Later", status: "dormant", agent: "archibald", priority: "batchable"},
		seed{title: "Typed", status: "pending", byHand: true})
	tab := newTab(t)
	tab.open(o.link)
	for _, c := range [][]string{
		{"in_progress", "T-00001", "Build the login page", "devdas", "high", "website", "Create the form (done)", "Add validation", "1/2", "1 h"},
		{"blocked", "T-00002", "Fix the backup", "archibald", "normal", "no key"},
		{"agent_done", "T-00003", "Look at it"}, {"done", "T-00004", "Old"},
		{"other", "T-00005", "Later", "batchable", "Dormant"}, {"pending", "no id yet", "Typed", "nobody"},
	} {
		text := eval[string](tab, fmt.Sprintf(`document.querySelector('[data-column=%q] ul').textContent`, c[0]))
		for _, want := range c[1:] {
			if !strings.Contains(text, want) {
				t.Errorf("column %s shows %q, lacks %q", c[0], text, want)
			}
		}
	}
	if title := eval[string](tab, `document.title`); title != "(1) OTM board" {
		t.Errorf("title %q", title)
	}
	tab.has("#foot", "rows")
	cards := func() int {
		return eval[int](tab, `document.querySelectorAll(".card").length`)
	}
	for _, c := range []struct {
		agent, priority, text string
		want                  int
	}{
		{"devdas", "", "", 3}, {"", "high", "", 1}, {"", "normal", "", 4}, {"devdas", "normal", "", 2},
		{"", "", "validation", 1}, {"", "", "KEY", 1}, {"", "", "t-00004", 1}, {"", "", "website login", 1}, {"archibald", "", "login", 0}, {"", "", "", 6},
	} {
		tab.choose("#byAgent", c.agent)
		tab.choose("#byPriority", c.priority)
		tab.choose("#find", c.text)
		if got := cards(); got != c.want {
			t.Errorf("%+v: %d cards", c, got)
		}
	}
	tab.fill("#find", "nothing like it")
	tab.has("#matches", "0 of 6 tasks")
	tab.click("#clear")
	if cards() != 6 || tab.focused() != "find" {
		t.Errorf("%d cards, focus on %s", cards(), tab.focused())
	}
}

// A person adds a task, and it takes the way of every task; its view shows
// each thing that happened to it, live.
func TestPageLifeOfATask(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	tab := newTab(t)
	tab.open(o.link)
	tab.click("#newButton")
	tab.fill(`[name="title"]`, "Say hello")
	tab.choose(`[name="agent"]`, "devdas")
	tab.choose(`[name="priority"]`, "high")
	tab.fill(`[name="project"]`, "greetings")
	tab.fill(`[name="steps"]`, "Open the door\nSay it")
	tab.click("#createSubmit")
	tab.has("#notice", "T-00001 is dropped")
	tab.column("assigned", "Say hello")
	tab.card("Say hello")
	tab.has("#taskWhyText", "dispatched to devdas")
	for _, what := range []string{"dropped", "new to assigned"} {
		tab.has("#taskHistory", what)
	}
	if err := takeNext(t.Context(), o.home, o.home.Config.Agents.Named("devdas"), false); err != nil {
		t.Fatal(err)
	}
	tab.has("#taskHistory", "to in_progress")
	o.report(drop.Update{TaskID: 1, StepsDone: []string{"1"}})
	tab.has("#stepsCount", "1 of 2")
	o.report(drop.Update{TaskID: 1, StepsDone: []string{"2"}, Result: "said"})
	tab.has("#taskReviewText", "devdas says that it is done")
	tab.has("#taskResult", "said")
	history := eval[[]string](tab, `[...document.querySelectorAll("#taskHistory li")].map((li) => li.innerText)`)
	for _, line := range history {
		if len(strings.Split(strings.TrimSpace(line), "\n")) < 3 {
			t.Errorf("a line without time, who or what: %q", line)
		}
	}
	tab.click("#accept")
	tab.column("done", "Say hello")
	tab.has("#notice", "Accepted")
	row := eval[string](tab, `document.querySelector(".card").dataset.row`)
	if r := o.onBoard(row); r.Status != pipeline.Done || !r.Checked {
		t.Errorf("row %+v", r)
	}
	if said := o.said("T-00001"); !slices.Contains(said, "changed status: agent_done to done") {
		t.Errorf("the history says %q", said)
	}
}

// Ticks, status, assignee and priority.
func TestPageEditsInBrowser(t *testing.T) {
	t.Parallel()
	o := newOffice(t, seed{title: "One", status: "dormant", agent: "devdas", steps: []string{"a", "b"}})
	tab := newTab(t)
	tab.open(o.link)
	tab.card("One")
	tab.click("#taskSteps li:nth-child(2) input")
	tab.has("#task .notice", "Step ticked.")
	tab.has("#stepsCount", "1 of 2")
	if eval[bool](tab, `document.getElementById("editButtons").checkVisibility()`) {
		t.Error("there is something to save although nothing was chosen")
	}
	tab.choose("#taskStatus", "blocked")
	tab.choose("#taskPriority", "critical")
	tab.click("#undo")
	if got := eval[string](tab, `document.getElementById("taskStatus").value`); got != "dormant" {
		t.Errorf("undone to %q", got)
	}
	tab.choose("#taskStatus", "blocked")
	tab.choose("#taskAgent", "robin")
	tab.choose("#taskPriority", "critical")
	tab.click(`#edit [type="submit"]`)
	tab.has("#task .notice", "Saved.")
	tab.column("blocked", "One")
	tab.has(".card .agent", "robin")
	tab.has(".card .chip", "critical")
	r := o.onBoard(o.rows[0])
	if r.Status != pipeline.Blocked || r.Assignee != "robin" || r.Priority != pipeline.Critical {
		t.Errorf("row %+v", r)
	}
	if said := o.said("T-00001"); len(said) != 4 {
		t.Errorf("the history says %q", said)
	}
}

// What is at agent_done goes back with a reason, its ticks kept, and is handed
// out again.
func TestPageSendsBack(t *testing.T) {
	t.Parallel()
	o := newOffice(t, seed{title: "One", status: "agent_done", agent: "devdas", steps: []string{"x a", "x b"}},
		seed{title: "Two", status: "agent_done", agent: "devdas"})
	tab := newTab(t)
	tab.open(o.link)
	tab.card("Two")
	tab.click("#reworkOpen")
	tab.fill("#reworkReason", "Not what was asked for")
	tab.click("#rejectButton")
	tab.has("#notice", "Rejected")
	tab.column("other", "Two")
	tab.card("One")
	tab.click("#reworkOpen")
	tab.click(`#reworkForm [type="submit"]`)
	if !eval[bool](tab, `document.getElementById("task").open && !document.getElementById("reworkReason").validity.valid`) {
		t.Error("it goes back without a reason")
	}
	tab.fill("#reworkReason", "The tests are missing")
	tab.click(`#reworkForm [type="submit"]`)
	tab.column("assigned", "The tests are missing")
	tab.has(".card .progress", "2/2")
	if said := o.said("T-00001"); !slices.Contains(said, "sent back: The tests are missing") {
		t.Errorf("the history says %q", said)
	}
}

// A person writes a message on a task and reads the thread. What is typed and not sent
// stays with its task, and whatever a message says, it is text.
func TestPageMessagesInBrowser(t *testing.T) {
	t.Parallel()
	o := newOffice(t, seed{title: "One", status: "in_progress", agent: "devdas", steps: []string{"a"}}, seed{title: "Two", status: "done", agent: "devdas", steps: []string{"x a"}})
	tab := newTab(t)
	tab.open(o.link)
	tab.card("One")
	tab.fill("#sayText", `<img src=x onerror="window.hit=1">`)
	tab.click("#sayButton")
	tab.has("#taskThread", "human")
	tab.has("#taskThread", `said: [NOTE] <img src=x onerror="window.hit=1">`)
	tab.until("an empty field", `document.getElementById("sayText").value === ""`)
	half := 50
	o.report(drop.Update{TaskID: 1, Message: pipeline.Message{Text: "half of it", Percent: &half}})
	tab.has("#taskThread", "said: [PROGRESS] half of it (50%)")
	tab.has("#taskWhyText", "half of it (50%)")
	tab.fill("#sayText", "not sent")
	tab.press(kb.Escape)
	tab.card("Two")
	if eval[bool](tab, `document.getElementById("sayForm").checkVisibility() || document.getElementById("taskThread").children.length > 0`) {
		t.Error("a task that is over takes messages, or shows another's")
	}
	tab.press(kb.Escape)
	tab.card("One")
	if got := eval[string](tab, `document.getElementById("sayText").value`); got != "not sent" {
		t.Errorf("the field holds %q", got)
	}
	if eval[bool](tab, `"hit" in window`) {
		t.Error("a message became more than text")
	}
}

// C9: a blocked agent's question could not be answered on the page. The answer
// goes back with the task, the next otm next gives it as a person's words, and
// the history has it with its author.
func TestC9AnswerInBrowser(t *testing.T) {
	t.Parallel()
	o := newOffice(t, seed{title: "One", status: "blocked", agent: "devdas", reason: "Which colour?", steps: []string{"x a", "b"}})
	tab := newTab(t)
	tab.open(o.link)
	tab.card("One")
	tab.has("#taskWhyText", "Which colour?")
	tab.has("#taskReviewText", "devdas waits for an answer")
	if n := eval[int](tab, `document.getElementById("task").innerText.split("Which colour?").length - 1`); n != 1 {
		t.Errorf("the question stands %d times in the task's view:\n%s", n, tab.text("#task"))
	}
	if eval[bool](tab, `document.getElementById("accept").checkVisibility()`) {
		t.Error("a blocked task can be accepted")
	}
	tab.fill("#reworkReason", "Green, as the logo")
	tab.click("#reworkButton")
	tab.has("#notice", "with your words")
	tab.column("assigned", "Green, as the logo")
	if said := o.said("T-00001"); !slices.Equal(said, []string{"changed status: blocked to new", "answered: Green, as the logo"}) {
		t.Errorf("the history says %q", said)
	}
	var out bytes.Buffer
	o.home.Out = &out
	if err := takeNext(t.Context(), o.home, o.home.Config.Agents.Named("devdas"), false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "You asked: Which colour?\nAnswer: Green, as the logo\n") {
		t.Errorf("otm next prints\n%s", &out)
	}
}

// The health of the components, and the failed files with a retry.
func TestPageHealth(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	tab := newTab(t)
	tab.open(o.link)
	tab.has("#healthText", "All well")
	o.report(drop.Update{TaskID: 7, StepsDone: []string{"1"}})
	name := "20260314T082019.000000000Z-x.json"
	put(t, filepath.Join(o.home.Dir, inbox.FailedDir, name), `{"id":"00000000-0000-4000-8000-000000000001","taskId":"T-00009","title":"Again","agent":"devdas","createdAt":"2026-03-14T08:20:19Z","_result":{"at":"2026-03-14T08:20:19Z","inbox":"new-tasks","attempts":1,"error":"it rained","class":"rejected","hint":"wait"}}`)
	tab.has("#healthText", "1 problem")
	tab.click("#healthButton")
	tab.has("#problems", "1 drop failed")
	for _, id := range []string{"otm-injector green", "otm-dispatcher green", "otm-completion-detector green"} {
		tab.has("#components", id)
	}
	for _, part := range []string{"T-00009: it rained", name, "rejected", "wait"} {
		tab.has("#failed", part)
	}
	tab.has("#room", "1 report in the inbox")
	tab.click("#failed button")
	tab.has("#health .notice", "Put back")
	tab.has("#failed", "None.")
	if f := tab.focused(); f != "failedHeading" {
		t.Errorf("the focus is on %s", f)
	}
	tab.press(kb.Escape)
	tab.column("assigned", "Again")
	tab.has("#healthText", "All well")
}

// Everything by keyboard alone: sign in, find, go from card to card, tick,
// change, send back, accept, and the focus is where one expects it.
func TestPageKeyboard(t *testing.T) {
	t.Parallel()
	o := newOffice(t,
		seed{title: "Alpha", status: "agent_done", agent: "devdas", priority: "critical", steps: []string{"x a", "b"}},
		seed{title: "Beta", status: "agent_done", agent: "devdas"},
		seed{title: "Gamma", status: "blocked", agent: "devdas"})
	tab := newTab(t)
	tab.open(o.link)
	tab.press(kb.Tab)
	if f := tab.focused(); f != "Skip to the tasks" {
		t.Fatalf("first comes %q", f)
	}
	tab.press(kb.Enter, kb.Tab, kb.Tab) // the columns, their first card
	step := func(key, want string) {
		t.Helper()
		if key != "" {
			tab.press(key)
		}
		tab.focus(want)
	}
	eval[bool](tab, `(document.querySelector(".card h3 button").focus(), true)`)
	step("", "Gamma")
	step(kb.ArrowRight, "Alpha")
	step(kb.ArrowDown, "Beta")
	step(kb.ArrowLeft, "Gamma")
	step(kb.ArrowRight, "Alpha")
	step(kb.End, "Beta")
	step(kb.Home, "Alpha")
	// The view of the first: tick its second step.
	tab.press(kb.Enter)
	tab.has("#taskTitle", "Alpha")
	for tab.focused() != "taskPriority" {
		tab.press(kb.Tab)
	}
	tab.press(kb.Tab, kb.Tab, " ")
	tab.has("#stepsCount", "2 of 2")
	// Change its priority: nothing is written until it is saved.
	for tab.focused() != "taskPriority" {
		tab.do(chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift)))
	}
	tab.press(kb.ArrowDown)
	if r := o.onBoard(o.rows[0]); r.Priority != pipeline.Critical {
		t.Errorf("an arrow key changed the priority to %s", r.Priority)
	}
	tab.press(kb.Tab)
	step("", "Save")
	tab.press(kb.Enter)
	tab.has("#task .notice", "Saved.")
	step("", "taskStatus")
	tab.press(kb.Escape)
	step("", "Alpha")
	// Approve it.
	tab.press(kb.Enter)
	tab.has("#taskReviewText", "says that it is done")
	step(kb.Tab, "accept")
	tab.press(kb.Enter)
	tab.column("done", "Alpha")
	step("", "Alpha") // in its new column
	// Send the other back.
	step(kb.ArrowLeft, "Beta")
	tab.press(kb.Enter)
	step(kb.Tab, "accept")
	step(kb.Tab, "reworkOpen")
	step(kb.Enter, "reworkReason")
	tab.press("n", "o", "t", " ", "/", "y", "e", "t")
	step(kb.Tab, "Add or remove steps")
	step(kb.Tab, "reworkButton")
	tab.press(kb.Enter)
	tab.column("assigned", "not /yet")
	step("", "Beta") // in its new column; until the answer has closed its view, keys belong to that
	// A new one, and to find it.
	tab.shortcut("n")
	tab.until("the dialog", `document.getElementById("create").open`)
	tab.press("D", "e", "l", "t", "a", kb.Enter)
	tab.has("#notice", "is dropped")
	step("", "Beta") // where it was before
	tab.column("assigned", "Delta")
	tab.shortcut("/")
	step("", "find")
	tab.press("d", "e", "l")
	tab.has("#matches", "1 of 4 tasks")
	tab.press(kb.Escape)
	tab.until("all tasks", `document.querySelectorAll(".card").length === 4`)
}

// Done tasks do not fill the page: the newest are shown, and all on demand.
func TestPageShowsAll(t *testing.T) {
	t.Parallel()
	seeds := make([]seed, 40)
	for i := range seeds {
		seeds[i] = seed{title: fmt.Sprint("Old ", i), status: "done", agent: "devdas"}
	}
	o := newOffice(t, seeds...)
	tab := newTab(t)
	tab.open(o.link)
	count := func() int { return eval[int](tab, `document.querySelectorAll("[data-column=done] .card").length`) }
	if n := count(); n != 25 {
		t.Errorf("%d of 40 are shown", n)
	}
	tab.has("[data-column=done] h2", "40")
	tab.click("[data-column=done] .all")
	if n := count(); n != 40 {
		t.Errorf("%d of all 40 are shown", n)
	}
	if !eval[bool](tab, `document.activeElement.closest(".card") === document.querySelectorAll(".card")[25]`) {
		t.Errorf("the focus is on %s", tab.focused())
	}
}

// The address of a task leads to it, and so does a permalink of the list.
func TestPageAddressOfATask(t *testing.T) {
	t.Parallel()
	o := newOffice(t, seed{title: "One", status: "dormant", agent: "devdas"}, seed{title: "Two", status: "pending", agent: "devdas"})
	tab := newTab(t)
	tab.open(o.link)
	tab.card("Two")
	if hash := eval[string](tab, `location.hash`); hash != "#T-00002" {
		t.Errorf("the address of the open task ends in %q", hash)
	}
	other := newTabBeside(tab)
	other.open(o.page() + "#T-00001")
	other.has("#taskTitle", "One")
	other.open(o.page() + "lists/T0OTM/" + "F0?record_id=" + o.rows[1])
	other.has("#taskTitle", "Two")
	other.open(o.page() + "#T-00099") // it was archived, or never was
	other.has("body > .notice", "otm show T-00099")
}

// Where nobody is configured, the page says where to name somebody.
func TestPageNobody(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	o := &office{t: t, home: reopenHome(t, h.Dir, "[board]\nlisten = \"127.0.0.1:0\"\n")}
	o.start()
	tab := newTab(t)
	tab.open(o.link)
	tab.has("#welcome", filepath.Join(h.Dir, "otm.toml"))
	// C18: it said "All well" although nothing could be handed out.
	tab.has("#healthText", "1 problem")
	tab.until("the problem", `document.getElementById("problems").textContent.includes("no agent is configured")`)
	tab.click("#newButton")
	tab.fill(`[name="title"]`, "For somebody")
	tab.fill(`[name="agentName"]`, "somebody")
	tab.click("#createSubmit")
	tab.column("new", "For somebody")
	tab.card("For somebody")
	tab.has("#taskWhyText", "unknown agent")
}

// With a Slack List the same page shows the shared snapshot, and is live.
func TestPageOfSlackListInBrowser(t *testing.T) {
	t.Parallel()
	h, b := slackHome(t)
	o := &office{t: t, home: h}
	row, _ := slackTask(t, h, b, "On Slack", pipeline.AgentDone)
	o.start()
	tab := newTab(t)
	tab.open(o.link)
	tab.column("agent_done", "On Slack")
	tab.has("#foot", "list read")
	tab.card("On Slack")
	tab.click("#accept")
	tab.column("done", "On Slack")
	for { // the page shows the task before the list does
		r := rowOf(t, slacklist.Options{Dir: h.Dir, URL: b.URL, ListID: b.ListID, Token: b.Token}, row)
		if r.Status == pipeline.Done && r.Checked {
			break
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("row %+v", r)
		case <-time.After(20 * time.Millisecond):
		}
	}
	if _, err := os.Stat(filepath.Join(h.Dir, "board", "board.db")); err == nil {
		t.Error("an embedded board was made")
	}
}

// A list that is full says so.
func TestPageFullList(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	plant(t, h, seed{title: "One", status: "dormant", agent: "devdas", steps: []string{"a", "b"}})
	v := visit(t, h, board.Options{RowLimit: 3})
	tab := tabOn(t, h, v)
	tab.has("#foot .tight", "3 of 3 rows")
	tab.until("the problem", `document.getElementById("problems").textContent.includes("the list is full (3 of 3 rows)")`)
}
