package app

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/internal/crash/crashtest"
	"otm/internal/durable"
	"otm/pipeline/inbox"
)

// main runs a command as its main does.
func (p *patient) main(argv ...string) (code int, out string) {
	var b bytes.Buffer
	code = p.run(argv, &b, &b)
	return code, b.String()
}

func (p *patient) run(argv []string, out, errs io.Writer) (code int) {
	env := map[string]string{"OTM_DIR": p.h.Dir, "HOME": filepath.Dir(p.h.Dir)}
	return Main(argv, cli.Streams{In: strings.NewReader(""), Out: out, Err: errs, Getenv: func(name string) string { return env[name] }})
}

func (p *patient) must(argv ...string) {
	p.Helper()
	if code, out := p.main(argv...); code != cli.OK {
		p.Fatalf("%v: exit %d: %s", argv, code, out)
	}
}

// edit changes cells of a row, as a person does.
func (p *patient) edit(row string, cells ...boardtest.Cell) {
	p.Helper()
	if err := p.b.Server.EditRow("", p.b.ListID, row, cells...); err != nil {
		p.Fatal(err)
	}
}

// look reads the board.
func (p *patient) look() {
	p.Helper()
	if err := walk(p.Context(), p.h); err != nil {
		p.Fatal(err)
	}
}

// newBusy is a patient with a task that is done, one at work with a report in
// the inbox, one that is dropped, and a drop that failed.
func newBusy(t *testing.T) *patient {
	t.Helper()
	p := newPatient(t)
	// This board shows at once what is written. Else a row that we wrote and deleted within
	// settle_after, while the disk refused the snapshot, would be awaited once more.
	config := filepath.Join(p.h.Dir, "otm.toml")
	put(t, config, content(t, config)+"[times]\nsettle_after = \"1ms\"\n")
	p.must("otm-create", "--title", "Over", "--agent", "devdas")
	p.must("otm-create", "--title", "At work", "--agent", "devdas", "--subtask", "a", "--subtask", "b")
	put(p, filepath.Join(p.h.Dir, "new-tasks", "bad.json"), `{"title":""}`)
	if code, out := p.main("otm-injector", "--once"); code != cli.Partial {
		p.Fatalf("exit %d: %s", code, out)
	}
	p.must("otm-dispatcher", "--once")
	p.must("otm", "next", "--agent", "devdas") // takes the first
	p.must("otm-dispatcher", "--once")         // the board shows that, so that no write crosses the edit
	p.edit(stateOf(t, p.h, 1).RowID, boardtest.SelectCell(p.b.Column(p, "Status", "select"), "done"))
	p.must("otm-create", "--title", "Dropped", "--agent", "devdas")
	p.must("otm-update", "--task-id", "2", "--result", "half of it")
	id, err := p.h.Counter.TakeOne(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put(p, filepath.Join(p.h.Dir, "failed", "bad.json"), fmt.Sprintf(`{"taskId":%q,"title":"Mended","agent":"devdas","_result":{"inbox":"new-tasks"}}`, id))
	return p
}

// newBroken is a busy patient with something of each kind that otm fsck mends.
func newBroken(t *testing.T) *patient {
	t.Helper()
	p := newBusy(t)
	p.must("otm", "archive", "--older-than", "0d", "--yes")
	p.must("otm-injector", "--once")
	litter := filepath.Join(p.h.Dir, "tasks", durable.TempPrefix+"1")
	put(t, litter, "")
	old := time.Now().Add(-3 * time.Hour)
	if err := os.Chtimes(litter, old, old); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(p.h.Dir, "otm.toml")
	put(t, config, content(t, config)+"adopt_after = \"1ms\"\n") // what a person cleared is written back at once
	p.edit(stateOf(t, p.h, 2).RowID, boardtest.TextCell(p.b.Column(t, "Task ID", "text"), ""))
	damage(t, p.h, "INSERT INTO wakes (key, task, agent_key, asked_at) VALUES ('otm-T-00009-x-1', 9, 'x', 0)")
	put(t, filepath.Join(p.h.Dir, "failed", "far.json"), `{"taskId":"T-00041","title":"Far","agent":"devdas","_result":{"inbox":"new-tasks","error":"no room","class":"rejected"}}`)
	return p
}

// again runs a command until it ends as usual: what failed is tried again after a pause.
func (p *patient) again(usual int, argv ...string) (code int, out string) {
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
		if code, out = p.main(argv...); code != cli.Partial || code == usual || time.Now().After(deadline) {
			return code, out
		}
	}
}

// outcome is what became of all tasks and drops.
func (p *patient) outcome() string {
	p.Helper()
	for range 2 {
		for _, c := range []string{"otm-injector", "otm-dispatcher", "otm-completion-detector"} {
			if code, out := p.again(cli.OK, c, "--once"); code != cli.OK {
				p.Fatalf("%s: exit %d: %s", c, code, out)
			}
		}
	}
	if code, out := p.main("otm", "fsck", "--at-rest"); code != cli.OK {
		p.Errorf("otm fsck: %s", out)
	}
	var lines []string
	for _, t := range statesOf(p, p.h) {
		lines = append(lines, fmt.Sprint(t.ID, " ", t.Title, " ", t.Status, " ", len(t.Steps), " taken ", t.Taken(), " archived ", !t.ArchivedAt.IsZero()))
	}
	entries, err := readHistory(p.Context(), storeOf(p, p.h), 0)
	if err != nil {
		p.Fatal(err)
	}
	for _, e := range entries {
		lines = append(lines, fmt.Sprint("in the history ", e.TaskID, " ", len(e.Steps)))
	}
	failed, err := p.h.Box.SettledNames(inbox.FailedDir)
	if err != nil {
		p.Fatal(err)
	}
	return strings.Join(append(lines, fmt.Sprint(rowsLeft(p.T, p.b), " rows, failed ", failed)), "\n")
}

// TestCommandsWhereTheDiskFails: wherever in this package's code the disk refuses a
// command once, it says so, and run again it comes to where it would have come.
func TestCommandsWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		command string
		in      func(*testing.T) *patient
	}{
		{"otm archive --older-than 0d --yes", newBusy}, {"otm retry bad.json", newBusy}, {"otm fsck --repair", newBroken}, {"otm next --agent devdas", newBusy},
		{"otm-injector --once", newBusy}, {"otm-dispatcher --once", newBusy}, {"otm-completion-detector --once", newBusy},
	} {
		t.Run(c.command, func(t *testing.T) {
			t.Parallel()
			argv := strings.Fields(c.command)
			whole := c.in(t)
			usual, _ := whole.main(argv...)
			want := whole.outcome()
			crashtest.EachOwnPlace(t, syscall.EIO, "otm/internal/app", func(refuse crashtest.Refuse) {
				p := c.in(t)
				code, out := 0, ""
				refused, _ := refuse(p.h.Dir, func() error {
					code, out = p.main(argv...)
					return nil
				})
				told := code != usual || strings.Contains(out, syscall.EIO.Error())
				// Heartbeats, whose a lock is, hints and notes on what failed are for people. A
				// counter is known from its copy, and litter is looked for again. Without the
				// store, otm next goes by the dispatch file. An entry that others than the
				// dispatcher cannot write waits for it. What is mended, whichever run it took, was
				// no trouble. A command that ends with an error asks whether the directory is still
				// there, only for the words.
				silent := refused.Of("read", "-state.json") || refused.Of("write", "/locks/") || refused.Of("read", "/next-task-id") ||
					refused.Of("read directory", filepath.Base(p.h.Dir)) || refused.Of("read", "/failed/") && argv[1] == "next" ||
					refused.Of("lstat", "/otm.db") || usual != cli.OK && refused.Of("read", "/format") || refused.Of("stat", "/board/edited") ||
					refused.Of("open", "/locks/dispatch-") && (argv[0] == "otm-injector" || argv[0] == "otm-completion-detector" || argv[1] == "next") ||
					argv[1] == "next" && (refused.Of("open", "/locks/schema") || refused.Of("read", "/format") || refused.Of("begin", "/otm.db")) ||
					strings.Contains(out, "did: ran ") && strings.Contains(out, "no problems found")
				if told != refused.Came() && !silent {
					t.Errorf("refused %q: exit %d: %s", refused, code, out)
				}
				if code, out := p.again(usual, argv...); code != usual && code != cli.OK && !(argv[1] == "retry" && strings.Contains(out, "bad.json: is not in failed/")) {
					t.Errorf("refused %q, again: exit %d instead of %d: %s", refused, code, usual, out)
				}
				other := argv[1] == "next" && refused.Of("read", "/task-updates/") // it did not hear what the agent was at
				if got := p.outcome(); got != want && !other {
					t.Errorf("refused %q: exit %d: it comes to\n%s\nwant\n%s", refused, code, got, want)
				}
			})
		})
	}
}
