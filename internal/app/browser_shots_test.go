package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestShots(t *testing.T) {
	dir := os.Getenv("SHOTS")
	if dir == "" {
		t.Skip()
	}
	long := strings.Repeat("Donaudampfschifffahrtsgesellschaftskapitän", 4)
	o := newOffice(t,
		seed{title: "Build the login page", status: "in_progress", agent: "devdas", project: "website", steps: []string{"x Create the form", "Add validation", "Write tests"}},
		seed{title: "Fix the broken backup", status: "blocked", agent: "archibald", priority: "critical", reason: "Waiting for the key of the storage bucket; asked Robin twice", steps: []string{"x Find the cause", "Restore one file as a test"}},
		seed{title: "Answer the question on pricing", status: "agent_done", agent: "devdas", priority: "high", result: "Answered: 12 € a month.\nSee thread.", steps: []string{"x Confirm that task has been done"}},
		seed{title: "Tidy up old branches", status: "assigned", agent: "archibald", priority: "batchable"},
		seed{title: "Approve the budget", status: "agent_done", agent: "robin", steps: []string{"x Look at it", "Sign"}},
		seed{title: "Ship the old thing", status: "done", agent: "devdas", steps: []string{"x a", "x b"}},
		seed{title: "Not now: rewrite everything in a new language", status: "pending", agent: "devdas", priority: "low"},
		seed{title: long, status: "pending", agent: "archibald", project: long, steps: []string{long, "x one", "two", "three", "four", "five", "six", "seven"}},
		seed{title: "<b>bold</b> <script>alert(1)</script> \u202egnp.exe \x1b[31mred", status: "pending", agent: "devdas"},
		seed{title: "Typed by a person", status: "pending", agent: "", byHand: true},
	)
	failed := `{"id":"x","taskId":"T-00999","status":"agent_done","_result":{"at":"2026-03-14T08:20:19Z","inbox":"task-updates","attempts":1,"error":"no task T-00999 is known","class":"unmatched","hint":"otm list --all"}}`
	os.MkdirAll(filepath.Join(o.home.Dir, "failed"), 0o700)
	os.WriteFile(filepath.Join(o.home.Dir, "failed", "20260314T082019.000000000Z-7d5d6f9e-1c4b-4a52-9d44-0123456789ab.json"), []byte(failed), 0o600)
	empty := newOffice(t)
	tab1, tabE, tab3 := newTab(t), newTab(t), newTab(t)
	tab1.open(o.link)
	tab1.has("#healthText", "1 failed")
	tabE.open(empty.link)
	shot := func(tb *tab, name string) {
		png, err := chromedp.Run(tb.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
	}
	for _, size := range []struct {
		name string
		w, h int64
	}{{"desk", 1440, 900}, {"phone", 390, 844}} {
		for _, scheme := range []string{"light", "dark"} {
			for _, tb := range []*tab{tab1, tabE} {
				tb.size(size.w, size.h)
				tb.scheme(scheme)
			}
			tab := tab1
			n := fmt.Sprintf("%s-%s", size.name, scheme)
			shot(tab, n+"-full")
			eval[bool](tab, `(document.getElementById("h-other").scrollIntoView(), true)`)
			shot(tab, n+"-aside")
			tab.card("Answer the question")
			tab.has("#taskHistory", "dropped")
			shot(tab, n+"-sheet")
			tab.click("#sendBackOpen")
			eval[bool](tab, `(document.getElementById("sendBackReason").scrollIntoView({block: "center"}), true)`)
			shot(tab, n+"-sendback")
			tab.click("#sendBackOpen")
			tab.press("\x1b")
			tab.click("#newButton")
			shot(tab, n+"-new")
			tab.press("\x1b")
			tab.click("#healthButton")
			shot(tab, n+"-health")
			tab.press("\x1b")
			shot(tabE, n+"-empty")
		}
	}
	tab3.do(chromedp.EmulateViewport(1440, 900))
	tab3.open(o.page())
	shot(tab3, "locked")
}
