package board

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// formerRows is a rows.jsonl of a former version, with a second list, a column of a
// kind that the board no longer knows, grants, a deleted row, and the numbers that
// its lines had. It has a header and eight entries.
func formerRows(t *testing.T) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "former-rows.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// formerDir is a board's directory with these rows.
func formerDir(t *testing.T, rows []byte) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, formerFile), rows)
	return dir
}

// checkImported opens the board, and checks the titles of its rows. The former file
// stands beside it under another name.
func checkImported(t *testing.T, dir string, want ...string) *Server {
	t.Helper()
	s := mustOpen(t, dir)
	if got := titles(t, s); !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, formerFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the former file still has its name: %v", err)
	}
	return s
}

func TestImport(t *testing.T) {
	t.Parallel()
	rows := formerRows(t)
	dir := formerDir(t, rows)
	s := checkImported(t, dir, "step", "task")
	kept, err := os.ReadFile(filepath.Join(dir, "rows.jsonl.before-sqlite"))
	if err != nil || !bytes.Equal(kept, rows) {
		t.Errorf("the former file is not kept: %v", err)
	}
	err = s.View(func(tx *Tx) error {
		if n := len(tx.texts("SELECT id FROM lists")); n != 2 {
			t.Errorf("%d lists", n)
		}
		for _, item := range tx.texts("SELECT item FROM rows WHERE list = 'F2S3KBSNGE3'") {
			if !json.Valid([]byte(item)) || !strings.Contains(item, "other") || strings.Contains(item, "originalUrl") {
				t.Errorf("row %s", item)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustAdd(t, s, "new")
	mustClose(t, s)
	s = checkImported(t, dir, "new", "step", "task")
	mustClose(t, s)

	// An older file was put back: its rows are not imported over ours, and the kept file
	// is not overwritten.
	write(t, filepath.Join(dir, formerFile), append(rows, `{"seq":9}`...))
	if _, err := openTest(t, dir, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("two stores: %v", err)
	}
}

// A torn last line goes, whatever is left of it; nobody had an answer for it. All
// lines before it stay.
func TestTornTail(t *testing.T) {
	t.Parallel()
	last := []byte(`{"seq":9,"deleted":[{"list":"FIDXJKTOVHD","id":"Rec0VYDVFP7C3"}]}` + "\n") // the step
	for cut := 0; cut <= len(last); cut += 7 {
		s := checkImported(t, formerDir(t, append(formerRows(t), last[:cut]...)), "step", "task")
		mustClose(t, s)
	}
	for _, end := range []int{len(last), len(last) - 1} {
		checkImported(t, formerDir(t, append(formerRows(t), last[:end]...)), "task")
	}
}

func TestCorruptFormerStoreIsRefused(t *testing.T) {
	t.Parallel()
	lines := bytes.SplitAfter(formerRows(t), []byte("\n"))
	join := func(change func([][]byte) [][]byte) []byte {
		return bytes.Join(change(slices.Clone(lines)), nil)
	}
	for name, c := range map[string]struct {
		data  []byte
		where string
	}{
		"garbage in the middle": {join(func(l [][]byte) [][]byte { l[3] = []byte("garbage\n"); return l }), "line 4:"},
		"zeros in the middle":   {join(func(l [][]byte) [][]byte { l[4] = make([]byte, len(l[4])); return l }), "line 5:"},
		"line twice":            {join(func(l [][]byte) [][]byte { return slices.Insert(l, 4, l[3]) }), "line 5:"},
		"line missing":          {join(func(l [][]byte) [][]byte { return slices.Delete(l, 3, 4) }), "line 4:"},
		"only the header":       {lines[0], "no default list"},
		"header cut":            {lines[0][:10], "line 1:"},
		"empty":                 {nil, "line 1:"},
		"no default list": {join(func(l [][]byte) [][]byte {
			for i := range l {
				l[i] = bytes.Replace(l[i], []byte(`"default":true`), []byte(`"default":false`), 1)
			}
			return l
		}), "no default list"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := formerDir(t, c.data)
			path := filepath.Join(dir, formerFile)
			_, err := openTest(t, dir, nil)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.where) {
				t.Errorf("open: %v, want ErrCorrupt naming %s", err, c.where)
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, c.data) {
				t.Errorf("the file was changed: %v", err)
			}
			// The directory is free again.
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			mustOpen(t, dir)
		})
	}
}

func TestDamagedDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	if err := s.Edit("", func(tx *Tx) error { tx.exec("PRAGMA user_version = 2"); return nil }); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	if _, err := openTest(t, dir, nil); err == nil || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("of a newer program: %v", err)
	}
	garbage := bytes.Repeat([]byte("garbage\n"), 1000)
	path := filepath.Join(dir, rowsFile)
	write(t, path, garbage)
	if _, err := openTest(t, dir, nil); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), path) {
		t.Errorf("garbage: %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, garbage) {
		t.Errorf("the file was changed: %v", err)
	}
}
