package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"otm/core/store"
	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// squad is a data directory that works on a list of others.
type squad struct {
	*testing.T
	b *boardtest.Board
	h *Home
}

func newSquad(t *testing.T, b *boardtest.Board) *squad {
	t.Helper()
	s := &squad{T: t, b: b, h: &Home{Dir: filepath.Join(t.TempDir(), "data")}}
	if _, err := Init(s.h.Dir); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(s.h.Dir, "secrets", "slack"), b.Token+"\n")
	s.start("")
	return s
}

// drop drops a task for the agent devdas.
func (s *squad) drop(id pipeline.TaskID, title string) {
	s.Helper()
	column := s.b.Column(s.T, "Assignee", "select")
	if columns, err := s.b.Server.Columns(s.b.ListID); err != nil || !strings.Contains(fmt.Sprint(columns), "devdas") {
		if err := errors.Join(err, s.b.Server.AddOption("", s.b.ListID, column, "devdas", "devdas")); err != nil {
			s.Fatal(err)
		}
	}
	put(s.T, filepath.Join(s.h.Box.Dir(inbox.NewTasks), fmt.Sprintf("20260314T082021.000000000Z-%d.json", int(id))),
		fmt.Sprintf(`{"id":"d%d","taskId":%q,"title":%q,"agent":"devdas"}`, int(id), id, title))
}

// start opens the directory as another process on a machine.
func (s *squad) start(machine string) {
	s.Helper()
	s.h = reopenHome(s.T, s.h.Dir, fmt.Sprintf("[slack]\nlist_id = %q\napi_url = %q\ntoken_file = \"secrets/slack\"\nbudget = 0.0\n[agents.devdas]\nworkspace = %q\ntrigger = \"none\"\n",
		s.b.ListID, s.b.URL, s.TempDir()))
	s.h.stores.machine = machine
}

// pass makes one run of the detector, which reads the board.
func (s *squad) pass() error {
	s.Helper()
	s.h.Out = io.Discard
	c, err := newComponent(s.Context(), s.h, s.h.board(slog.New(slog.DiscardHandler)), slog.New(slog.DiscardHandler), kinds[2], DefaultEvery, false)
	if err != nil {
		return err
	}
	defer c.stop()
	report, err := c.once(context.WithoutCancel(s.Context()), asked)
	if err == nil {
		err = report.Trouble
	}
	if ends := c.judge(report, err); ends != nil && !errors.Is(ends, err) {
		s.Errorf("the resident ends with %v", ends)
	}
	return err
}

func (s *squad) works(when string) {
	s.Helper()
	if err := s.pass(); err != nil {
		s.Errorf("%s: %v", when, err)
	}
}

// refused checks that a pass is refused, and that a person is told what to do.
func (s *squad) refused(when string) {
	s.Helper()
	err := s.pass()
	if said := Explain(err); err == nil || said == nil || said.Code != cli.BadConfig || !strings.Contains(strings.Join(said.Hints, " "), "otm fsck --repair") {
		s.Errorf("%s: %v, told %v", when, err, said)
	}
}

func (s *squad) repair() {
	s.Helper()
	s.h.stores.moved = true
	if err := runFsck(s.Context(), s.h, true, false); err != nil {
		s.Fatal(err)
	}
	s.h.stores.moved = false
	s.h.Close()
}

// A second data directory on a list is refused by whatever reads the list. With otm fsck
// --repair it takes the list over, and the first one is refused.
func TestTwoDirectoriesOnOneList(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	one, two := newSquad(t, b), newSquad(t, b)
	one.works("the first")
	two.refused("the second")
	one.works("the first again")
	two.start("")
	two.repair()
	two.start("")
	two.works("after taking the list over")
	one.refused("the first, whose list was taken")
}

// A copy of a directory is refused, on this machine and on another one. When otm fsck
// --repair says that the directory moved there, the former one is refused.
func TestCopiedDirectory(t *testing.T) {
	t.Parallel()
	for name, machine := range map[string]string{"here": "", "on another machine": "another"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := newSquad(t, boardtest.Start(t))
			one.works("the original")
			one.h.Close()
			dir := filepath.Join(t.TempDir(), "copy")
			if err := os.CopyFS(dir, os.DirFS(one.h.Dir)); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if machine != "" { // with the same path
				if err := errors.Join(os.Rename(one.h.Dir, one.h.Dir+"-old"), os.Rename(dir, one.h.Dir)); err != nil {
					t.Fatal(err)
				}
				dir = one.h.Dir
			}
			two := &squad{T: t, b: one.b, h: &Home{Dir: dir}}
			two.start(machine)
			two.refused("the copy")
			two.start(machine)
			two.repair()
			two.start(machine)
			two.works("the copy, to which the directory moved")
			if machine == "" {
				one.start("")
				one.refused("the original")
			}
		})
	}
}

// Where the app may not write the description, two directories are not noticed. All else
// works.
func TestListTakesNoMark(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"list_edits_update_error", "permission_denied", "unknown_method"} {
		b := boardtest.Start(t)
		b.Faults.Always("slackLists.update", boardtest.ErrorCode(code))
		s := newSquad(t, b)
		s.works(code)
		s.works(code + " again")
		newSquad(t, b).works(code + " in another directory")
	}
}

// A person's description stays, and so does the mark when the description is read with it.
func TestMarkKeepsDescription(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	s := newSquad(t, b)
	blocks := `[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"What the squad does"}]}]}]`
	if err := b.Server.Describe("U0ALICE", b.ListID, blocks); err != nil {
		t.Fatal(err)
	}
	s.works("with a description")
	s.h.Close()
	s.start("")
	s.works("again")
	said, err := b.Server.Description(b.ListID)
	if err != nil || !strings.Contains(said, "What the squad does") || strings.Count(said, "OTM store") != 1 {
		t.Errorf("the description is %s, %v", said, err)
	}
	if err := b.Server.Describe("U0ALICE", b.ListID, blocks); err != nil {
		t.Fatal(err)
	}
	s.start("")
	s.works("after a person removed the mark")
	newSquad(t, b).refused("another directory")
}

// A list whose answers have no description is not marked: the mark might take a person's
// description away.
func TestListWithoutDescription(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	for _, method := range []string{"files.info", "slackLists.items.list"} {
		b.Faults.Always(method, boardtest.Rewrite("no description", func(answer map[string]any) {
			for _, key := range []string{"file", "list"} {
				if list, ok := answer[key].(map[string]any); ok {
					delete(list["list_metadata"].(map[string]any), "description_blocks")
				}
			}
		}))
	}
	newSquad(t, b).works("without a description")
	if n := b.Faults.Count("slackLists.update"); n > 0 {
		t.Errorf("the description was written %d times", n)
	}
}

// The database of a directory was lost: the store keeps its id, and its list.
func TestListOfLostStore(t *testing.T) {
	t.Parallel()
	s := newSquad(t, boardtest.Start(t))
	s.works("the first time")
	s.h.Close()
	if err := os.Remove(filepath.Join(s.h.Dir, store.FileName)); err != nil {
		t.Fatal(err)
	}
	s.start("")
	s.works("without otm.db")
}
