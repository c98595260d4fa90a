package inbox

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"otm/internal/crash"
	"otm/internal/durable"
)

// unchanged reports whether the inbox file is still what was read.
func unchanged(path string, f File) (bool, error) {
	now, err := durable.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	return unchangedFile(f.Info, now), nil
}

// unlink removes an inbox file whose settled copy is durable, unless it changed
// since it was read.
func (b *Box) unlink(f File) error {
	if same, err := unchanged(b.path(f), f); !same || err != nil {
		return err
	}
	// A writer may rename its next file over this name at any moment. So the file
	// is renamed first, and then compared once more.
	crash.Point("settle.unlinking")
	taken := filepath.Join(b.Dir(f.Kind), takenName(f.Name))
	if err := durable.RenameVolatile(b.path(f), taken); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	crash.Point("settle.taken")
	// If we crash or fail here, PutBack decides what the renamed file is.
	now, err := durable.Lstat(taken)
	if err != nil {
		return err
	}
	if !unchangedFile(f.Info, now) {
		return deliverTaken(taken)
	}
	err = durable.Remove(taken)
	crash.Point("settle.unlinked")
	return err
}

// takenPrefix begins the name of a file that was taken out of the way. Such a
// file is not temporary: it may be a drop that nobody has read yet.
const takenPrefix = ".otm-taken-"

// takenName is a unique name for a file that is taken out of the way.
func takenName(name string) string {
	return fit(fmt.Sprintf("%s%016x-%s", takenPrefix, rand.Uint64(), name), "")
}

// nameOfTaken is the name under which a taken file was delivered; false if the
// file is none of ours: we take only what was delivered. A very long name was
// shortened.
func nameOfTaken(taken string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(taken, takenPrefix)
	if !ok {
		return "", false
	}
	_, name, _ = strings.Cut(rest, "-")
	name = strings.TrimSuffix(name, ".json") + ".json"
	return name, Delivered(name)
}

// Stuck is a file that a crash left out of the way in an inbox and that could
// not be judged.
type Stuck struct {
	Name string // in the inbox: hidden, no sweep reads it
	Err  error
}

// PutBack finishes what a crash interrupted in an inbox: a file that was taken
// out of the way and is settled is removed, and one that came in its place at
// that moment is delivered again. Each file is judged by itself; those that
// could not be are returned, and the next call tries them again. The error is
// about the inbox as a whole. Only the holder of the injector's work lock may
// call it.
func (b *Box) PutBack(kind Kind) ([]Stuck, error) {
	names, err := b.Taken(kind)
	if err != nil {
		return nil, err
	}
	var stuck []Stuck
	for _, taken := range names {
		path := filepath.Join(b.Dir(kind), taken)
		settled, err := b.isSettledCopy(kind, path)
		switch {
		case err != nil:
		case settled:
			err = durable.Remove(path)
		default:
			err = deliverTaken(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			stuck = append(stuck, Stuck{taken, err})
		}
	}
	return stuck, nil
}

// Taken lists the files that stand out of the way in an inbox. While no
// injector works there, each is one that PutBack could not judge.
func (b *Box) Taken(kind Kind) ([]string, error) {
	entries, err := durable.ReadDir(b.Dir(kind))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if _, ok := nameOfTaken(e.Name()); ok {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// deliverTaken delivers a taken file again, under its name or the next that is free.
func deliverTaken(taken string) error {
	name, _ := nameOfTaken(filepath.Base(taken))
	_, err := placeNew(filepath.Dir(taken), name, func(path string) error { return durable.Move(taken, path) })
	return err
}

// isSettledCopy reports whether a taken file is settled under the name it had.
func (b *Box) isSettledCopy(kind Kind, path string) (bool, error) {
	data, _, err := loadForeign(path)
	if data == nil || err != nil {
		return false, err
	}
	name, _ := nameOfTaken(filepath.Base(path))
	_, settled, err := b.Find(kind, name, data)
	return settled, err
}
