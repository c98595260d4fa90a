package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"otm/internal/page"
	"otm/internal/safe"
	"otm/pipeline"
)

func readFile(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A link works once and for a minute; a stolen one leads to a locked page. The
// code leaves the address at once, and no cookie is set.
func TestPageStolenLink(t *testing.T) {
	t.Parallel()
	o := newOffice(t, seed{title: "Secret", status: "dormant", agent: "devdas"})
	owner, thief := newTab(t), newTab(t)
	owner.open(o.link)
	owner.column("other", "Secret")
	if address := eval[string](owner, `location.href + document.cookie`); strings.Contains(address, "code") || !strings.HasSuffix(address, "/") {
		t.Errorf("the page can see %q", address)
	}
	locked := func(what, link string) {
		t.Helper()
		thief.do(chromedp.Navigate("about:blank"))
		thief.open(link)
		thief.until("the page to be locked", `!document.getElementById("locked").hidden`)
		thief.has("#locked", "otm board --link")
		if text := eval[string](thief, `document.body.textContent`); strings.Contains(text, "Secret") {
			t.Errorf("%s: the page shows %q", what, text)
		}
	}
	locked("used twice", o.link)
	old, err := page.NewLink(newPageDoor(o.home).dir(), time.Now().Add(-page.LinkLife-time.Second))
	if err != nil {
		t.Fatal(err)
	}
	locked("too old", o.page()+"#code="+old)
	thief.has("#lockedText", "older than a minute")
	locked("invented", o.page()+"#code=abc")
	locked("none", o.page())
	// A good one, opened where the door is locked, opens it: only what stands
	// behind # changes, so the page is not loaded anew.
	good, err := newPageDoor(o.home).link(o.page())
	if err != nil {
		t.Fatal(err)
	}
	thief.do(chromedp.Navigate(good))
	thief.column("other", "Secret")
}

// Whatever a title says, it is text.
func TestPageHostileText(t *testing.T) {
	t.Parallel()
	evil := []string{
		`<img src=x onerror="window.hit=1">`, `<script>window.hit=1</script>`, `"><svg onload=window.hit=1>`, `{{window.hit=1}}`, `javascript:window.hit=1`,
		"invoice\u202efdp.exe", "\u2066\u2067isolate", "\x1b[31mred\x07", "a\x01b", "\u0627\u0644\u0639\u0631\u0628\u064a\u0629", strings.Repeat("\u0301", 50) + "zalgo", strings.Repeat("W", 500),
		"</title></style><!--", "\ud7ff\U0010ffff", "zero\u200bwidth\ufeff\u200e\u00ad", "ad\u200cmin\u200d", "👩\u200d🚀\u200d\u200d ❤\ufe0f\ufe01", "می\u200cخواهم क्\u200dष \u0600١",
		"🏴\U000e0067\U000e007f \u3164",
	}
	var seeds []seed
	for _, e := range evil {
		seeds = append(seeds, seed{title: e, status: "blocked", agent: "devdas", project: e, reason: e, result: e, steps: []string{e}})
	}
	o := newOffice(t, seeds...)
	put(t, filepath.Join(o.home.Dir, "failed", "20260314T082019.000000000Z-<b>.json"), `{"_result":{"inbox":"new-tasks","error":"<img src=x onerror=window.hit=1>","class":"invalid","hint":"<b>"}}`)
	tab := newTab(t)
	tab.open(o.link)
	for _, s := range seeds {
		tab.until(fmt.Sprintf("a card that says %q", s.title), fmt.Sprintf(`[...document.querySelectorAll(".card h3 bdi")].some((e) => e.textContent === %s)`, shownAs(t, s.title)))
	}
	tab.card("onerror")
	tab.has("#taskHistory", "dropped")
	tab.press(kb.Escape)
	tab.click("#healthButton")
	tab.has("#failed", "onerror=window.hit=1")
	if eval[bool](tab, `"hit" in window || document.querySelector("main img, main script, main svg, dialog img, dialog b b") !== null`) {
		t.Error("a text became more than text")
	}
	if eval[bool](tab, `/[\u202a-\u202e\u2066-\u2069\u0007\u001b]/.test(document.body.textContent)`) {
		t.Error("a character that acts on others stands on the page")
	}
	if wide := eval[int](tab, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
		t.Errorf("the page is %d px too wide", wide)
	}
	// What would make markup of text is refused by the browser itself.
	if !eval[bool](tab, `(() => { try { document.body.innerHTML = "<b>"; return false } catch { return true } })()`) {
		t.Error("the page may make markup of text")
	}
}

// shownAs is how a text is shown, as JavaScript writes it.
func shownAs(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	for _, r := range text {
		if r < ' ' || r == 0x7f {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	quoted, err := json.Marshal(strings.ReplaceAll(safe.Escape(b.String()), `\U000`, `\u`)) // as on a terminal
	if err != nil {
		t.Fatal(err)
	}
	return string(quoted)
}

// C32: a browser sent the session's cookie to the server on any port of this
// host. Here another user's server takes the port of a stopped OTM: it collects
// what the open page sends, and lets its own page read all that the browser
// keeps for this address. None of it is of use when OTM is back.
func TestC32PortTakenByAnother(t *testing.T) {
	t.Parallel()
	o := newOffice(t, seed{title: "Secret", status: "dormant", agent: "devdas"})
	owner := newTab(t)
	owner.open(o.link)
	owner.column("other", "Secret")
	address := strings.TrimSuffix(strings.TrimPrefix(o.page(), "http://"), "/")
	o.stop()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("somebody else took the port: %v", err)
	}
	type loot struct{ header, cookie string }
	stolen := make(chan loot, 1000)
	thief := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case stolen <- loot{r.Header.Get("Authorization"), r.Header.Get("Cookie")}:
		default:
		}
		if strings.HasPrefix(r.URL.Path, "/page/") {
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{}`)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<!doctype html><title>foreign</title><body>")
	})}
	go thief.Serve(listener)
	defer thief.Close()
	owner.until("the thief's server to refuse the page", `!document.getElementById("locked").hidden`)
	foreign := newTabBeside(owner)
	foreign.do(chromedp.Navigate(o.page()))
	if got := eval[string](foreign, `document.cookie`); got != "" {
		t.Errorf("the foreign page finds the cookie %q", got)
	}
	kept := eval[string](foreign, `localStorage.getItem("pass")`)
	thief.Close()
	o.home = reopenHome(t, o.home.Dir, strings.Replace(readFile(t, filepath.Join(o.home.Dir, "otm.toml")), "127.0.0.1:0", address, 1))
	o.start()
	v := &visitor{t: t, home: o.home, address: strings.TrimSuffix(o.page(), "/"), client: http.DefaultClient}
	passes := []string{kept}
	close(stolen)
	for l := range stolen {
		passes = append(passes, strings.TrimPrefix(l.header, "Bearer "))
		if l.cookie != "" {
			t.Errorf("the browser sent the cookie %q", l.cookie)
		}
	}
	if kept == "" || !slices.Contains(passes[1:], kept) {
		t.Errorf("the thief got %q: this test shows nothing", passes)
	}
	for _, v.pass = range passes {
		if status, answer := v.ask("/page/state"); status != http.StatusUnauthorized {
			t.Errorf("a stolen pass: status %d, %s", status, answer)
		}
	}
}

// A page of another origin on this host, also one that sends what the browser
// keeps for this host, sees nothing and does nothing. A foreign name that leads
// here (DNS rebinding) is refused.
func TestPageForeignOrigin(t *testing.T) {
	t.Parallel()
	o := newOffice(t, seed{title: "Secret", status: "agent_done", agent: "devdas"})
	tab := newTab(t)
	tab.open(o.link)
	tab.column("agent_done", "Secret")
	var seen []string
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			data, _ := io.ReadAll(r.Body)
			seen = append(seen, string(data))
		}
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<!doctype html><title>foreign</title><body>")
	}))
	defer foreign.Close()
	evil := newTabBeside(tab)
	evil.do(chromedp.Navigate(foreign.URL))
	action := fmt.Sprintf(`{"do":"accept","row":%q}`, o.rows[0])
	for what, script := range map[string]string{
		"read":         `fetch(board + "page/state", {credentials: "include"}).then((r) => r.text())`,
		"read, opaque": `fetch(board + "page/state", {credentials: "include", mode: "no-cors"}).then((r) => r.text())`,
		"write": `fetch(board + "page/do", {method: "POST", credentials: "include", headers: {"Content-Type": "application/json"}, body: action})
			.then((r) => r.text())`,
		"write, opaque": `fetch(board + "page/do", {method: "POST", credentials: "include", mode: "no-cors", body: action}).then((r) => r.text())`,
		"form": `new Promise((done) => {
			const f = Object.assign(document.createElement("form"), {action: board + "page/do", method: "post", enctype: "text/plain", target: "frame"});
			const i = Object.assign(document.createElement("iframe"), {name: "frame"});
			f.append(Object.assign(document.createElement("input"), {name: action.slice(0, -1) + ',"x":"', value: '"}'}));
			i.onload = () => setTimeout(() => { let t = ""; try { t = i.contentDocument?.body.textContent ?? "" } catch {} done(t) }, 100);
			document.body.append(i, f);
			f.submit();
		})`,
		"iframe": `new Promise((done) => {
			const i = Object.assign(document.createElement("iframe"), {src: board});
			i.onload = () => { let t = ""; try { t = i.contentDocument?.body.textContent ?? "" } catch {} done(t) };
			document.body.append(i);
		})`,
		"events":   `fetch(board + "page/events", {credentials: "include"}).then((r) => r.body.getReader().read()).then((r) => new TextDecoder().decode(r.value))`,
		"a header": `fetch(board + "page/state", {headers: {Authorization: "Bearer x"}}).then((r) => r.text())`,
		"script": `new Promise((done) => {
			const s = Object.assign(document.createElement("script"), {src: board + "page/app.js", onload: () => done("Secret: it ran"), onerror: () => done("")});
			document.body.append(s);
		})`,
	} {
		eval[string](evil, fmt.Sprintf(`globalThis.answer = "waits", (async () => { const board = %q, action = %q; answer = await (%s) })().catch(() => answer = ""), ""`, o.page(), action, script))
		evil.until(what+" to end", `answer !== "waits"`)
		if got := eval[string](evil, `String(answer)`); strings.Contains(got, "Secret") || strings.Contains(got, `"id"`) {
			t.Errorf("%s: the foreign page saw %q", what, got)
		}
	}
	if r := o.onBoard(o.rows[0]); r.Status != pipeline.AgentDone {
		t.Errorf("the foreign page made it %s", r.Status)
	}
	if len(o.said("T-00001")) > 0 || len(seen) > 0 {
		t.Errorf("the history says %q, the foreign server got %q", o.said("T-00001"), seen)
	}
	// The name board.test leads to this host in this browser.
	rebound := strings.Replace(o.page(), "127.0.0.1", "board.test", 1)
	evil.do(chromedp.Navigate(rebound))
	if text := evil.shown(); !strings.Contains(text, "answers to 127.0.0.1") {
		t.Errorf("under a foreign name it shows %q", text)
	}
}
