package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"otm/heartbeat"
	"otm/internal/explain"
	"otm/internal/page"
	"otm/internal/view"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// What others do shows on the page, is announced, and takes nothing out of
// anybody's hands: not the focus, not a text that is being typed, not a choice
// that was made or is being made.
func TestPageLive(t *testing.T) {
	t.Parallel()
	o := newOffice(t,
		seed{title: "One", status: "agent_done", agent: "devdas", steps: []string{"x a", "x b"}},
		seed{title: "Two", status: "dormant", agent: "devdas"})
	tab := newTab(t)
	tab.open(o.link)
	status := func(s pipeline.Status) pipeline.Cell {
		return pipeline.Cell{Field: pipeline.FieldStatus, Text: string(s)}
	}
	priority := func(p pipeline.Priority) pipeline.Cell {
		return pipeline.Cell{Field: pipeline.FieldPriority, Text: string(p)}
	}

	// A card that moves takes the focus with it.
	eval[bool](tab, `([...document.querySelectorAll(".card h3 button")].find((b) => b.innerText.includes("Two")).focus(), true)`)
	o.elsewhere(o.rows[1], status(pipeline.Blocked))
	tab.column("blocked", "Two")
	if f := tab.focused(); !strings.Contains(f, "Two") {
		t.Errorf("the focus is on %q", f)
	}
	tab.has("body > .announce", "T-00002, Two: Blocked")

	// A reason that is being typed stays, with the caret, also when somebody
	// else is faster.
	tab.card("One")
	tab.click("#reworkOpen")
	tab.fill("#reworkReason", "the tests")
	o.elsewhere(o.rows[0], priority(pipeline.Critical))
	tab.has(".card .chip", "critical")
	tab.press(" ", "fail")
	o.elsewhere(o.rows[0], status(pipeline.Done))
	tab.has("#taskReviewText", "It is Done by now")
	tab.press("!")
	if got := eval[string](tab, `document.getElementById("reworkReason").value`); got != "the tests fail!" || tab.focused() != "reworkReason" {
		t.Errorf("typed %q, focus on %s", got, tab.focused())
	}
	tab.click(`#reworkForm [type="submit"]`)
	tab.has("#task .notice", "it is done by now")
	// And it is still there when the task is opened again.
	tab.press(kb.Escape)
	tab.card("One")
	if got := eval[string](tab, `document.getElementById("reworkReason").value`); got != "the tests fail!" {
		t.Errorf("the draft is %q", got)
	}
	tab.press(kb.Escape)

	// A choice that was made and not saved stays; the others follow the board.
	tab.card("Two")
	tab.choose("#taskStatus", "dormant")
	o.elsewhere(o.rows[1], priority(pipeline.Low), status(pipeline.Cancelled))
	tab.until("the priority", `document.getElementById("taskPriority").value === "low"`)
	if got := eval[string](tab, `document.getElementById("taskStatus").value`); got != "dormant" {
		t.Errorf("the choice became %q", got)
	}
	tab.click("#undo")
	tab.until("the status of the board", `document.getElementById("taskStatus").value === "cancelled"`)
	// One that is open stays open.
	tab.click("#taskPriority")
	tab.until("the select to open", `document.getElementById("taskPriority").matches(":open")`)
	o.elsewhere(o.rows[1], priority(pipeline.High))
	tab.has(`[data-column="other"] .chip`, "high")
	if !eval[bool](tab, `document.getElementById("taskPriority").matches(":open")`) {
		t.Error("the select was closed")
	}
	tab.press(kb.Escape)

	// The row goes: the view says so and stays.
	where, err := findBoard(o.home)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, where.URL+"slackLists.items.deleteMultiple", strings.NewReader("list_id="+where.ListID+"&ids="+url.QueryEscape(`["`+o.rows[1]+`"]`)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+where.Token)
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	w.Body.Close()
	tab.has("#task .notice", "no longer on the board. What became of it: otm show T-")
	tab.press(kb.Escape)
	tab.until("the view to close", `!document.getElementById("task").open`)
}

// The board is killed while the page is open: the page says so, keeps what is
// typed, and goes on when the board is back and the person has signed in again.
func TestPageBoardKilled(t *testing.T) {
	t.Parallel()
	o := newOffice(t, seed{title: "One", status: "agent_done", agent: "devdas"})
	tab := newTab(t)
	tab.open(o.link)
	tab.card("One")
	tab.click("#reworkOpen")
	tab.fill("#reworkReason", "typed before")
	address := strings.TrimSuffix(strings.TrimPrefix(o.page(), "http://"), "/")
	o.stop()
	tab.has("#task .notice", "Not connected")
	tab.click(`#reworkForm [type="submit"]`)
	tab.has("#task .notice", "the board does not answer")
	plant(t, o.home, seed{title: "Made meanwhile", status: "dormant", agent: "devdas"})
	config := strings.Replace(readFile(t, filepath.Join(o.home.Dir, "otm.toml")), "127.0.0.1:0", address, 1)
	o.home = reopenHome(t, o.home.Dir, config)
	o.start()
	if got := strings.TrimSuffix(strings.TrimPrefix(o.page(), "http://"), "/"); got != address {
		t.Skipf("the port was taken by somebody else: %s", got)
	}
	tab.until("the page to be locked", `!document.getElementById("locked").hidden`)
	tab.do(chromedp.Navigate(o.link)) // only what stands behind # changes
	tab.column("other", "Made meanwhile")
	tab.until("the connection", `document.getElementById("connection").hidden`)
	tab.card("One")
	tab.click(`#reworkForm [type="submit"]`)
	tab.column("assigned", "typed before")
}

// brittle is a source that fails when it is told to.
type brittle struct {
	mu    sync.Mutex // guards what follows
	err   error
	title string
}

func (b *brittle) State(context.Context) (*page.State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return &page.State{
		Rest: page.Rest{
			Statuses: []pipeline.Status{"new"}, Priorities: []pipeline.Priority{"normal"}, Types: []pipeline.Type{"action"}, Live: true,
			Summary: view.Summary{Inbox: map[inbox.Kind]int{}, Health: heartbeat.Green, Findings: []explain.Told{}, Components: []view.ComponentSummary{}, Agents: []view.AgentSummary{}, Reasons: []view.Reason{}},
		},
		Tasks: []view.Card{{Row: "Rec1", TaskID: 1, Title: b.title, Status: "new", Steps: []view.Step{}}},
	}, b.err
}

func (b *brittle) Detail(context.Context, string) (*page.Detail, error) {
	return &page.Detail{Why: "because"}, nil
}

func (b *brittle) Do(context.Context, page.Action) (*page.Answer, error) { return nil, nil }

func (b *brittle) set(title string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.title, b.err = title, err
}

// serveBrittle serves a source that fails when it is told to; change tells the
// pages to look.
func serveBrittle(t *testing.T) (b *brittle, change func(), newLink func() string) {
	t.Helper()
	b = &brittle{title: "One"}
	dir := filepath.Join(t.TempDir(), "page")
	s := page.New(page.Options{Source: b, Dir: dir, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	changed := make(chan struct{}, 1)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, changed) }()
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		web.CloseClientConnections() // event streams do not end by themselves
		web.Close()
		stop()
		<-done
	})
	return b, func() { changed <- struct{}{} }, func() string {
		code, err := page.NewLink(dir, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return web.URL + "/#code=" + code
	}
}

// A board that cannot be read: the page says why, and goes on by itself.
func TestPageTrouble(t *testing.T) {
	t.Parallel()
	b, change, link := serveBrittle(t)
	tab := newTab(t)
	tab.open(link())
	b.set("Two", errors.New("disk on fire"))
	change()
	tab.has("#connection", "disk on fire")
	// One that comes meanwhile tries again until there is something to see.
	late := newTab(t)
	late.do(chromedp.Navigate(link()))
	late.has("#connection", "disk on fire")
	b.set("Three", nil)
	change()
	tab.column("new", "Three")
	tab.until("the trouble to end", `document.getElementById("connection").hidden`)
	late.column("new", "Three")
}

// A browser holds six connections to one server: pages that nobody looks at
// give theirs back, so that the seventh works, and catch up when seen.
func TestPageManyTabs(t *testing.T) {
	t.Parallel()
	b, change, link := serveBrittle(t)
	first := newTab(t)
	first.open(link())
	hide := func(tab *tab, hidden bool) {
		eval[bool](tab, `(Object.defineProperty(document, "hidden", {value: `+map[bool]string{true: "true", false: "false"}[hidden]+`, configurable: true}), document.dispatchEvent(new Event("visibilitychange")), true)`)
	}
	tabs := []*tab{first}
	for range 7 {
		hide(tabs[len(tabs)-1], true)
		next := newTabBeside(first)
		next.open(strings.SplitN(link(), "#", 2)[0])
		tabs = append(tabs, next)
	}
	b.set("Two", nil)
	change()
	tabs[7].column("new", "Two")
	hide(tabs[7], true)
	hide(first, false)
	first.column("new", "Two")
}

// tunnel passes connections on to a server until it hangs: then it keeps them
// open and passes nothing on, like a process that was stopped.
type tunnel struct {
	listener net.Listener
	hung     atomic.Bool
}

func newTunnel(t *testing.T, to string) *tunnel {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tn := &tunnel{listener: listener}
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		listener.Close()
		wg.Wait()
	})
	pipe := func(from, to net.Conn) {
		defer to.Close()
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			if tn.hung.Load() {
				continue // nothing arrives
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	wg.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			context.AfterFunc(ctx, func() { near.Close(); far.Close() })
			wg.Go(func() { pipe(near, far) })
			wg.Go(func() { pipe(far, near) })
		}
	})
	return tn
}

// C25: the server hung (a stopped process, a tunnel without a far end), and the
// page went on to say "Live" and "All well" for good. It notices the silence,
// says so, and goes on when the server speaks again.
func TestC25ServerHangs(t *testing.T) {
	t.Parallel()
	b, change, link := serveBrittle(t)
	address, code, _ := strings.Cut(strings.TrimPrefix(link(), "http://"), "/")
	tn := newTunnel(t, address)
	tab := newTab(t)
	tab.open("http://" + tn.listener.Addr().String() + "/" + code)
	tab.has("#live", "Live")
	tab.has("#healthText", "All well")
	tn.hung.Store(true)
	tab.has("#connection", "Not connected")
	tab.has("#healthText", "Not connected")
	if live := tab.text("#live"); live != "" {
		t.Errorf("the foot says %q", live)
	}
	tn.hung.Store(false)
	b.set("Two", nil)
	change()
	tab.column("new", "Two")
	tab.until("the connection", `document.getElementById("connection").hidden`)
	tab.has("#live", "Live")
	tab.has("#healthText", "All well")
}
