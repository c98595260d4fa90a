package inbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Only what we settled, and long ago, goes; what failed never does.
func TestPrune(t *testing.T) {
	t.Parallel()
	b := Open(t.TempDir())
	now := time.Now()
	old := now.Add(-40 * 24 * time.Hour)
	put := func(dir, name, content string, at time.Time) {
		t.Helper()
		path := filepath.Join(b.dir, dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	result := func(at time.Time) string {
		return `{"taskId":"T-00001","_result":{"at":"` + at.UTC().Format(time.RFC3339) + `","inbox":"new-tasks","attempts":1}}`
	}
	put(ProcessedDir, "old.json", result(old), old)
	put(ProcessedDir, "young.json", result(now), now)
	put(ProcessedDir, "restored.json", result(now), old) // its time was set back by a copy
	put(ProcessedDir, "touched.json", result(old), now)  // somebody did something with it
	put(ProcessedDir, "foreign.json", `{"a":1}`, old)    // not ours
	put(ProcessedDir, "notes.txt", "mine", old)
	put(FailedDir, "failed.json", result(old), old)
	const keep = 30 * 24 * time.Hour
	// C54: a clock that jumped ahead deletes nothing, though drops settle by it,
	// until it has stood there for an hour.
	year := now.Add(365 * 24 * time.Hour)
	for _, jumped := range []time.Duration{0, time.Minute, 50 * time.Minute} {
		if n, err := b.Prune(year.Add(jumped), keep); n != 0 || err != nil {
			t.Errorf("%v after the clock jumped: pruned %d, %v", jumped, n, err)
		}
		put(ProcessedDir, "jumped-"+jumped.String()+".json", result(year.Add(jumped)), year.Add(jumped))
	}
	for _, name := range []string{"jumped-0s.json", "jumped-1m0s.json", "jumped-50m0s.json"} {
		if err := os.Remove(filepath.Join(b.dir, ProcessedDir, name)); err != nil {
			t.Fatal(err)
		}
	}
	put(ProcessedDir, "hours.json", result(now.Add(-2*time.Hour)), now.Add(-2*time.Hour))
	n, err := b.Prune(now, keep)
	if err != nil || n != 1 {
		t.Errorf("pruned %d, %v", n, err)
	}
	var left []string
	for _, dir := range []string{ProcessedDir, FailedDir} {
		entries, err := os.ReadDir(filepath.Join(b.dir, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			left = append(left, e.Name())
		}
	}
	if got := strings.Join(left, " "); got != "foreign.json hours.json notes.txt restored.json touched.json young.json failed.json" {
		t.Errorf("left: %s", got)
	}
	if n, err := Open(t.TempDir()).Prune(now, keep); err != nil || n != 0 {
		t.Errorf("without a directory: %d, %v", n, err)
	}
}
