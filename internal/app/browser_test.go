package app

import (
	"context"
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

	"otm/internal/cli"
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
	code := m.Run()
	if chromium.stop != nil {
		chromium.stop()
	}
	os.Exit(code)
}

// startChromium finds and starts a browser. OTM_TEST_CHROMIUM=must makes a
// missing one a failure.
func startChromium() {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
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
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
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
	t   *testing.T
	ctx context.Context
}

// newTab opens a page in a profile without cookies.
func newTab(t *testing.T) *tab {
	t.Helper()
	chromium.once.Do(startChromium)
	if chromium.err != nil {
		if os.Getenv("OTM_TEST_CHROMIUM") == "must" || chromium.err != exec.ErrNotFound {
			t.Fatalf("start Chromium: %v", chromium.err)
		}
		t.Skip("needs Chromium: apt-get install chromium")
	}
	ctx, cancel := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext())
	ctx, cancelTime := context.WithTimeout(ctx, 60*time.Second)
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
	tab.until("the page to draw itself", `document.documentElement.dataset.ready === "1"`)
}

// until waits until a JavaScript expression is true.
func (tab *tab) until(what, expression string) {
	tab.t.Helper()
	if _, err := chromedp.Run(tab.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(15*time.Second))); err != nil {
		tab.t.Fatalf("waited for %s: %v; the page shows:\n%s", what, err, tab.shown())
	}
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

// office is a data directory in which everything runs.
type office struct {
	t    *testing.T
	home *Home
	link string
}

// newOffice starts everything with two agents that look by themselves, and a
// person.
func newOffice(t *testing.T) *office {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "data")
	if _, err := Init(dir); err != nil {
		t.Fatal(err)
	}
	config := "[board]\nlisten = \"127.0.0.1:0\"\n[agents.robin]\nkind = \"human\"\n"
	for _, name := range []string{"devdas", "archibald"} {
		ws := filepath.Join(root, name)
		if err := os.Mkdir(ws, 0o700); err != nil {
			t.Fatal(err)
		}
		config += fmt.Sprintf("[agents.%s]\nworkspace = %q\ntrigger = \"none\"\n", name, ws)
	}
	if err := os.WriteFile(filepath.Join(dir, "otm.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := OpenHome(cli.Streams{Out: io.Discard, Err: io.Discard, In: strings.NewReader(""), Getenv: func(string) string { return "" }}, dir)
	if err != nil {
		t.Fatal(err)
	}
	o := &office{t: t, home: h}
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() { done <- h.Up(ctx, func(address string) { ready <- address }) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("otm up ended: %v", err)
		}
	})
	select {
	case o.link = <-ready:
	case err := <-done:
		done <- err
		t.Fatalf("otm up: %v", err)
	}
	return o
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
