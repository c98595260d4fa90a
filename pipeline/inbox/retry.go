package inbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"otm/internal/durable"
	"otm/pipeline"
	"otm/pipeline/drop"
)

// Settled is a settled drop as it stands in processed/ or failed/.
type Settled struct {
	Name   string
	Result Result
	Object *drop.Object // nil where the file is no JSON object
}

// ReadSettled reads one settled drop; dir is ProcessedDir or FailedDir.
func (b *Box) ReadSettled(dir, name string) (*Settled, error) {
	path := b.settledPath(dir, name)
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	s := &Settled{Name: name}
	if info.Mode().IsRegular() && info.Size() <= maxSettled {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if o, err := drop.ParseGrown(data); err == nil && o.Get(resultKey) != nil {
			s.Object = o
			return s, json.Unmarshal(o.Get(resultKey), &s.Result)
		}
	}
	var beside struct {
		Result Result `json:"_result"`
	}
	data, err := os.ReadFile(errorPath(path))
	if err == nil {
		err = json.Unmarshal(data, &beside)
	}
	s.Result = beside.Result
	if errors.Is(err, fs.ErrNotExist) {
		s.Result = Result{Error: "no reason stands beside it", Class: Invalid}
		err = nil
	}
	return s, err
}

// SettledNames lists the drops in processed/ or failed/, oldest name first,
// without the files that explain others.
func (b *Box) SettledNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(b.dir, dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if Delivered(e.Name()) && !strings.HasSuffix(e.Name(), explainSuffix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// IsSettled tells whether a name stands in processed/ or failed/.
func (b *Box) IsSettled(dir, name string) bool {
	_, err := os.Lstat(b.settledPath(dir, name))
	return err == nil
}

// SettledID returns the id of a settled drop; "" where it has none.
func (b *Box) SettledID(dir, name string) string {
	s, err := b.ReadSettled(dir, name)
	if err != nil || s.Object == nil {
		return ""
	}
	var id string
	if json.Unmarshal(s.Object.Get("id"), &id) != nil {
		return ""
	}
	return id
}

// Retry puts a failed drop back into its inbox, under its name or, where that
// is taken, the next one. edit may change it before; nil leaves it as it is.
// The inbox file is durable before the failed one goes.
func (b *Box) Retry(name string, edit func(*drop.Object) error) (Kind, string, error) {
	s, err := b.ReadSettled(FailedDir, name)
	if err != nil {
		return "", "", err
	}
	kind := s.Result.Inbox
	if kind != NewTasks && kind != TaskUpdates {
		return "", "", fmt.Errorf("failed file %q does not say from which inbox it came", name)
	}
	if err := durable.MkdirAll(b.Dir(kind)); err != nil {
		return "", "", err
	}
	from := b.settledPath(FailedDir, name)
	if s.Object == nil {
		placed, err := placeNew(b.Dir(kind), name, func(path string) error { return moveBack(from, path) })
		if err == nil {
			os.Remove(errorPath(from)) // left behind it explains nothing
		}
		return kind, placed, err
	}
	s.Object.Delete(resultKey)
	s.Object.Delete(skippedKey)
	if edit != nil {
		if err := edit(s.Object); err != nil {
			return "", "", err
		}
	}
	placed, err := placeNew(b.Dir(kind), name, func(path string) error {
		return durable.WriteNew(path, s.Object.Bytes())
	})
	if err != nil {
		return "", "", err
	}
	return kind, placed, os.Remove(from)
}

// moveBack moves a failed file into its inbox, which may be a link into another
// file system.
func moveBack(from, to string) error {
	err := durable.Move(from, to)
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := durable.WriteNew(to, data); err != nil {
		return err
	}
	return os.Remove(from)
}

// Find looks for where the drop that was delivered under this name settled: its
// result, and whether it is settled at all. If data is nil, whatever bears the
// name is meant.
func (b *Box) Find(name string, data []byte) (Result, bool, error) {
	for _, dir := range []string{ProcessedDir, FailedDir} {
		for n := 1; ; n++ {
			candidate := numbered(name, n)
			path := b.settledPath(dir, candidate)
			info, err := os.Lstat(path)
			if errors.Is(err, fs.ErrNotExist) {
				break
			}
			if err != nil {
				return Result{}, false, err
			}
			if data != nil && !sameSettled(path, info, data) {
				continue
			}
			s, err := b.ReadSettled(dir, candidate)
			if errors.Is(err, fs.ErrNotExist) {
				break // archived, or put back into the inbox
			}
			if err != nil {
				return Result{}, false, err
			}
			return s.Result, true, nil
		}
	}
	return Result{}, false, nil
}

// TaskID is the task that the drop is about; 0 where it names none.
func (s *Settled) TaskID() pipeline.TaskID {
	var id pipeline.TaskID
	if s.Object == nil || json.Unmarshal(s.Object.Get("taskId"), &id) != nil {
		return 0
	}
	return id
}
