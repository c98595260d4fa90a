package inbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"otm/internal/crash"
	"otm/internal/durable"
	"otm/pipeline/drop"
)

// Class says why a drop failed.
type Class string

// The classes of failure.
const (
	Invalid   Class = "invalid"   // the file is no usable drop
	Unmatched Class = "unmatched" // it speaks of a task or a step that nobody knows
	Conflict  Class = "conflict"  // what it asks for contradicts what is
	Rejected  Class = "rejected"  // the board refuses it
)

// Result is what is added to a settled drop as _result.
type Result struct {
	At       time.Time `json:"at"`
	Inbox    Kind      `json:"inbox"`
	Attempts int       `json:"attempts"`

	// Where it took effect.
	SlackItemID      string   `json:"slackItemId,omitempty"`
	SubtaskItemIDs   []string `json:"subtaskItemIds,omitempty"`
	SkippedDuplicate bool     `json:"skippedDuplicate,omitempty"`
	DedupUnverified  bool     `json:"dedupUnverified,omitempty"`

	// Where it did not.
	Error string `json:"error,omitempty"`
	Class Class  `json:"class,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// Keys that settling adds to a drop.
const (
	resultKey  = "_result"
	skippedKey = "_skipped_duplicate"
)

// Settle gives a drop its last place: processed/ if result has no Class, else
// failed/. data is what was read of it. On return the settled copy is durable
// and the inbox file is gone, unless it was changed since it was read: then it
// stays, and is a drop of its own. Settle returns the settled file's name.
func (b *Box) Settle(f File, data []byte, result Result) (string, error) {
	dir := ProcessedDir
	if result.Class != "" {
		dir = FailedDir
	}
	result.Inbox = f.Kind
	if err := durable.MkdirAll(filepath.Join(b.dir, dir)); err != nil {
		return "", err
	}
	o, err := parseSettleable(f, data)
	if err != nil {
		return b.settleAsIs(f, dir, result)
	}
	o.Delete(skippedKey)
	if err := o.Set(resultKey, result); err != nil {
		return "", err
	}
	if result.SkippedDuplicate {
		if err := o.Set(skippedKey, true); err != nil {
			return "", err
		}
	}
	name, err := placeNew(filepath.Join(b.dir, dir), f.Name, func(path string) error {
		return durable.WriteNew(path, o.Bytes())
	})
	if err != nil {
		return "", err
	}
	crash.Point("settle.copied")
	// If we crash here, Leftover finds the copy and the inbox file is unlinked
	// by the next sweep.
	return name, b.unlink(f)
}

func parseSettleable(f File, data []byte) (*drop.Object, error) {
	if !f.Regular() {
		return nil, errors.New("not a regular file")
	}
	return drop.ParseObject(data)
}

// settleAsIs moves what is no JSON object, and writes its result beside it.
// The result comes first: if we crash in between, it is written again.
func (b *Box) settleAsIs(f File, dir string, result Result) (string, error) {
	return placeNew(filepath.Join(b.dir, dir), f.Name, func(path string) error {
		if _, err := os.Lstat(path); err == nil {
			return fs.ErrExist
		}
		o, _ := drop.ParseObject([]byte("{}"))
		if err := o.Set(resultKey, result); err != nil {
			return err
		}
		if err := durable.Replace(errorPath(path), o.Bytes()); err != nil {
			return err
		}
		crash.Point("settle.explained")
		err := durable.Move(b.path(f), path)
		if errors.Is(err, syscall.EXDEV) {
			return b.copyAcross(f, path)
		}
		return err
	})
}

// copyAcross settles a regular file from an inbox that is a link into another
// file system.
func (b *Box) copyAcross(f File, path string) error {
	if !f.Regular() {
		return fmt.Errorf("move %q to another file system: only files can be", b.path(f))
	}
	data, err := os.ReadFile(b.path(f))
	if err != nil {
		return err
	}
	if err := durable.WriteNew(path, data); err != nil {
		return err
	}
	return b.unlink(f)
}

// explainSuffix ends the names of files that explain others.
const explainSuffix = ".error.json"

// errorPath is where the result of a file that is no JSON object stands.
func errorPath(path string) string {
	return filepath.Join(filepath.Dir(path), fit(filepath.Base(path), explainSuffix))
}

// unlink removes an inbox file whose settled copy is durable, unless it is no
// longer what was read.
func (b *Box) unlink(f File) error {
	now, err := os.Lstat(b.path(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !os.SameFile(now, f.Info) || now.Size() != f.Info.Size() || !now.ModTime().Equal(f.Info.ModTime()) {
		return nil
	}
	err = os.Remove(b.path(f))
	crash.Point("settle.unlinked")
	return err
}

// Leftover tells whether f was settled already and only its unlinking is
// missing, and then unlinks it: a settled copy of the same drop, under the
// same name, that is younger than f.
func (b *Box) Leftover(f File, data []byte) (bool, error) {
	for _, dir := range []string{ProcessedDir, FailedDir} {
		path := b.settledPath(dir, f.Name)
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() || info.ModTime().Before(changeTime(f.Info)) {
			continue
		}
		settled, err := os.ReadFile(path)
		if err != nil || !sameDrop(settled, data) {
			continue
		}
		return true, b.unlink(f)
	}
	return false, nil
}

func sameDrop(settled, data []byte) bool {
	s, err := drop.ParseObject(settled)
	if err != nil {
		return bytes.Equal(settled, data)
	}
	d, err := drop.ParseObject(data)
	if err != nil {
		return false
	}
	for _, o := range []*drop.Object{s, d} {
		o.Delete(resultKey)
		o.Delete(skippedKey)
	}
	return bytes.Equal(s.Bytes(), d.Bytes())
}

// placeNew calls place with name, name-2, name-3 … until the name was free.
func placeNew(dir, name string, place func(path string) error) (string, error) {
	for n := 1; ; n++ {
		candidate := numbered(name, n)
		err := place(filepath.Join(dir, candidate))
		if err == nil {
			return candidate, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
}

func numbered(name string, n int) string {
	if n == 1 {
		return name
	}
	return fit(strings.TrimSuffix(name, ".json"), fmt.Sprintf("-%d.json", n))
}

// fit appends a suffix to a file name, shortening the name where both together
// would be longer than the 255 bytes that file systems allow.
func fit(name, suffix string) string {
	keep := min(len(name), 255-len(suffix))
	for keep < len(name) && keep > 0 && !utf8.RuneStart(name[keep]) {
		keep--
	}
	return name[:keep] + suffix
}
