package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"otm/core"
	"otm/internal/board"
	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/internal/crash/crashtest"
	"otm/internal/leak"
	"otm/pipeline"
)

// chromium is one headless browser for all tests; each has a profile of its
// own in it.
var chromium struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

func TestMain(m *testing.M) {
	os.Exit(leak.Main(withBrowser{m}))
}

// withBrowser are the tests, after which the browser ends.
type withBrowser struct{ *testing.M }

func (w withBrowser) Run() int {
	code := w.M.Run()
	if chromium.stop != nil {
		chromium.stop()
	}
	return code
}

// startChromium finds and starts a browser. OTM_TEST_CHROMIUM=must makes a
// missing one a failure. The headless shell draws no windows of its own: it takes less
// than half of the processor's time.
func startChromium() {
	path := ""
	for _, name := range []string{"chromium-headless-shell", "headless_shell", "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		chromium.err = exec.ErrNotFound
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP board.test 127.0.0.1"))
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(alloc)
	chromium.ctx, chromium.err = ctx, chromedp.Do(ctx)
	chromium.stop = func() {
		stop()
		stopAlloc()
	}
}

// tab is a page of the browser.
type tab struct {
	t   testing.TB
	ctx context.Context
}

// newTab opens a page in a profile without cookies.
func newTab(t testing.TB) *tab {
	t.Helper()
	crashtest.Long(t, "starts a browser")
	chromium.once.Do(startChromium)
	if chromium.err != nil {
		if os.Getenv("OTM_TEST_CHROMIUM") == "must" || chromium.err != exec.ErrNotFound {
			t.Fatalf("start Chromium: %v", chromium.err)
		}
		t.Skip("needs Chromium: apt-get install chromium-headless-shell")
	}
	return openTab(t, chromium.ctx, chromedp.WithNewBrowserContext())
}

// newTabBeside opens another page in the profile of one, with its cookies.
func newTabBeside(beside *tab) *tab {
	beside.t.Helper()
	return openTab(beside.t, beside.ctx)
}

func openTab(t testing.TB, in context.Context, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(in, options...)
	ctx, cancelTime := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(func() {
		cancelTime()
		cancel()
	})
	tab := &tab{t: t, ctx: ctx}
	tab.do(chromedp.Navigate("about:blank"))
	go func() {
		for m, err := range chromedp.Console(ctx) {
			if err != nil {
				return
			}
			if m.IsException() {
				t.Errorf("the page threw: %v", m)
				cancelTime() // what the test waits for does not come
			}
		}
	}()
	return tab
}

// do runs actions one after the other.
func (tab *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	if err := chromedp.Do(tab.ctx, actions...); err != nil {
		tab.t.Fatalf("%v; the page shows:\n%s", err, tab.shown())
	}
}

// shown is all text of the page, for messages.
func (tab *tab) shown() string {
	text, _ := chromedp.Run(tab.ctx, chromedp.Evaluate[string](`document.body.innerText`))
	return text
}

// open goes to an address and waits until the page has drawn itself.
func (tab *tab) open(address string) {
	tab.t.Helper()
	tab.do(chromedp.Navigate(address))
	tab.until("the page to draw itself", `performance.getEntriesByName("otm-painted").length > 0`)
}

// until waits until a JavaScript expression is true.
func (tab *tab) until(what, expression string) {
	tab.t.Helper()
	if !tab.within(expression) {
		tab.t.Fatalf("waited for %s; the page shows:\n%s", what, tab.shown())
	}
}

// within reports whether an expression becomes true.
func (tab *tab) within(expression string) bool {
	tab.t.Helper()
	poll := chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(2*time.Minute))
	for tab.ctx.Err() == nil {
		_, err := chromedp.Run(tab.ctx, poll)
		if err == nil || errors.Is(err, chromedp.ErrPollingTimeout) {
			return err == nil
		}
		if text := err.Error(); !strings.Contains(text, "context") && !strings.Contains(text, "navigated") { // the page was replaced meanwhile
			tab.t.Errorf("wait for %s: %v", expression, err)
			return false
		}
	}
	return false
}

// eval returns the value of a JavaScript expression.
func eval[T any](tab *tab, expression string) T {
	tab.t.Helper()
	v, err := chromedp.Run(tab.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		tab.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// text is the visible text of what a selector finds.
func (tab *tab) text(selector string) string {
	tab.t.Helper()
	return eval[string](tab, fmt.Sprintf(`[...document.querySelectorAll(%q)].map((e) => e.innerText).join("\n")`, selector))
}

// raw calls a method of the browser's own protocol.
func raw[T any](tab *tab, method string, params any) T {
	tab.t.Helper()
	var result T
	tab.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		return target.Call(ctx, method, params, &result)
	}))
	return result
}

// size makes the page as wide and high as a screen.
func (tab *tab) size(width, height int64) {
	tab.t.Helper()
	tab.do(chromedp.EmulateViewport(width, height))
}

// scheme is light or dark.
func (tab *tab) scheme(scheme string) {
	tab.t.Helper()
	type feature struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	raw[struct{}](tab, "Emulation.setEmulatedMedia", map[string]any{"features": []feature{{"prefers-color-scheme", scheme}}})
}

// press presses keys where the focus is, as a person does.
func (tab *tab) press(keys ...string) {
	tab.t.Helper()
	for _, k := range keys {
		tab.do(chromedp.KeyEvent(k))
	}
}

// shortcut presses a key that stands for a character as one event, as a
// keyboard does: what the page does with it, it does instead of typing it.
func (tab *tab) shortcut(key string) {
	tab.t.Helper()
	raw[struct{}](tab, "Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": key, "text": key})
	raw[struct{}](tab, "Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key})
}

// click clicks what a selector finds, once it can be clicked. A notice that comes meanwhile may
// move it away from under the pointer: then it clicks again, as a person does.
func (tab *tab) click(selector string) {
	tab.t.Helper()
	for missed := true; missed; {
		eval[bool](tab, fmt.Sprintf(`(() => {
			window.missed = true;
			document.addEventListener("click", (e) => { if (e.target.closest(%q)) window.missed = false; }, {capture: true, once: true});
			return true;
		})()`, selector))
		tab.do(chromedp.Click(chromedp.CSS(selector)))
		missed = eval[bool](tab, `window.missed === true`) // a new page knows nothing of it
	}
}

// fill types a text into a field that is empty.
func (tab *tab) fill(selector, text string) {
	tab.t.Helper()
	tab.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// choose chooses in a select, as a person does.
func (tab *tab) choose(selector, value string) {
	tab.t.Helper()
	eval[bool](tab, fmt.Sprintf(`(() => {
		const s = document.querySelector(%q);
		s.value = %q;
		s.dispatchEvent(new Event("input", {bubbles: true}));
		s.dispatchEvent(new Event("change", {bubbles: true}));
		return true;
	})()`, selector, value))
}

// has waits until what a selector finds shows a text.
func (tab *tab) has(selector, text string) {
	tab.t.Helper()
	tab.until(fmt.Sprintf("%s to show %q", selector, text),
		fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.innerText.includes(%q))`, selector, text))
}

// column waits until the card of a task stands in a column.
func (tab *tab) column(key, title string) {
	tab.t.Helper()
	tab.has(fmt.Sprintf(`[data-column=%q] .card`, key), title)
}

// card opens the task of this title.
func (tab *tab) card(title string) {
	tab.t.Helper()
	tab.has(".card h3", title)
	eval[bool](tab, fmt.Sprintf(`([...document.querySelectorAll(".card h3 button")].find((b) => b.innerText.includes(%q)).click(), true)`, title))
	tab.until("the task's view", `document.getElementById("task").open`)
}

// whereFocus describes what has the focus.
const whereFocus = `(() => { const e = document.activeElement; return e.id || e.getAttribute("aria-label") || e.innerText || e.tagName })()`

func (tab *tab) focused() string {
	tab.t.Helper()
	return eval[string](tab, whereFocus)
}

// focus waits until what has the focus is described so.
func (tab *tab) focus(want string) {
	tab.t.Helper()
	if !tab.within(fmt.Sprintf(`%s.includes(%q)`, whereFocus, want)) {
		tab.t.Fatalf("the focus is on %q, not on %q; the page shows:\n%s", tab.focused(), want, tab.shown())
	}
}

// seed is a task that stands on the board before anything runs.
type seed struct {
	title, status, agent, priority, project, reason, result string
	steps                                                   []string         // "x " before a title: it is done
	byHand                                                  bool             // a person typed it: it has no id, and is no task yet
	alter                                                   func(*core.Task) // changes the task before it is stored; may be nil
}

// office is a data directory in which everything runs.
type office struct {
	t    testing.TB
	home *Home
	link string
	stop func()
	rows []string // of the seeds
}

// newHome makes a data directory with two agents that look by themselves, and a
// person.
func newHome(t testing.TB, config string) *Home {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "data")
	if _, err := Init(dir); err != nil {
		t.Fatal(err)
	}
	config += "\n[board]\nlisten = \"127.0.0.1:0\"\n[agents.robin]\nkind = \"human\"\n"
	for _, name := range []string{"devdas", "archibald"} {
		ws := filepath.Join(root, name)
		if err := os.Mkdir(ws, 0o700); err != nil {
			t.Fatal(err)
		}
		config += fmt.Sprintf("[agents.%s]\nworkspace = %q\ntrigger = \"none\"\n", name, ws)
	}
	return reopenHome(t, dir, config)
}

// reopenHome opens a data directory with a configuration.
func reopenHome(t testing.TB, dir, config string) *Home {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "otm.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := OpenHome(cli.Streams{Out: io.Discard, Err: io.Discard, In: strings.NewReader(""), Getenv: func(string) string { return "" }}, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// plant puts seeds on the board of a directory in which nothing runs.
func plant(t testing.TB, h *Home, seeds ...seed) (rows []string) {
	t.Helper()
	s, err := boardtest.Open(boardtest.Options{Options: board.Options{Dir: h.boardDir()}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	columns, err := s.Columns(s.ListID())
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]string{}
	for _, c := range columns {
		if column[c.Name] == "" {
			column[c.Name] = c.ID
		}
	}
	counter, err := h.Counter.Counter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer counter.Release()
	for _, sd := range seeds {
		rows = append(rows, plantOne(t, h, s, column, counter.Take, sd))
	}
	return rows
}

func plantOne(t testing.TB, h *Home, s *boardtest.Server, column map[string]string, take func(int) (pipeline.TaskID, error), sd seed) string {
	t.Helper()
	task := core.Task{Title: sd.title, Agent: sd.agent, Priority: pipeline.Priority(cmp.Or(sd.priority, string(pipeline.Normal))), Project: sd.project, Type: pipeline.Action,
		Status: pipeline.Status(sd.status), Reason: sd.reason, Result: sd.result, CreatedAt: h.Now().Add(-time.Hour)}
	if a := h.Config.Agents.Named(sd.agent); a != nil {
		task.Agent = a.Name
	}
	if len(sd.steps) == 0 && !sd.byHand {
		sd.steps = []string{pipeline.DefaultStep} // every task has one
	}
	for i, step := range sd.steps {
		title, done := strings.CutPrefix(step, "x ")
		task.Steps = append(task.Steps, core.Step{ID: i + 1, Title: title, Done: done, Shown: core.StepShown{Title: title, Done: done}})
	}
	task.LastStep = len(task.Steps)
	cells := []boardtest.Cell{boardtest.TextCell(column["Title"], sd.title), boardtest.SelectCell(column["Status"], sd.status)}
	user := board.HumanUser
	if !sd.byHand {
		id, err := take(1)
		if err != nil {
			t.Fatal(err)
		}
		task.ID, user, sd.priority = id, board.BotUser, string(task.Priority)
		cells = append(cells, boardtest.TextCell(column["Task ID"], id.String()), boardtest.SelectCell(column["Type"], "action"),
			boardtest.NumberCell(column["Subtasks remaining"], float64(len(task.Steps)-task.StepsDone())), boardtest.NumberCell(column["Completion"], float64(task.Percent())),
			boardtest.CheckboxCell(column["Completed"], task.Status == pipeline.Done))
	}
	for name, text := range map[string]string{"Project 2": sd.project, "Reason": sd.reason, "Result": sd.result} {
		if text != "" {
			cells = append(cells, boardtest.TextCell(column[name], text))
		}
	}
	for name, option := range map[string]string{"Assignee": sd.agent, "Priority": sd.priority} {
		if option != "" {
			cells = append(cells, boardtest.SelectCell(column[name], option))
		}
	}
	row, err := s.AddRow(user, s.ListID(), cells...)
	if err != nil {
		t.Fatal(err)
	}
	task.RowID = row
	for i := range task.Steps {
		step, status := &task.Steps[i], "new"
		if step.Done {
			status = "done"
		}
		if step.RowID, err = s.AddStep(user, s.ListID(), row, boardtest.TextCell(column["Title"], step.Title), boardtest.SelectCell(column["Status"], status)); err != nil {
			t.Fatal(err)
		}
	}
	if sd.byHand {
		return row
	}
	task.Shown, task.StatusAt, task.StatusBy = task.View(), task.CreatedAt, core.Component("otm-injector")
	if sd.alter != nil {
		sd.alter(&task)
	}
	seedTask(t, h, task, core.OldLine{At: task.CreatedAt, Who: "otm-create", What: "dropped"},
		core.OldLine{At: task.CreatedAt.Add(time.Second), Who: "otm-injector", What: "status", Detail: "new to " + sd.status})
	return row
}

// newOffice starts everything, with tasks on the board.
func newOffice(t testing.TB, seeds ...seed) *office {
	t.Helper()
	h := newHome(t, "")
	o := &office{t: t, home: h}
	if len(seeds) > 0 {
		o.rows = plant(t, h, seeds...)
	}
	o.start()
	return o
}

// start runs otm up until stop, or the end of the test.
func (o *office) start() {
	o.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() { done <- o.home.Up(ctx, func(address string) { ready <- address }) }()
	o.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			o.t.Errorf("otm up ended: %v", err)
		}
	})
	o.t.Cleanup(o.stop)
	select {
	case o.link = <-ready:
	case err := <-done:
		done <- err
		o.t.Fatalf("otm up: %v", err)
	}
}

// page is the address without a code.
func (o *office) page() string {
	address, _, _ := strings.Cut(o.link, "#")
	return address
}

// An empty board says what to do.
func TestPageEmpty(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	tab := newTab(t)
	tab.open(o.link)
	if text := tab.text("#welcome"); !strings.Contains(text, "otm-create --title") {
		t.Errorf("an empty board says %q", text)
	}
}

// tabOn opens the page of a board that is up in a tab of its own.
func tabOn(t *testing.T, h *Home, v *visitor) *tab {
	t.Helper()
	link, err := newPageDoor(h).link(v.address + "/")
	if err != nil {
		t.Fatal(err)
	}
	tab := newTab(t)
	tab.open(link)
	return tab
}
