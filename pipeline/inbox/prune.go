package inbox

import (
	"errors"
	"io/fs"
	"time"

	"otm/internal/durable"
)

// Prune removes settled drops from processed/ that took effect before a time,
// and returns how many. What carries no
// result of ours is somebody else's, and stays. The records know what was done:
// a drop that comes again after its copy went is still known.
func (b *Box) Prune(before time.Time) (int, error) {
	names, err := b.SettledNames(ProcessedDir)
	if err != nil {
		return 0, err
	}
	pruned := 0
	for _, name := range names {
		path := b.settledPath(ProcessedDir, name)
		info, err := durable.Lstat(path)
		if err != nil || !info.Mode().IsRegular() || !info.ModTime().Before(before) {
			continue
		}
		s, err := b.ReadSettled(ProcessedDir, name)
		if err != nil || s.Result.At.IsZero() || !s.Result.At.Before(before) {
			continue
		}
		if err := durable.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return pruned, err
		}
		pruned++
	}
	return pruned, nil
}
