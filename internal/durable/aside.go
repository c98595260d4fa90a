package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// keptAside is how many copies of one damaged file are kept, the newest.
const keptAside = 5

// SetAside moves a damaged file out of the way and returns its new path: its own
// with .corrupt- and stamp, or stamp-2 and so on if that is taken. Stamps sort by their
// time. It is durable on return. Equal bytes are kept once: if a copy has those of the
// file, the file is removed, and that copy's path is returned. Only the newest few copies
// are kept.
func SetAside(path, stamp string) (string, error) {
	dir, prefix := filepath.Dir(path), filepath.Base(path)+".corrupt-"
	entries, err := ReadDir(dir) // in the order of names
	if err != nil {
		return "", err
	}
	var copies []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || !e.Type().IsRegular() {
			continue
		}
		copies = append(copies, filepath.Join(dir, e.Name()))
		if c := copies[len(copies)-1]; SameContent(path, c) {
			return c, Remove(path)
		}
	}
	aside := filepath.Join(dir, prefix+stamp)
	err = Move(path, aside)
	for n := 2; errors.Is(err, fs.ErrExist); n++ {
		aside = filepath.Join(dir, fmt.Sprintf("%s%s-%d", prefix, stamp, n))
		err = Move(path, aside)
	}
	if err != nil {
		return "", err
	}
	for _, c := range copies[:max(0, len(copies)+1-keptAside)] {
		if err := Remove(c); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return aside, err
		}
	}
	return aside, nil
}
