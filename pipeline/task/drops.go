package task

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"otm/internal/durable"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/history"
)

// usedIDs reads all ids in use: those of records, creates, keys of otm-create and
// the history. (Only a key may hold the id of a drop that is not delivered yet.)
// Updates do not count: a report on a task that does not exist must not use up an
// id.
func (s *Store) usedIDs() ([]pipeline.TaskID, error) {
	used, err := s.IDs()
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{"new-tasks", "processed", "failed", "keys"} {
		err := eachDrop(filepath.Join(s.dir, dir), func(o *drop.Object) { used = append(used, taskIDOf(o)) })
		if err != nil {
			return nil, err
		}
	}
	for e, err := range history.Read(s.dir) {
		switch {
		case errors.Is(err, history.ErrNoEntry): // it says nothing
		case err != nil:
			return nil, err
		default:
			used = append(used, e.TaskID)
		}
	}
	return used, nil
}

// InInbox reports whether a create for id waits in the inbox.
func (s *Store) InInbox(id pipeline.TaskID) (bool, error) {
	found := false
	err := eachDrop(filepath.Join(s.dir, "new-tasks"), func(o *drop.Object) {
		found = found || taskIDOf(o) == id
	})
	return found, err
}

// Drops returns what the create of each task asked for, if it is found. It reads
// all creates and is for when records are lost.
func (s *Store) Drops() (map[pipeline.TaskID]pipeline.Dropped, error) {
	all := map[pipeline.TaskID]pipeline.Dropped{}
	ranks := map[pipeline.TaskID]int{}
	for i, dir := range []string{"failed", "new-tasks", "processed"} { // what took effect says most
		err := eachDrop(filepath.Join(s.dir, dir), func(o *drop.Object) {
			c, err := drop.ParseCreate(o.Bytes())
			if err != nil {
				return // an update, or no drop
			}
			d := all[c.Task.ID]
			d.Waiting = d.Waiting || dir == "new-tasks"
			rank := 2*i + 1
			if o.Get("_skipped_duplicate") == nil {
				rank++
			}
			if rank > ranks[c.Task.ID] {
				d.Steps, ranks[c.Task.ID] = c.Task.Steps, rank
			}
			all[c.Task.ID] = d
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// eachDrop visits the drops in a directory, settled or not. It skips other files,
// and those that we may not read.
func eachDrop(dir string, visit func(*drop.Object)) error {
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
		data, info, err := durable.ReadAtMost(filepath.Join(dir, e.Name()), maxRead)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, durable.ErrNoFile):
			continue
		case err != nil:
			return err
		case info.Size() > maxRead:
			continue
		}
		if o, err := drop.ParseGrown(data); err == nil {
			visit(o)
		}
	}
	return nil
}

// taskIDOf reads the taskId of a drop; 0 if there is no valid one.
func taskIDOf(o *drop.Object) pipeline.TaskID {
	var text string
	if json.Unmarshal(o.Get("taskId"), &text) != nil {
		return 0
	}
	id, err := pipeline.ParseFileID(text)
	if err != nil {
		return 0
	}
	return id
}

// maxRead bounds the files that are looked into: a drop with its result.
const maxRead = 4 * drop.MaxSize
