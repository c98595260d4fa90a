package app

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"otm/internal/durable"
	"otm/internal/fsck"
)

// What a crash left half written goes from every folder, that of the secrets
// too; what is young, or nobody's temporary file, stays.
func TestLeftoversGo(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	old := time.Now().Add(-2 * time.Hour)
	stays := func(path string) bool {
		_, err := os.Lstat(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		return err == nil
	}
	for _, folder := range fsck.TempFolders {
		dir := filepath.Join(h.Dir, folder)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, age := range map[string]time.Time{durable.TempPrefix + "old": old, durable.TempPrefix + "young": time.Now(), "somebody's": old} {
			put(t, filepath.Join(dir, name), "xoxb-half")
			if err := os.Chtimes(filepath.Join(dir, name), age, age); err != nil {
				t.Fatal(err)
			}
		}
	}
	(&component{home: h}).clean()
	for _, folder := range fsck.TempFolders {
		dir := filepath.Join(h.Dir, folder)
		if stays(filepath.Join(dir, durable.TempPrefix+"old")) || !stays(filepath.Join(dir, durable.TempPrefix+"young")) || !stays(filepath.Join(dir, "somebody's")) {
			t.Errorf("in %q the wrong files went", folder)
		}
	}
}
