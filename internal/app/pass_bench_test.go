package app

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"otm/internal/board"
	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/pipeline"
	"otm/slacklist"
)

// BenchmarkPass is a pass of the dispatcher and of the detector over a board
// of tasks with three steps each, all in progress, with their records: the
// board is read anew (walk), or is known as it is (hint).
func BenchmarkPass(b *testing.B) {
	for _, rows := range []int{100, 1000, 5000} {
		h, source := benchHome(b, rows)
		log := slog.New(slog.DiscardHandler)
		for _, k := range kinds[1:] {
			c := newComponent(h, source, log, k, DefaultEvery, false)
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
		rec := pipeline.Record{TaskID: id, DropID: fmt.Sprint("d", n), Title: fmt.Sprint("task ", n), Agent: "devdas", Priority: pipeline.Normal,
			Type: pipeline.Action, CreatedAt: at, Status: pipeline.InProgress, Attempt: 1,
			Dispatch: &pipeline.Dispatch{Attempt: 1, Agent: "devdas", Workspace: ws, At: at, EntryAt: &at, FlippedAt: &at, TakenAt: &at, TakenBy: "otm next"}}
		if rec.RowID, err = bt.Server.AddRow(board.BotUser, bt.ListID, boardtest.TextCell(columns["Title"], rec.Title), boardtest.TextCell(columns["Task ID"], id.String()),
			boardtest.SelectCell(columns["Status"], "in_progress"), boardtest.SelectCell(columns["Priority"], "normal"), boardtest.SelectCell(columns["Type"], "action"), boardtest.SelectCell(columns["Assignee"], "devdas"),
			boardtest.NumberCell(columns["remaining"], 3), boardtest.NumberCell(columns["completion"], 0)); err != nil {
			b.Fatal(err)
		}
		for s := range 3 {
			step := pipeline.StepRecord{Title: fmt.Sprint("step ", s)}
			if step.RowID, err = bt.Server.AddStep(board.BotUser, bt.ListID, rec.RowID, boardtest.TextCell(columns["Title"], step.Title), boardtest.SelectCell(columns["Status"], "new")); err != nil {
				b.Fatal(err)
			}
			rec.Steps = append(rec.Steps, step)
		}
		for range 12 {
			rec.Note(at, "otm-injector", pipeline.EventStatus, "new to assigned")
		}
		if _, err := h.Store.Change(b.Context(), id, func(r *pipeline.Record) error {
			*r = rec
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	return h, slacklist.New(slacklist.Options{Dir: dir, URL: bt.URL, ListID: bt.ListID, Token: bt.Token, OpenAssignees: true})
}
