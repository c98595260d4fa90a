package app

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"otm/internal/config"
	"otm/internal/durable"
)

// departed is the last step of a process that stays. If the data directory was
// removed meanwhile, our last writes may have come after the removal looked
// there; departed removes what they left. It returns err, or in place of an err
// that followed from the removal one that says so.
func departed(dir string, err error) error {
	if _, there := os.Lstat(filepath.Join(dir, "format")); !errors.Is(there, fs.ErrNotExist) {
		return err
	}
	for _, path := range slices.Backward(remains(dir)) {
		os.Remove(path) // what is still used, or has come since, stays
	}
	if err != nil {
		_, err = config.CheckDir(dir)
	}
	return err
}

// madeByResidents are the files, relative to the data directory, that running
// processes write by themselves, in the form of filepath.Match. They have no value
// without the rest of the directory.
var madeByResidents = []string{
	"*-state.json", "next-task-id.json", // heartbeats, the counter
	"board/*", "board/page/*", // snapshot, rows, links, sessions; for board/token see isRemains
	"locks/*", "logs/*", "logs/exec/*", "logs/exec/*/*",
}

// isRemains reports whether running processes may have written a file, or made a
// directory, by themselves. path is relative to the data directory.
func isRemains(path string, e fs.DirEntry) bool {
	dir := filepath.Dir(path)
	if strings.HasPrefix(e.Name(), durable.TempPrefix) && (dir == "." || slices.Contains(config.Folders, dir)) {
		return true
	}
	if path == filepath.Join("board", "token") {
		return false // the board writes its rows anew, but no token
	}
	return e.IsDir() && slices.Contains(config.Folders, path) ||
		slices.ContainsFunc(madeByResidents, func(pattern string) bool { matches, _ := filepath.Match(pattern, path); return matches })
}

// remains lists what is in dir and dir itself, parents first, if it is nothing
// but what running processes write by themselves: no configuration, no format,
// no drop, no task. Otherwise it returns nil.
func remains(dir string) (paths []string) {
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if below, _ := filepath.Rel(dir, path); path != dir && !isRemains(below, e) {
			return errors.New("something of value")
		}
		paths = append(paths, path)
		return nil
	})
	if err != nil {
		return nil
	}
	return paths
}
