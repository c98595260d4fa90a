package inbox

import (
	"errors"
	"io/fs"
	"path/filepath"

	"otm/internal/durable"
	"otm/pipeline/drop"
)

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
		if !e.Type().IsRegular() || !Delivered(e.Name()) {
			continue
		}
		data, _, err := loadForeign(filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if o, err := drop.ParseGrown(data); err == nil {
			visit(o)
		}
	}
	return nil
}
