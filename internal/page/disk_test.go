package page

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"otm/internal/crash/crashtest"
)

// TestDiskFailsAtEachStep: at whichever step the disk refuses, that is told; a
// session's key never changes, and a code never works twice.
func TestDiskFailsAtEachStep(t *testing.T) {
	t.Parallel()
	crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
		dir := filepath.Join(t.TempDir(), "page")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		before, err := loadKey(dir)
		if err != nil {
			t.Fatal(err)
		}
		uses := 0
		refused, err := refuse(dir, func() error {
			key, err := loadKey(dir)
			if err == nil && !bytes.Equal(key, before) {
				t.Error("another key")
			}
			code, linkErr := NewLink(dir, noon)
			if linkErr != nil {
				return errors.Join(err, linkErr)
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
		if key, err := loadKey(dir); err != nil || !bytes.Equal(key, before) {
			t.Errorf("refused %q: afterwards another key, %v", refused, err)
		}
	})
	crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) { // the first key
		dir := filepath.Join(t.TempDir(), "page")
		var key []byte
		refused, err := refuse(dir, func() (err error) {
			key, err = loadKey(dir)
			return err
		})
		refused.Told(t, err, false)
		again, againErr := loadKey(dir)
		if againErr != nil || err == nil && !bytes.Equal(key, again) {
			t.Errorf("refused %q; again: %v", refused, againErr)
		}
	})
}
