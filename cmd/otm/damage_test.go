package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"otm/internal/crash/crashtest"
	"otm/internal/sqlite"
)

// lookAround runs what looks and what works, as people and timers do, and
// returns all that was said.
func (h *house) lookAround() string {
	h.Helper()
	var all strings.Builder
	for _, line := range []string{
		"otm-create --key four --title Four --agent devdas", "otm-create --key one --title One --agent devdas --subtask a --subtask b --subtask c", "otm-injector --once", "otm-dispatcher --once", "otm-completion-detector --once",
		"otm next --agent devdas", "otm status", "otm doctor", "otm fsck",
	} {
		words := strings.Fields(line)
		said, _ := h.calm(words[0], words[1:]...)
		fmt.Fprintf(&all, "$ %s\n%s", line, said)
	}
	return all.String()
}

// stateFile is a file that OTM writes, and what its damage leads to.
type stateFile struct {
	path string // below the house; * stands for what differs
	says string // what somebody then says; "": nobody, as it is made again and nothing is lost with it
	// kept: nothing goes on that needs it until a person has put it back.
	kept bool
	// but is a damage that nobody can tell from a proper file.
	but string
	// with it a task is lost that nobody has read of; its drop is in failed/.
	loses string
}

var stateFiles = []stateFile{
	{path: "data dir/format", says: `its file format holds`, kept: true, but: "cut"},
	{path: "data dir/otm.toml", says: `otm: error: configuration|unknown agent|no agent`, kept: true},
	{path: "data dir/next-task-id.json", says: `counter unusable: next-task-id.json holds`, but: "cut"}, // it is padded with blanks
	{path: "data dir/locks/next-task-id"},
	{path: "data dir/otm.db", says: `otm: error: .*otm\.db`, kept: true},
	{path: "data dir/tasks/*.json"},
	{path: "data dir/keys/*.json", says: `the key .* is damaged|key file`},
	{path: "data dir/processed/*.json"},
	{path: "data dir/task-updates/*.json", says: `level=ERROR msg="drop failed" .*inbox=task-updates class=invalid`},
	{path: "data dir/new-tasks/*.json", says: `level=ERROR msg="drop failed" .*inbox=new-tasks class=invalid`, loses: "Five"},
	{path: "data dir/board/snapshot.json"},
	{path: "data dir/board/changed"},
	{path: "data dir/board/board.db", says: `otm: error: .*board\.db`, kept: true},
	{path: "data dir/board/token", says: `token file ".*" holds no token`, kept: true, but: "cut"},
	{path: "data dir/board/endpoint.json"},
	{path: "data dir/otm-injector-state.json"},
	{path: "data dir/otm-dispatcher-state.json"},
	{path: "data dir/otm-completion-detector-state.json"},
	{path: "ws/task-dispatch.json", says: `dispatch file was not JSON, set aside`, but: "empty"}, // one without entries
	{path: "ws/agent-state.json"},
}

var damages = []struct {
	name string
	do   func(data []byte) []byte
}{
	{"NUL", func(data []byte) []byte { return make([]byte, len(data)) }},
	{"empty", func([]byte) []byte { return nil }},
	{"cut", func(data []byte) []byte { return data[:len(data)/2] }},
}

// TestDamagedFiles damages each file that OTM writes, while tasks are on their
// way: either it is made again, and what was lost with it is said, or nothing
// that needs it works until a person has put it back, and that is said. No task
// is lost but one whose drop is damaged before OTM has read it: that fails, and
// is kept. OTM_TEST_WHOLE=1 damages each by itself in each way; else those that
// are made again are damaged all at once, in two ways of three, and one of the others alone.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "is a walk")
	choice := choices(t)
	spared := choice.IntN(len(damages))
	var alone []func()
	for i, d := range damages {
		var healing []stateFile
		for _, f := range stateFiles {
			if f.but == d.name {
				continue
			}
			if !f.kept {
				healing = append(healing, f)
			}
			if f.kept || crashtest.Whole() {
				alone = append(alone, func() {
					t.Run(strings.ReplaceAll(f.path, "/", " ")+" "+d.name, func(t *testing.T) {
						t.Parallel()
						newWornHouse(t).damage(d.do, f)
					})
				})
			}
		}
		if crashtest.Whole() || i != spared {
			t.Run("all that is made again "+d.name, func(t *testing.T) {
				t.Parallel()
				newWornHouse(t).damage(d.do, healing...)
			})
		}
	}
	if one := choice.IntN(len(alone)); !crashtest.Whole() {
		alone = alone[one : one+1]
	}
	for _, run := range alone {
		run()
	}
}

// newWornHouse is a house in which every file stands that OTM writes, and no
// process runs: one task is in the history, one at work, one to be dispatched,
// one to be brought to the board.
func newWornHouse(t *testing.T) *house {
	h := newHouse(t)
	h.startBoard("")
	h.within = !crashtest.Whole()
	h.live(0)
	h.must("otm", "next", "--agent", "devdas")
	h.must("otm-update", "--task-id", h.acknowledged["two"], "--subtask-done", "1")
	h.must("otm-create", "--title", "Five", "--agent", "devdas")
	h.killBoard()
	for _, path := range []string{"board/board.db", "otm.db"} {
		db, err := sqlite.Open(h.Context(), filepath.Join(h.dir, path), sqlite.Options{})
		if err == nil {
			err = db.Close() // so that a -wal file does not heal the database
		}
		if err != nil {
			h.Fatal(err)
		}
	}
	return h
}

// damage damages files, looks around, and lets all recover.
func (h *house) damage(do func([]byte) []byte, files ...stateFile) {
	h.Helper()
	h.within = false
	whole := map[string][]byte{} // of the files that are to be put back
	for _, f := range files {
		found, err := filepath.Glob(filepath.Join(h.root, f.path))
		if err != nil || len(found) == 0 {
			h.Fatalf("no %s: %v", f.path, err)
		}
		for _, path := range found {
			data, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, do(bytes.Clone(data)), 0o600)
			}
			if err != nil {
				h.Fatal(err)
			}
			if f.kept {
				whole[path] = data
			}
		}
	}
	why, boardRuns := h.tryBoard("")
	if !boardRuns && !strings.Contains(why, "error: ") {
		h.Errorf("the board ended without a reason: %s", why)
	}
	said := why + h.lookAround()
	for _, f := range files {
		if !regexp.MustCompile(f.says).MatchString(said) {
			h.Errorf("nobody says %q:\n%s", f.says, said)
		}
	}
	for path, data := range whole {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			h.Fatal(err)
		}
	}
	if !boardRuns {
		h.startBoard("")
	}
	h.within = !crashtest.Whole()
	titles := []string{"One", "Two", "Three", "Four", "Five"}
	for _, f := range files {
		if f.loses != "" && count(h.dir, "failed") == 0 {
			h.Errorf("the drop of %s is gone", f.loses)
		}
		titles = slices.DeleteFunc(titles, func(title string) bool { return title == f.loses })
	}
	h.recovered(titles...)
}
