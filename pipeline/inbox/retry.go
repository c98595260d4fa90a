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
	"time"

	"otm/internal/crash"
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
//
// The failed file has the changes first, then the inbox file is made durable,
// then the failed one goes. If we crash in between, the failed file still
// stands; what the next Retry delivers of it is the same drop with the same
// ids, without asking edit again, and the injector knows it if it came twice.
func (b *Box) Retry(name string, edit func(*drop.Object) error) (Kind, string, error) {
	s, err := b.ReadSettled(FailedDir, name)
	if err != nil {
		return "", "", err
	}
	kind := s.Result.Inbox
	if kind != NewTasks && kind != TaskUpdates {
		return "", "", fmt.Errorf("failed file %q does not say from which inbox it came", name)
	}
	if err := durable.Mkdir(b.Dir(kind)); err != nil {
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
	if edit != nil && !s.Result.Edited {
		if err := editFailed(from, s, edit); err != nil {
			return "", "", err
		}
	}
	// What is put back is younger than the failed file, or it would be taken
	// for one that is settled; where both come in one tick of the kernel's
	// clock, the times would not tell.
	if err := os.Chtimes(from, longAgo, longAgo); err != nil {
		return "", "", err
	}
	s.Object.Delete(resultKey)
	s.Object.Delete(skippedKey)
	placed, err := placeNew(b.Dir(kind), name, func(path string) error {
		return durable.WriteNew(path, s.Object.Bytes())
	})
	if err != nil {
		return "", "", err
	}
	crash.Point("retry.delivered")
	if err := os.Remove(from); err != nil {
		return kind, placed, fmt.Errorf("it is back in its inbox, but the failed file stays: %w", err)
	}
	return kind, placed, nil
}

var longAgo = time.Unix(0, 0)

// editedKey is that of Result.Edited.
const editedKey = "edited"

// editFailed changes a failed drop in its place, with its result, which says
// from now on that it was changed.
func editFailed(path string, s *Settled, edit func(*drop.Object) error) error {
	if err := edit(s.Object); err != nil {
		return err
	}
	result, err := drop.ParseGrown(s.Object.Get(resultKey))
	if err != nil {
		return err
	}
	if err := result.Set(editedKey, true); err != nil {
		return err
	}
	if err := s.Object.Set(resultKey, json.RawMessage(result.Bytes())); err != nil {
		return err
	}
	crash.Point("retry.editing")
	if err := durable.Replace(path, s.Object.Bytes()); err != nil {
		return err
	}
	crash.Point("retry.edited")
	return nil
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
