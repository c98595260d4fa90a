package app

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"otm/internal/board"
	"otm/internal/board/boardtest"
	"otm/internal/page"
	"otm/pipeline"
)

// plantMany puts tasks of three steps each on the board, n rows in all.
func plantMany(b *testing.B, h *Home, n int) {
	b.Helper()
	s, err := boardtest.Open(boardtest.Options{Options: board.Options{Dir: h.boardDir()}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	columns, err := s.Columns(s.ListID())
	if err != nil {
		b.Fatal(err)
	}
	column := map[string]string{}
	for _, c := range columns {
		if column[c.Name] == "" {
			column[c.Name] = c.ID
		}
	}
	var last atomic.Int64
	take := func(int) (pipeline.TaskID, error) { return pipeline.TaskID(last.Add(1)), nil }
	statuses := []string{"assigned", "in_progress", "in_progress", "blocked", "agent_done", "done", "done", "pending"}
	var wg sync.WaitGroup
	work := make(chan int)
	for range 32 {
		wg.Go(func() {
			for i := range work {
				plantOne(b, h, s, column, take, seed{
					title: fmt.Sprint("Build the login page, part ", i), status: statuses[i%len(statuses)], agent: []string{"devdas", "archibald"}[i%2], project: "PRJ-012 App",
					priority: []string{"normal", "high", "low"}[i%3], reason: "Waiting for the design of the form", steps: []string{"x Create the form", "Add validation", "Write tests"},
				})
			}
		})
	}
	for i := range n / 4 {
		work <- i
	}
	close(work)
	wg.Wait()
}

// benchPage is a page over n rows, with the embedded board alone.
func benchPage(b *testing.B, rows int) *visitor {
	b.Helper()
	h := newHome(b, "")
	plantMany(b, h, rows)
	return visit(b, h, board.Options{})
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The whole state, where nobody else watches: what a first page costs.
func BenchmarkPageState(b *testing.B) {
	for _, rows := range []int{100, 1000, 4000} {
		b.Run(fmt.Sprint("rows=", rows), func(b *testing.B) {
			v := benchPage(b, rows)
			v.state()
			for b.Loop() {
				v.state()
			}
		})
	}
}

// What the view of one task costs.
func BenchmarkPageDetail(b *testing.B) {
	v := benchPage(b, 1000)
	row := v.state().Tasks[100].Row
	for b.Loop() {
		get[page.Detail](v, "/page/task?row="+row)
	}
}

// stream is a page's stream of events.
func (v *visitor) stream() (next func() string) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, v.address+"/page/events", nil)
	if err != nil {
		v.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+v.pass)
	w, err := v.client.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { w.Body.Close() })
	lines := bufio.NewReader(w.Body)
	return func() string {
		for {
			line, err := lines.ReadString('\n')
			if err != nil || line != "\n" {
				return line
			}
		}
	}
}

// edits changes the priority of one task again and again, each time to
// another one.
func (v *visitor) edits() (edit func() (want string)) {
	row, n := v.state().Tasks[0].Row, 0
	return func() string {
		n++
		to := string(pipeline.Priorities[n%len(pipeline.Priorities)])
		v.do(page.Action{Do: "edit", Row: row, Priority: to})
		return to
	}
}

// From the end of an edit until a page that is open was sent it, with 1,000
// rows, where the board was still before, and where edits come in a row, so
// that the page rests between looks: ns/op is the edit as well, seen-ms what
// passes after it.
func BenchmarkPageUpdate(b *testing.B) {
	for _, still := range []time.Duration{300 * time.Millisecond, 0} {
		b.Run(fmt.Sprint("still=", still), func(b *testing.B) {
			v := benchPage(b, 1000)
			next, edit := v.stream(), v.edits()
			next()
			var waited time.Duration
			for b.Loop() {
				time.Sleep(still)
				want := edit()
				began := time.Now()
				for !strings.Contains(next(), fmt.Sprintf(`"priority":%q`, want)) {
				}
				waited += time.Since(began)
			}
			b.ReportMetric(float64(waited.Microseconds())/1000/float64(b.N), "seen-ms")
		})
	}
}

// The processor time of an edit on a board of 1,000 rows with so many pages
// open, the board, the pages and whoever edits together.
func BenchmarkPageOpenPages(b *testing.B) {
	for _, pages := range []int{0, 1, 20} {
		b.Run(fmt.Sprint("pages=", pages), func(b *testing.B) {
			v := benchPage(b, 1000)
			for range pages {
				next := v.stream()
				go func() {
					for next() != "" {
					}
				}()
			}
			edit := v.edits()
			before := cpu(b)
			for b.Loop() {
				edit()
			}
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// From the navigation until the browser has painted the board, and until the
// page says that it is drawn; and from an edit until it stands on the page.
func BenchmarkPageBrowser(b *testing.B) {
	for _, rows := range []int{1000, 4000} {
		b.Run(fmt.Sprint("rows=", rows), func(b *testing.B) {
			v := benchPage(b, rows)
			link, err := newPageDoor(v.home).link(v.address + "/")
			if err != nil {
				b.Fatal(err)
			}
			tab := newTab(b)
			tab.open(link)
			var painted, drawn float64
			for b.Loop() {
				tab.do(chromedp.Reload()) // in the process that is there, as a browser that is used has one
				tab.until("the paint", `performance.getEntriesByName("otm-painted").length > 0`)
				painted += eval[float64](tab, `performance.getEntriesByName("otm-painted")[0].startTime`)
				drawn += eval[float64](tab, `performance.getEntriesByName("otm-drawn")[0].startTime`)
			}
			b.ReportMetric(painted/float64(b.N), "painted-ms")
			b.ReportMetric(drawn/float64(b.N), "drawn-ms")
			eval[bool](tab, `(globalThis.seen = [], new MutationObserver(() => seen.push(Date.now())).observe(document.getElementById("board"), {childList: true, subtree: true}), true)`)
			edit := v.edits()
			const edits = 20
			var waited float64
			for i := range edits {
				eval[bool](tab, `(seen.length = 0, true)`)
				edit()
				done := float64(time.Now().UnixMilli())
				tab.until(fmt.Sprint("edit ", i), `seen.length > 0`)
				waited += max(0, eval[float64](tab, `seen[0]`)-done)
			}
			b.ReportMetric(waited/edits, "seen-ms")
		})
	}
}
