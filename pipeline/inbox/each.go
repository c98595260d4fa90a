package inbox

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"otm/internal/durable"
	"otm/pipeline/drop"
)

// MaxRead bounds the files that are looked into: a drop with its result.
const MaxRead = 4 * drop.MaxSize

// EachDrop visits the drops in a directory, settled or not. It skips other files,
// and those that we may not read.
func EachDrop(dir string, visit func(*drop.Object)) error {
	entries, err := durable.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), ".json") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		data, info, err := durable.ReadAtMost(filepath.Join(dir, e.Name()), MaxRead)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, durable.ErrNoFile):
			continue
		case err != nil:
			return err
		case info.Size() > MaxRead:
			continue
		}
		if o, err := drop.ParseGrown(data); err == nil {
			visit(o)
		}
	}
	return nil
}
