package board

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A torn last record goes, whatever is left of it. All records before it stay,
// and the file takes appends again.
func TestTornTail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	mustAdd(t, s, "first")
	before := dump(t, s)
	start := fileSize(t, dir)
	mustAdd(t, s, "last é\U0001F600")
	after := dump(t, s)
	mustClose(t, s)
	whole, err := os.ReadFile(filepath.Join(dir, rowsFile))
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(dir, tokenFile))
	if err != nil {
		t.Fatal(err)
	}
	const parts = 8 // side by side, as each cut costs several fsyncs
	for part := range parts {
		t.Run(fmt.Sprint("part ", part), func(t *testing.T) {
			t.Parallel()
			for cut := start + part; cut <= len(whole); cut += parts {
				want := before
				if cut >= len(whole)-1 { // only the line feed is missing, or nothing
					want = after
				}
				torn := cut > start && cut < len(whole)-1
				checkTorn(t, token, whole[:cut], want, torn)
			}
		})
	}
}

// checkTorn opens a board with the rows, which must show as want, and checks
// that it takes appends.
func checkTorn(t *testing.T, token, rows []byte, want string, torn bool) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, tokenFile), token)
	write(t, filepath.Join(dir, rowsFile), rows)
	var logged bytes.Buffer
	s, err := openTest(t, dir, &logged)
	if err != nil {
		t.Fatalf("cut at %d: %v", len(rows), err)
	}
	if got := dump(t, s); got != want {
		t.Fatalf("cut at %d: got\n%s\nwant\n%s", len(rows), got, want)
	}
	if said := strings.Contains(logged.String(), "dropped torn record"); said != torn {
		t.Errorf("cut at %d: log %q", len(rows), logged.String())
	}
	mustAdd(t, s, "appended")
	want = dump(t, s)
	mustClose(t, s)
	s = mustOpen(t, dir)
	if got := dump(t, s); got != want {
		t.Fatalf("cut at %d, appended, reopened: got\n%s\nwant\n%s", len(rows), got, want)
	}
	mustClose(t, s)
	if names := listDir(t, dir); len(names) != 2 {
		t.Fatalf("cut at %d: files %v", len(rows), names)
	}
}

func TestCorruptStoreIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	for i := range 5 {
		mustAdd(t, s, fmt.Sprint("row ", i))
	}
	mustClose(t, s)
	whole, err := os.ReadFile(filepath.Join(dir, rowsFile))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))[:7] // header, list, five rows
	join := func(change func([][]byte) [][]byte) []byte {
		return bytes.Join(change(slices.Clone(lines)), nil)
	}
	for name, c := range map[string]struct {
		data  []byte
		where string
	}{
		"garbage in the middle": {join(func(l [][]byte) [][]byte { l[3] = []byte("garbage\n"); return l }), "line 4:"},
		"zeros in the middle":   {join(func(l [][]byte) [][]byte { l[4] = make([]byte, len(l[4])); return l }), "line 5:"},
		"cut in the middle":     {join(func(l [][]byte) [][]byte { l[2] = l[2][:20]; return l }), "line 3:"},
		"line twice":            {join(func(l [][]byte) [][]byte { return slices.Insert(l, 4, l[3]) }), "line 5:"},
		"line missing":          {join(func(l [][]byte) [][]byte { return slices.Delete(l, 3, 4) }), "line 4:"},
		"lines exchanged":       {join(func(l [][]byte) [][]byte { l[3], l[4] = l[4], l[3]; return l }), "line 4:"},
		"the list is garbage":   {join(func(l [][]byte) [][]byte { l[1] = []byte("{\n"); return l }), "line 2:"},
		"only the header":       {lines[0], "line 2:"},
		"header cut":            {lines[0][:10], "line 1:"},
		"no header":             {join(func(l [][]byte) [][]byte { return l[1:] }), "line 1:"},
		"empty":                 {nil, "line 1:"},
		"cut before an answer": {join(func(l [][]byte) [][]byte {
			l[0] = bytes.Replace(l[0], []byte(`"synced":1`), []byte(`"synced":9`), 1)
			l[6] = bytes.TrimSuffix(l[6], []byte("\n"))
			return l
		}), "line 8:"},
		"deletion in another list": {join(func(l [][]byte) [][]byte {
			l[6] = []byte(`{"seq":6,"deleted":[{"list":"F0NOTHING","id":"Rec1"}]}` + "\n")
			return l
		}), "line 7:"},
		"no default list": {join(func(l [][]byte) [][]byte {
			l[1] = bytes.Replace(l[1], []byte(`"default":true`), []byte(`"default":false`), 1)
			return l
		}), "no default list"},
		"row of another list": {join(func(l [][]byte) [][]byte {
			l[6] = bytes.ReplaceAll(l[6], []byte(s.ListID()), []byte("F0NOTHING"))
			return l
		}), "line 7:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, rowsFile)
			write(t, path, c.data)
			_, err := openTest(t, dir, nil)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.where) || !strings.Contains(err.Error(), path) {
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

func TestNewerVersionIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, rowsFile), []byte(`{"format":"otm-board","version":2,"synced":0}`+"\n"))
	_, err := openTest(t, dir, nil)
	if err == nil || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("open: %v", err)
	}
}
