package durable

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// keptAside is how many copies of one damaged file are kept, the newest.
const keptAside = 5

// SetAside moves a damaged file out of the way and returns its new path: its own
// with .corrupt- and stamp, or stamp-2 and so on if that is taken. It is durable
// on return. Equal bytes are kept once: if a copy has those of the file, the
// file is removed, and that copy's path is returned. Only the newest few copies
// are kept.
func SetAside(path, stamp string) (string, error) {
	copies, err := asides(path)
	if err != nil {
		return "", err
	}
	for _, c := range copies {
		if SameContent(path, c) {
			return c, Remove(path)
		}
	}
	for n := 1; ; n++ {
		aside := path + ".corrupt-" + stamp
		if n > 1 {
			aside += fmt.Sprintf("-%d", n)
		}
		err := Move(path, aside)
		if errors.Is(err, fs.ErrExist) {
			continue
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
}

// asides lists the files that were set aside for path, oldest first.
func asides(path string) ([]string, error) {
	entries, err := ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	type aside struct {
		path string
		info fs.FileInfo
	}
	var all []aside
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), filepath.Base(path)+".corrupt-") || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil { // else it has just gone
			all = append(all, aside{filepath.Join(filepath.Dir(path), e.Name()), info})
		}
	}
	slices.SortStableFunc(all, func(a, b aside) int {
		return cmp.Or(ChangeTime(a.info).Compare(ChangeTime(b.info)), cmp.Compare(a.path, b.path))
	})
	paths := make([]string, len(all))
	for i, a := range all {
		paths[i] = a.path
	}
	return paths, nil
}
