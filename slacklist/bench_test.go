package slacklist

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"otm/internal/board"
	"otm/internal/board/boardtest"
)

// fillBoard puts n rows that look like OTM's on the board: of every four, one
// is a task and three are its steps.
func fillBoard(tb testing.TB, b *boardtest.Board, n int) {
	tb.Helper()
	columns, err := b.Server.Columns(b.ListID)
	if err != nil {
		tb.Fatal(err)
	}
	id := map[string]string{}
	for _, c := range columns {
		if id[c.Name] == "" {
			id[c.Name] = c.ID
		}
	}
	var wg sync.WaitGroup
	tasks := make(chan int)
	for range 64 {
		wg.Go(func() {
			for i := range tasks {
				parent, err := b.Server.AddRow(board.BotUser, b.ListID,
					boardtest.TextCell(id["Title"], fmt.Sprint("Build the login page, part ", i)),
					boardtest.TextCell(id["Task ID"], fmt.Sprintf("T-%05d", i+1)),
					boardtest.SelectCell(id["Type"], "action"),
					boardtest.SelectCell(id["Assignee"], "devdas"),
					boardtest.TextCell(id["Project 2"], "PRJ-012 App"),
					boardtest.SelectCell(id["Priority"], "normal"),
					boardtest.SelectCell(id["Status"], "in_progress"),
					boardtest.NumberCell(id["Subtasks remaining"], 3),
					boardtest.NumberCell(id["Completion"], 0),
					boardtest.TextCell(id["Assigned at"], "2026-03-14T10:15:00Z"),
					boardtest.TextCell(id["Result"], strings.Repeat("It works on my machine. ", 10)))
				if err != nil {
					tb.Error(err)
					return
				}
				for j := range min(3, n-4*i-1) {
					if _, err := b.Server.AddStep(board.BotUser, b.ListID, parent,
						boardtest.TextCell(id["Title"], fmt.Sprint("Step ", j, " of it")),
						boardtest.SelectCell(id["Status"], "new")); err != nil {
						tb.Error(err)
						return
					}
				}
			}
		})
	}
	for i := 0; 4*i < n; i++ {
		tasks <- i
	}
	close(tasks)
	wg.Wait()
}

func benchClient(b *testing.B, rows int) *Client {
	b.Helper()
	s := boardtest.Start(b)
	fillBoard(b, s, rows)
	return New(Options{Dir: b.TempDir(), URL: s.URL, ListID: s.ListID, Token: s.Token})
}

// reportCPU adds the processor time of an operation, client, board and garbage
// together, which says more than the wall clock where the machine is shared.
func reportCPU(b *testing.B) (stop func()) {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N)/1e6, "cpu-ms/op") }
}

// BenchmarkWalk is one walk over the board, decoding included.
func BenchmarkWalk(b *testing.B) {
	for _, rows := range []int{1000, 5000} {
		b.Run(fmt.Sprint(rows, " rows"), func(b *testing.B) {
			c := benchClient(b, rows)
			s, err := c.Begin(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			defer s.End()
			b.ReportAllocs()
			defer reportCPU(b)()
			for b.Loop() {
				if err := s.Refresh(b.Context(), 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPass is what a component does each time: take the board, read the
// snapshot that another process has written, walk, look at all rows, give the
// board back. Without the walk it is what a hint costs.
func BenchmarkPass(b *testing.B) {
	for _, rows := range []int{1000, 5000} {
		for _, walk := range []bool{true, false} {
			name := "snapshot"
			if walk {
				name = "walk"
			}
			b.Run(fmt.Sprint(rows, " rows/", name), func(b *testing.B) {
				c := benchClient(b, rows)
				seen := 0
				first := true
				b.ReportAllocs()
				defer reportCPU(b)()
				for b.Loop() {
					c.store.cached = nil // another process has written it since
					s, err := c.Begin(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					if walk || first {
						if err := s.Refresh(b.Context(), 0); err != nil {
							b.Fatal(err)
						}
						first = false
					}
					seen = 0
					for r := range s.Rows() {
						if r.Parent == "" && r.Task() != 0 {
							seen += len(s.StepRows(r.ID))
						}
					}
					if err := s.End(); err != nil {
						b.Fatal(err)
					}
				}
				if want := rows * 3 / 4; seen != want {
					b.Fatalf("saw %d steps, want %d", seen, want)
				}
			})
		}
	}
}
