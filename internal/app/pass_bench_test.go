package app

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/core"
	"otm/internal/board"
	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/pipeline"
	"otm/slacklist"
)

// BenchmarkPass is a pass of the dispatcher and of the detector over a board
// of tasks with three steps each, all in progress: the
// board is read anew (walk), or is known as it is (hint).
func BenchmarkPass(b *testing.B) {
	for _, rows := range []int{100, 1000, 5000} {
		h, source := benchHome(b, rows)
		log := slog.New(slog.DiscardHandler)
		for _, k := range kinds[1:] {
			c, err := newComponent(b.Context(), h, source, log, k, DefaultEvery, false)
			if err != nil {
				b.Fatal(err)
			}
			defer c.stop()
			for name, why := range map[string]occasion{"walk": asked, "hint": hinted} {
				b.Run(fmt.Sprintf("%s/%d rows/%s", c.id, rows, name), func(b *testing.B) {
					if _, err := c.run(b.Context(), why, func() {}); err != nil { // the first one notes what it sees
						b.Fatal(err)
					}
					for b.Loop() {
						out, err := c.run(b.Context(), why, func() {})
						if err != nil || out.Trouble != nil || len(out.Failed) > 0 {
							b.Fatalf("%+v, %v", out, err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkMoves has agents move 500 tasks, eight at a time, and the sinks show them all.
// "tick" is a pass that reads nothing of the board, with 50 agents.
func BenchmarkMoves(b *testing.B) {
	const tasks, callers = 500, 8
	h, source := benchHome(b, 4*tasks)
	agents := ""
	for n := range 49 {
		agents += fmt.Sprintf("[agents.agent%d]\nworkspace = %q\ntrigger = \"none\"\n", n, b.TempDir())
	}
	more, err := os.OpenFile(filepath.Join(h.Dir, "otm.toml"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = more.WriteString(agents)
	}
	if err = errors.Join(err, more.Close()); err != nil {
		b.Fatal(err)
	}
	if h, err = OpenHome(h.Streams, h.Dir); err != nil {
		b.Fatal(err)
	}
	c, err := newComponent(b.Context(), h, source, slog.New(slog.DiscardHandler), kinds[1], DefaultEvery, false)
	if err != nil {
		b.Fatal(err)
	}
	defer c.stop()
	pass := func(why occasion) time.Duration {
		begun := time.Now()
		if out, err := c.run(b.Context(), why, func() {}); err != nil || out.Trouble != nil || len(out.Failed) > 0 {
			b.Fatalf("%+v, %v", out, err)
		}
		return time.Since(begun)
	}
	s, err := h.OpenStore(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	pass(asked)
	var committed, shown, tick time.Duration
	to := pipeline.Blocked
	for b.Loop() {
		begun := time.Now()
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				for n := caller; n < tasks; n += callers {
					o, err := s.Do(b.Context(), core.Command{At: time.Now(), By: core.ByAgent("devdas"), Task: pipeline.TaskID(n + 1), Do: core.Report{Dropped: time.Now(), Status: to, Reason: "why"}})
					if err != nil || o[0].Err != nil {
						b.Errorf("%v, %v", err, o)
					}
				}
			})
		}
		all.Wait()
		committed += time.Since(begun)
		pass(hinted)
		for pending := true; pending; {
			left, err := s.Pending(b.Context(), "")
			if err != nil {
				b.Fatal(err)
			}
			if pending = len(left) > 0; pending {
				pass(hinted)
			}
		}
		shown += time.Since(begun)
		if tick += pass(hinted); to == pipeline.Blocked {
			to = pipeline.InProgress
		} else {
			to = pipeline.Blocked
		}
	}
	b.ReportMetric(float64(tasks*b.N)/committed.Seconds(), "moves/s")
	b.ReportMetric(shown.Seconds()/float64(b.N), "s-until-shown")
	b.ReportMetric(float64(tick.Milliseconds())/float64(b.N), "ms/tick")
}

func benchHome(b *testing.B, rows int) (*Home, pipeline.Board) {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "data")
	if _, err := Init(dir); err != nil {
		b.Fatal(err)
	}
	ws := b.TempDir()
	config := fmt.Sprintf("[agents.devdas]\nworkspace = %q\ntrigger = \"none\"\n", ws)
	if err := os.WriteFile(filepath.Join(dir, "otm.toml"), []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	h, err := OpenHome(cli.Streams{Out: io.Discard, Err: io.Discard, In: strings.NewReader(""), Getenv: func(string) string { return "" }}, dir)
	if err != nil {
		b.Fatal(err)
	}
	bt := boardtest.Start(b)
	columns := map[string]string{}
	for _, name := range []string{"Title", "Task ID"} {
		columns[name] = bt.Column(b, name, "text")
	}
	for _, name := range []string{"Status", "Assignee", "Priority", "Type"} {
		columns[name] = bt.Column(b, name, "select")
	}
	columns["remaining"], columns["completion"] = bt.Column(b, "Subtasks remaining", "number"), bt.Column(b, "Completion", "number")
	if err := bt.Server.AddOption("", bt.ListID, columns["Assignee"], "devdas", "devdas"); err != nil {
		b.Fatal(err)
	}
	at := time.Now()
	for n := range rows / 4 {
		id := pipeline.TaskID(n + 1)
		task := core.Task{ID: id, DropID: fmt.Sprint("d", n), Title: fmt.Sprint("task ", n), Agent: "devdas", Priority: pipeline.Normal,
			Type: pipeline.Action, CreatedAt: at, Status: pipeline.InProgress, StatusAt: at, Attempt: 1, LastStep: 3,
			Dispatch: &core.Dispatch{Attempt: 1, Agent: "devdas", Workspace: ws, At: at, FlippedAt: at, TakenAt: at, TakenBy: core.TakenByNext}}
		if task.RowID, err = bt.Server.AddRow(board.BotUser, bt.ListID, boardtest.TextCell(columns["Title"], task.Title), boardtest.TextCell(columns["Task ID"], id.String()),
			boardtest.SelectCell(columns["Status"], "in_progress"), boardtest.SelectCell(columns["Priority"], "normal"), boardtest.SelectCell(columns["Type"], "action"), boardtest.SelectCell(columns["Assignee"], "devdas"),
			boardtest.NumberCell(columns["remaining"], 3), boardtest.NumberCell(columns["completion"], 0)); err != nil {
			b.Fatal(err)
		}
		for s := range 3 {
			step := core.Step{ID: s + 1, Title: fmt.Sprint("step ", s)}
			step.Shown.Title = step.Title
			if step.RowID, err = bt.Server.AddStep(board.BotUser, bt.ListID, task.RowID, boardtest.TextCell(columns["Title"], step.Title), boardtest.SelectCell(columns["Status"], "new")); err != nil {
				b.Fatal(err)
			}
			task.Steps = append(task.Steps, step)
		}
		task.Shown = task.View()
		seedTask(b, h, task, slices.Repeat([]core.OldLine{{At: at, Who: "otm-injector", What: "status", Detail: "new to assigned"}}, 12)...)
	}
	return h, slacklist.New(slacklist.Options{Dir: dir, URL: bt.URL, ListID: bt.ListID, Token: bt.Token, OpenAssignees: true})
}
