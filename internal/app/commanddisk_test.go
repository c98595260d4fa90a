package app

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"otm/internal/board"
	"otm/internal/cli"
	"otm/internal/crash/crashtest"
	"otm/pipeline/history"
	"otm/pipeline/inbox"
)

// main runs a command as its main does.
func (p *patient) main(argv ...string) (code int, out string) {
	var b bytes.Buffer
	env := map[string]string{"OTM_DIR": p.h.Dir, "HOME": filepath.Dir(p.h.Dir)}
	code = Main(argv, cli.Streams{In: strings.NewReader(""), Out: &b, Err: &b, Getenv: func(name string) string { return env[name] }})
	return code, b.String()
}

func (p *patient) must(argv ...string) {
	p.Helper()
	if code, out := p.main(argv...); code != cli.OK {
		p.Fatalf("%v: exit %d: %s", argv, code, out)
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
	p.must("otm-injector", "--once")
	rec, err := p.h.Store.Load(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.b.Server.EditRow("", p.b.ListID, rec.RowID, board.SelectCell(p.b.Column(p, "Status", "select"), "done")); err != nil {
		t.Fatal(err)
	}
	p.must("otm-create", "--title", "Dropped", "--agent", "devdas")
	id, err := p.h.newID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put(p, filepath.Join(p.h.Dir, "failed", "bad.json"), fmt.Sprintf(`{"taskId":%q,"title":"Mended","agent":"devdas","_result":{"inbox":"new-tasks"}}`, id))
	return p
}

// outcome is what became of all tasks and drops.
func (p *patient) outcome() string {
	p.Helper()
	for range 2 {
		for _, c := range []string{"otm-injector", "otm-dispatcher", "otm-completion-detector"} {
			p.must(c, "--once")
		}
	}
	if code, out := p.main("otm", "fsck", "--at-rest"); code != cli.OK {
		p.Errorf("otm fsck: %s", out)
	}
	var lines []string
	ids, err := p.h.Store.IDs()
	if err != nil {
		p.Fatal(err)
	}
	for _, id := range ids {
		r, err := p.h.Store.Load(id)
		if err != nil {
			p.Fatal(err)
		}
		lines = append(lines, fmt.Sprint(id, " ", r.Title, " ", r.Status, " ", len(r.Steps), " taken ", r.Dispatch != nil && r.Dispatch.TakenAt != nil, " archived ", r.ArchivedAt != nil))
	}
	for e, err := range history.Read(p.h.Dir) {
		if err != nil {
			p.Fatal(err)
		}
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
	for _, argv := range [][]string{
		{"otm", "archive", "--older-than", "0d", "--yes"}, {"otm", "retry", "bad.json"}, {"otm", "fsck", "--repair"}, {"otm", "next", "--agent", "devdas"},
		{"otm-injector", "--once"}, {"otm-dispatcher", "--once"}, {"otm-completion-detector", "--once"},
	} {
		t.Run(strings.Join(argv, " "), func(t *testing.T) {
			t.Parallel()
			whole := newBusy(t)
			usual, _ := whole.main(argv...)
			want := whole.outcome()
			crashtest.EachPlace(t, syscall.EIO, "otm/internal/app", func(refuse crashtest.Refuse) {
				p := newBusy(t)
				code, out := 0, ""
				refused, _ := refuse(p.h.Dir, func() error {
					code, out = p.main(argv...)
					return nil
				})
				told := code != usual || strings.Contains(out, syscall.EIO.Error())
				// Heartbeats, whose a lock is, and notes on what failed are for people. A counter is
				// known from its copy, litter is looked for again, and a record is read once more
				// under its lock.
				silent := refused.Of("read", "-state.json") || refused.Of("write", "/locks/") || refused.Of("read", "/next-task-id.json") ||
					refused.Of("read directory", filepath.Base(p.h.Dir)) || refused.Of("read", "/failed/") && argv[1] == "next" ||
					refused.Of("stat", "/tasks/") && argv[0] == "otm-dispatcher"
				if told != refused.Came() && !silent {
					t.Errorf("refused %q: exit %d: %s", refused, code, out)
				}
				if code, out := p.main(argv...); code != usual && code != cli.OK && !strings.Contains(out, "is not in failed/") {
					t.Errorf("refused %q, again: exit %d instead of %d: %s", refused, code, usual, out)
				}
				if got := p.outcome(); got != want {
					t.Errorf("refused %q: exit %d: it comes to\n%s\nwant\n%s", refused, code, got, want)
				}
			})
		})
	}
}
