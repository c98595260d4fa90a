package board

import (
	"bytes"
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

// dump is the whole database as text, for comparison.
func dump(t testing.TB, s *Server) string {
	t.Helper()
	var out []string
	err := s.View(func(tx *Tx) error {
		for _, query := range []string{
			"SELECT list FROM lists ORDER BY id",
			"SELECT seq || row || item FROM rows ORDER BY seq",
		} {
			out = append(out, tx.texts(query)...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "\n")
}

func titles(t testing.TB, s *Server) []string {
	t.Helper()
	column := titleColumn(t, s)
	var got []string
	err := s.View(func(tx *Tx) error {
		for _, r := range tx.Rows(s.ListID()) {
			got = append(got, text(r.Cells[column]))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
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

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
