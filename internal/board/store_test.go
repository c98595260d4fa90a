package board

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// openTest opens a board in dir, logging into the buffer.
func openTest(t *testing.T, dir string, logged *bytes.Buffer) (*Server, error) {
	t.Helper()
	o := Options{Dir: dir}
	if logged != nil {
		o.Log = slog.New(slog.NewTextHandler(logged, nil))
	}
	s, err := Open(o)
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return s, err
}

func mustOpen(t *testing.T, dir string) *Server {
	t.Helper()
	return mustOpenLogged(t, dir, nil)
}

func mustOpenLogged(t *testing.T, dir string, logged *bytes.Buffer) *Server {
	t.Helper()
	s, err := openTest(t, dir, logged)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustClose(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// titleColumn is the primary column of the default list.
func titleColumn(t testing.TB, s *Server) string {
	t.Helper()
	return s.columns()[0].ID
}

func mustAdd(t testing.TB, s *Server, title string) string {
	t.Helper()
	id, err := s.add("", textCell(titleColumn(t, s), title))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// dump is the whole published state as text, for comparison.
func dump(t testing.TB, s *Server) string {
	t.Helper()
	var out []string
	s.store.view(func(st *state) {
		for _, sh := range st.lists() {
			raw, err := marshal([]any{sh.list.ID, sh.list.Columns, sh.active, sh.updated, sh.editor, sh.kids})
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(raw))
			for _, r := range sh.order {
				raw, err := marshal(r)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, string(raw))
			}
			var gone []string
			for id := range sh.gone {
				gone = append(gone, id)
			}
			slices.Sort(gone)
			out = append(out, "gone "+strings.Join(gone, " "))
		}
	})
	return strings.Join(out, "\n")
}

func titles(t testing.TB, s *Server) []string {
	t.Helper()
	column := titleColumn(t, s)
	var got []string
	s.store.view(func(st *state) {
		for _, r := range st.shelves[s.listID].order {
			got = append(got, plainText(r.Cells[column]))
		}
	})
	slices.Sort(got)
	return got
}

func TestReopen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	token, list := s.Token(), s.ListID()
	one, two := mustAdd(t, s, "one"), mustAdd(t, s, "two <b>&\u2028\x00\U0001F600")
	if _, err := s.add(one, textCell(titleColumn(t, s), "step")); err != nil {
		t.Fatal(err)
	}
	archive := func(t *Tx) error {
		r := t.Row(list, two).Clone()
		r.Archived = true
		t.PutRow(r)
		return nil
	}
	if err := s.Edit("U0ALICE", archive); err != nil {
		t.Fatal(err)
	}
	if err := s.remove(mustAdd(t, s, "gone")); err != nil {
		t.Fatal(err)
	}
	want := dump(t, s)
	mustClose(t, s)
	s = mustOpen(t, dir)
	if got := dump(t, s); got != want {
		t.Errorf("after reopening:\n%s\nwant\n%s", got, want)
	}
	if s.Token() != token || s.ListID() != list {
		t.Errorf("token or list changed")
	}
	if got, err := ReadToken(dir); err != nil || got != token || !strings.HasPrefix(got, tokenPrefix) {
		t.Errorf("ReadToken: %q, %v", got, err)
	}
	for _, name := range []string{rowsFile, tokenFile} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", name, info.Mode(), err)
		}
	}
}

func TestDirectoryIsLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	if _, err := openTest(t, dir, nil); !errors.Is(err, ErrInUse) {
		t.Errorf("second open: %v, want ErrInUse", err)
	}
	mustAdd(t, s, "still works")
	mustClose(t, s)
	mustOpen(t, dir)
}

func TestOpenMakesOneDirectoryAtMost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := openTest(t, filepath.Join(dir, "a", "b"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open below a missing parent: %v", err)
	}
	mustOpen(t, filepath.Join(dir, "board"))
	if info, err := os.Stat(filepath.Join(dir, "board")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v; want mode 0700", info, err)
	}
}

func TestBadToken(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n", "two words", strings.Repeat("\x00", 36)} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, tokenFile), []byte(text))
		if _, err := openTest(t, dir, nil); err == nil {
			t.Errorf("token %q was taken", text)
		}
	}
	dir := t.TempDir()
	if _, err := ReadToken(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadToken of nothing: %v", err)
	}
	write(t, filepath.Join(dir, tokenFile), []byte("xoxb-my-own\n"))
	if s := mustOpen(t, dir); s.Token() != "xoxb-my-own" {
		t.Errorf("token %q", s.Token())
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := mustOpen(t, dir)
	mustClose(t, first)
	for name, o := range map[string]Options{
		"no directory":     {},
		"no token":         {Dir: dir, Identities: []Identity{{UserID: "U0ALICE"}}},
		"no user":          {Dir: dir, Identities: []Identity{{Token: "xoxp-alice"}}},
		"the bot's token":  {Dir: dir, Identities: []Identity{{Token: first.Token(), UserID: "U0ALICE"}}},
		"file for a board": {Dir: filepath.Join(dir, tokenFile)},
	} {
		if s, err := Open(o); err == nil {
			s.Close()
			t.Errorf("%s: no error", name)
		}
	}
	mustOpen(t, dir) // the refused ones have let go of it
}

// The token is a secret: it must not stand in a log or an error.
func TestTokenIsNotLogged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var logged bytes.Buffer
	s := mustOpenLogged(t, dir, &logged)
	if _, err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	if logged.Len() == 0 || strings.Contains(logged.String(), s.Token()) {
		t.Errorf("log: %s", logged.String())
	}
}

func fileSize(t *testing.T, dir string) int {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, rowsFile))
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Size())
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func listDir(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// The log is one JSON object a line, as documented.
func TestLogLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	mustAdd(t, s, "a\nb")
	mustClose(t, s)
	raw, err := os.ReadFile(filepath.Join(dir, rowsFile))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	if len(lines) != 3 {
		t.Errorf("%d lines, want 3", len(lines))
	}
	for _, l := range lines {
		var v map[string]any
		if err := json.Unmarshal([]byte(l), &v); err != nil {
			t.Errorf("line %q: %v", l, err)
		}
	}
}

// A store of a former version opens, with a second list, a column of a kind that
// the board no longer knows, grants, and the numbers that its lines had.
func TestFormerStore(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("testdata", "former-rows.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, rowsFile), raw)
	s := mustOpen(t, dir)
	if got := titles(t, s); !slices.Equal(got, []string{"step", "task"}) {
		t.Errorf("rows %q", got)
	}
	s.store.view(func(st *state) {
		if len(st.shelves) != 2 {
			t.Fatalf("%d lists", len(st.shelves))
		}
		for id, sh := range st.shelves {
			for _, r := range sh.order {
				if item := string(renderItem(sh.list, r)); !json.Valid([]byte(item)) || id != s.listID && (!strings.Contains(item, "other") || strings.Contains(item, "originalUrl")) {
					t.Errorf("row %s", item)
				}
			}
		}
	})
	mustAdd(t, s, "new")
	want := dump(t, s)
	mustClose(t, s)
	if got := dump(t, mustOpen(t, dir)); got != want {
		t.Errorf("after reopening:\n%s\nwant\n%s", got, want)
	}
}
