package board

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
)

// TestDiskFailsAtEachStep: the disk refuses one step of opening a board and adding
// a row, whichever. The caller gets the error, and after another open the board
// has each acknowledged row once.
func TestDiskFailsAtEachStep(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(rows []byte) []byte{
		"new":             nil,
		"whole":           func(rows []byte) []byte { return rows },
		"torn":            func(rows []byte) []byte { return append(rows, `{"seq":`...) },
		"torn in a line":  func(rows []byte) []byte { return append(rows, "{\"seq\":\n"...) },
		"without an end":  func(rows []byte) []byte { return bytes.TrimSuffix(rows, []byte("\n")) },
		"to be compacted": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template := t.TempDir()
			if spoil != nil || name == "to be compacted" {
				s := mustOpen(t, template)
				if spoil == nil {
					churn(t, s, openGarbage+20)
				}
				mustAdd(t, s, "before")
				mustClose(t, s)
			}
			crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
				dir := filepath.Join(t.TempDir(), "board")
				if spoil != nil || name == "to be compacted" {
					if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
						t.Fatal(err)
					}
				}
				path := filepath.Join(dir, rowsFile)
				if spoil != nil {
					rows, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					write(t, path, spoil(rows))
				}
				added := false
				var logged bytes.Buffer
				refused, err := refuse(dir, func() error {
					s, err := openTest(t, dir, &logged)
					if err != nil {
						return err
					}
					_, err = s.add("", textCell(titleColumn(t, s), "added"))
					added = err == nil
					return errors.Join(err, s.Close())
				})
				told := err != nil || strings.Contains(logged.String(), "store not compacted")
				if told != refused.Came() && !refused.Of("read directory", "") && !refused.Of("remove", "") {
					t.Errorf("refused %q, and was told: %v, %s", refused, err, logged.String())
				}
				s := mustOpen(t, dir)
				if !added {
					mustAdd(t, s, "added")
				}
				mustClose(t, s)
				got := dump(t, mustOpen(t, dir))
				most := 1
				if !added {
					most = 2 // it may have been written, and nobody was told
				}
				if n := strings.Count(got, `"added"`); n < 1 || n > most || strings.Contains(got, `"before"`) == (name == "new") {
					t.Errorf("refused %q: %v; added %t; in the end\n%s", refused, err, added, got)
				}
			})
		})
	}
}

// TestUndoRefused: if neither a row nor its undoing can be written, the board
// ends. The next open shows the acknowledged rows.
func TestUndoRefused(t *testing.T) {
	t.Parallel()
	for _, also := range []string{"truncate", "sync"} {
		dir := t.TempDir()
		s := mustOpen(t, dir)
		mustAdd(t, s, "before")
		crashtest.Below(t, dir, func(step, path string) error {
			if strings.HasSuffix(path, rowsFile) && (step == "write" || step == also) {
				return syscall.ENOSPC
			}
			return nil
		})
		if _, err := s.add("", textCell(titleColumn(t, s), "refused")); err == nil {
			t.Errorf("write and %s refused, and nobody is told", also)
		}
		<-s.store.broken
		if err := s.store.failure; !errors.Is(err, errUnknownState) {
			t.Errorf("write and %s refused: the board ends with %v", also, err)
		}
		s.Close()
		crashtest.Below(t, dir, func(string, string) error { return nil })
		got := dump(t, mustOpen(t, dir))
		if !strings.Contains(got, `"before"`) || strings.Contains(got, `"refused"`) {
			t.Errorf("in the end\n%s", got)
		}
	}
}
