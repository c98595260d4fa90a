package app

import (
	"bytes"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"otm/internal/board"
	"otm/internal/cli"
	"otm/internal/crash/crashtest"
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
	put(p, filepath.Join(p.h.Dir, "failed", "bad.json"), `{"taskId":"T-00007","title":"Mended","agent":"devdas"}`)
	return p
}

// TestCommandsWhereTheDiskFails: a command tells of each step at which the disk
// refused, and run again it does what it was to do: nothing is lost or half made.
func TestCommandsWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	for _, argv := range [][]string{
		{"otm", "archive", "--older-than", "0d", "--yes"}, {"otm", "retry", "bad.json"}, {"otm", "fsck", "--repair"}, {"otm", "next", "--agent", "devdas"},
		{"otm-injector", "--once"}, {"otm-dispatcher", "--once"}, {"otm-completion-detector", "--once"},
	} {
		t.Run(strings.Join(argv, " "), func(t *testing.T) {
			t.Parallel()
			usual, _ := newBusy(t).main(argv...)
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
				if code, out := p.main(argv...); code != usual && code != cli.OK {
					t.Errorf("refused %q, again: exit %d instead of %d: %s", refused, code, usual, out)
				}
				for range 2 {
					for _, c := range []string{"otm-injector", "otm-dispatcher", "otm-completion-detector"} {
						p.must(c, "--once")
					}
				}
				if code, out := p.main("otm", "fsck", "--at-rest"); code != cli.OK {
					t.Errorf("refused %q: %s", refused, out)
				}
			})
		})
	}
}
