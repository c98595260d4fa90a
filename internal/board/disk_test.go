package board

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
)

// TestDiskFailsAtEachStep: the disk refuses one step of opening a board and adding
// a row, whichever. The caller gets the error, and after another open the board
// has each acknowledged row once.
func TestDiskFailsAtEachStep(t *testing.T) {
	t.Parallel()
	for name, rows := range map[string][]byte{"new": nil, "former": formerRows(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
				dir := filepath.Join(t.TempDir(), "board")
				if rows != nil {
					if err := os.Mkdir(dir, 0o700); err != nil {
						t.Fatal(err)
					}
					write(t, filepath.Join(dir, formerFile), rows)
				}
				added := false
				refused, err := refuse(dir, func() error {
					s, err := openTest(t, dir, nil)
					if err != nil {
						return err
					}
					_, err = s.add("", textCell(titleColumn(t, s), "added"))
					added = err == nil
					return errors.Join(err, s.Close())
				})
				refused.Told(t, err, refused.Of("read directory", "") || refused.Of("remove", "") || refused.Of("write", "/"+lockFile))
				s := mustOpen(t, dir)
				if !added {
					mustAdd(t, s, "added")
				}
				mustClose(t, s)
				want := []string{"added"}
				if rows != nil {
					want = []string{"added", "step", "task"}
				}
				if got := titles(t, mustOpen(t, dir)); !slices.Equal(got, want) {
					t.Errorf("refused %q: %v; added %t; in the end %q", refused, err, added, got)
				}
			})
		})
	}
}
