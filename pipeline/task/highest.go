package task

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"otm/pipeline"
	"otm/pipeline/drop"
)

// HighestID returns the highest id that any file of the directory speaks of; 0
// for none. It reads them all.
func (s *Store) HighestID() (pipeline.TaskID, error) {
	var highest pipeline.TaskID
	ids, err := s.IDs()
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		highest = max(highest, id)
	}
	for _, dir := range []string{"new-tasks", "processed", "failed"} {
		err := eachJSON(filepath.Join(s.dir, dir), func(path string) {
			highest = max(highest, taskIDIn(path))
		})
		if err != nil {
			return 0, err
		}
	}
	return highest, nil
}

// InInbox tells whether a create for id waits in the inbox.
func (s *Store) InInbox(id pipeline.TaskID) (bool, error) {
	found := false
	err := eachJSON(filepath.Join(s.dir, "new-tasks"), func(path string) {
		found = found || taskIDIn(path) == id
	})
	return found, err
}

func eachJSON(dir string, visit func(path string)) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), ".json") {
			visit(filepath.Join(dir, e.Name()))
		}
	}
	return nil
}

// taskIDIn reads the taskId of a drop; 0 where there is none that counts.
func taskIDIn(path string) pipeline.TaskID {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 2*drop.MaxSize))
	if err != nil {
		return 0
	}
	var content struct {
		TaskID string `json:"taskId"`
	}
	if json.Unmarshal(data, &content) != nil {
		return 0
	}
	id, err := pipeline.ParseFileID(content.TaskID)
	if err != nil {
		return 0
	}
	return id
}
