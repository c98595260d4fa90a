// Package rendering keeps the files tasks/T-00035.json: what otm-create and
// otm-update check a report against. A sink writes them from the store; they may lag
// behind it, and nothing is decided by them for good.
//
// The files are not synced. A power failure may leave an old one, an empty one or
// none: the store writes all of open tasks again at its first start after the machine
// started.
package rendering

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"otm/internal/durable"
	"otm/pipeline"
)

// maxSize bounds a file that is read.
const maxSize = 1 << 20

// Path returns the file of a task in a data directory.
func Path(dir string, id pipeline.TaskID) string {
	return filepath.Join(dir, "tasks", id.String()+".json")
}

// Read returns the rendering of a task. The error matches fs.ErrNotExist if there is no
// file. Another error says that the file is damaged or unreadable: then nothing is
// known of the task.
func Read(dir string, id pipeline.TaskID) (pipeline.Rendering, error) {
	var r pipeline.Rendering
	data, _, err := durable.ReadAtMost(Path(dir, id), maxSize)
	if err != nil {
		return r, err
	}
	if err = json.Unmarshal(data, &r); err == nil && r.TaskID != id {
		err = fmt.Errorf("it is that of %v", r.TaskID)
	}
	if err != nil {
		return pipeline.Rendering{}, fmt.Errorf("rendering %q: %w", Path(dir, id), err)
	}
	return r, nil
}

// Write writes the rendering of a task. It makes the directory if it is missing.
func Write(dir string, r pipeline.Rendering) error { return write(dir, r, durable.ReplaceVolatile) }

// WriteMissing is Write where there is no file: it replaces none.
func WriteMissing(dir string, r pipeline.Rendering) error {
	err := write(dir, r, durable.WriteNew)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func write(dir string, r pipeline.Rendering, to func(path string, data []byte) error) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	err = to(Path(dir, r.TaskID), data)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := durable.Mkdir(filepath.Dir(Path(dir, r.TaskID))); err != nil {
		return err
	}
	return to(Path(dir, r.TaskID), data)
}
