package page

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
)

// TestDiskFailsAtEachStep: at whichever step the disk refuses, that is told; a
// code never works twice.
func TestDiskFailsAtEachStep(t *testing.T) {
	t.Parallel()
	crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
		dir := filepath.Join(t.TempDir(), "page")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		uses := 0
		refused, err := refuse(dir, func() error {
			code, err := NewLink(dir, noon)
			if err != nil {
				return err
			}
			for range 3 {
				ok, useErr := useLink(dir, code, noon)
				if ok {
					uses++
				}
				err = errors.Join(err, useErr)
			}
			return err
		})
		refused.Told(t, err, false)
		if uses > 1 || err == nil && uses != 1 {
			t.Errorf("refused %q: %v; the code worked %d times", refused, err, uses)
		}
	})
}
