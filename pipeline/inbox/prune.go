package inbox

import (
	"errors"
	"io/fs"
	"time"

	"otm/internal/durable"
)

// Prune removes drops from processed/ that took effect more than keep ago, and
// returns how many. A file without a result of ours stays. Records know what was
// done: a drop that comes again later is still recognised.
//
// The clock alone deletes nothing, as it may have jumped ahead: drops must have
// settled within keep, the first of them an hour before the last. So after a
// jump nothing goes until the clock has stood there for an hour of work.
func (b *Box) Prune(now time.Time, keep time.Duration) (int, error) {
	names, err := b.SettledNames(ProcessedDir)
	if err != nil {
		return 0, err
	}
	var old []string
	var first, last time.Time
	for _, name := range names {
		info, err := durable.Lstat(b.settledPath(ProcessedDir, name))
		if err != nil || !info.Mode().IsRegular() || info.ModTime().After(now) {
			continue
		}
		at := info.ModTime()
		if now.Sub(at) > keep {
			old = append(old, name)
			continue
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	if last.Sub(first) < min(time.Hour, keep/2) {
		return 0, nil
	}
	pruned := 0
	for _, name := range old {
		s, err := b.ReadSettled(ProcessedDir, name)
		if err != nil || s.Result.At.IsZero() || now.Sub(s.Result.At) <= keep {
			continue
		}
		if err := durable.Remove(b.settledPath(ProcessedDir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return pruned, err
		}
		pruned++
	}
	return pruned, nil
}
