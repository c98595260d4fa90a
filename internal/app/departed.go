package app

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"otm/internal/config"
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

// remains lists what is in dir and dir itself, parents first, if it is nothing
// but what running processes write by themselves: no configuration, no format,
// no drop, no task. Otherwise it returns nil.
func remains(dir string) (paths []string) {
	written := []string{"board", "locks", "logs"}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, _ := filepath.Rel(dir, path)
		heartbeat, _ := filepath.Match("*-state.json", below)
		switch {
		case path == dir, heartbeat, below == "next-task-id.json":
		case e.IsDir() && slices.Contains(config.Folders, below):
		case slices.Contains(written, filepath.Dir(below)) && e.Name() != "token": // the board writes its rows anew, but no token
		default:
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
