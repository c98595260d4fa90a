package inbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"otm/internal/crash"
	"otm/internal/durable"
	"otm/pipeline"
	"otm/pipeline/drop"
)

// Settled is a settled drop as it stands in processed/ or failed/.
type Settled struct {
	Name   string
	Result Result
	Object *drop.Object // nil if the file is no JSON object
}

// ReadSettled reads one settled drop; dir is ProcessedDir or FailedDir. Only
// what OTM wrote counts as its result: the explanation beside the file, also while a
// retry has put that aside, else _result in a file that OTM can have written. If neither says anything, the
// result has no Inbox. The error is one of the file system.
func (b *Box) ReadSettled(dir, name string) (*Settled, error) {
	path := b.settledPath(dir, name)
	data, _, err := load(path)
	if err != nil {
		return nil, err
	}
	s := &Settled{Name: name}
	for _, explanation := range []string{errorPath(path), asidePath(path)} {
		result, found, err := readExplanation(explanation)
		if err != nil {
			return nil, err
		}
		if found {
			s.Result = result
			s.Object, _ = drop.ParseObject(data) // it was none, and somebody may have mended it
			return s, nil
		}
	}
	if o, result, ok := ownResult(data); ok {
		s.Object, s.Result = o, result
		return s, nil
	}
	s.Result = Result{Error: "no reason stands beside it", Class: Invalid}
	return s, nil
}

// ownResult returns a settled drop that no explanation stands beside, and the
// _result that OTM added to it. It reports false for a file that is larger than a
// drop can be: OTM settles such a file as it is, so its _result is its writer's.
func ownResult(data []byte) (*drop.Object, Result, bool) {
	var r Result
	o, err := drop.ParseGrown(data)
	if err != nil || o.Get(resultKey) == nil || json.Unmarshal(o.Get(resultKey), &r) != nil {
		return nil, Result{}, false
	}
	padded := len(data) > drop.MaxSize && len(data) > len(o.Bytes()) // as OTM would not write it
	return o, r, o.Size(resultKey, skippedKey) <= drop.MaxSize && !padded
}

// readExplanation reads the result that stands beside a file. It reports false
// if there is none. One that is damaged says so, and names no inbox.
func readExplanation(path string) (r Result, found bool, err error) {
	var beside struct {
		Result Result `json:"_result"`
	}
	data, err := durable.ReadFile(path)
	switch {
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, fs.ErrNotExist):
		return Result{}, false, nil
	case errors.Is(err, durable.ErrNoFile):
		return damaged(err), true, nil
	case err != nil:
		return Result{}, false, err
	}
	if err := json.Unmarshal(data, &beside); err != nil {
		return damaged(err), true, nil
	}
	return beside.Result, true, nil
}

func damaged(err error) Result {
	return Result{Class: Invalid, Error: fmt.Sprintf("the explanation beside it cannot be read: %v", err)}
}

// SettledNames lists the drops in processed/ or failed/ in the order of names,
// without the files that explain others.
func (b *Box) SettledNames(dir string) ([]string, error) {
	entries, err := deliveredIn(filepath.Join(b.dir, dir))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ExplainSuffix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// IsSettled reports whether a name stands in processed/ or failed/.
func (b *Box) IsSettled(dir, name string) (bool, error) {
	return stands(b.settledPath(dir, name))
}

// ErrNoInbox says that nothing tells from which inbox a failed file came.
var ErrNoInbox = errors.New("does not say from which inbox it came")

// Retry puts a failed drop back into its inbox, under its name or, if that is
// taken, the next one. edit may change it before; nil leaves it as it is.
// The error matches ErrNoInbox if the file does not say from which inbox it came,
// and fs.ErrNotExist if there is no such file, or the name cannot be one. One
// process at a time may call Retry.
//
// What edit changed is durable in the failed file before the file moves. If we crash
// in between, it counts as failed, and the next Retry calls edit again.
func (b *Box) Retry(name string, edit func(*drop.Object) error) (Kind, string, error) {
	if !canBeSettled(name) {
		return "", "", fs.ErrNotExist
	}
	s, err := b.ReadSettled(FailedDir, name)
	if err != nil {
		return "", "", err
	}
	kind := s.Result.Inbox
	if kind != NewTasks && kind != TaskUpdates {
		return "", "", fmt.Errorf("failed file %q %w", name, ErrNoInbox)
	}
	if edit != nil && s.Object != nil {
		if err := edit(s.Object); err != nil {
			return "", "", err
		}
		crash.Point("retry.editing")
		if err := durable.Replace(b.settledPath(FailedDir, name), s.Object.Bytes()); err != nil {
			return "", "", err
		}
		crash.Point("retry.edited")
	}
	if err := durable.Mkdir(b.Dir(kind)); err != nil {
		return "", "", err
	}
	placed, err := b.moveBack(kind, name)
	return kind, placed, err
}

// moveBack moves a failed file into an inbox; settling it again replaces its _result.
// What explains a file that is no JSON object is put aside before: the injector may
// write a new explanation the moment the file is back.
func (b *Box) moveBack(kind Kind, name string) (string, error) {
	path := b.settledPath(FailedDir, name)
	if err := durable.RenameVolatile(errorPath(path), asidePath(path)); err != nil && !absent(err) && !errors.Is(err, syscall.ENAMETOOLONG) {
		return "", err
	}
	crash.Point("retry.explanation")
	placed, err := placeNew(b.Dir(kind), name, func(to string) error { return durable.Move(path, to) })
	if err != nil {
		return "", err
	}
	crash.Point("retry.moved")
	if err := durable.Remove(asidePath(path)); err != nil && !absent(err) && !errors.Is(err, syscall.ENAMETOOLONG) {
		return "", err
	}
	return placed, nil
}

// asidePath is where an explanation stands while its file is moved back. Settle
// removes one that a crash left behind.
func asidePath(path string) string { return path + ".retry" }

// canBeSettled reports whether a settled drop may have a name: not what leads
// elsewhere (".."), is hidden, or explains another.
func canBeSettled(name string) bool {
	return name == filepath.Base(name) && Delivered(name) && !strings.HasSuffix(name, ExplainSuffix) &&
		!strings.ContainsRune(name, 0) && len(name) <= maxName
}

// Find looks for the settled file of the drop that was delivered under this name.
// It returns its result, and whether there is one. If data is nil, any drop of
// the name will do. A drop from the other inbox is another drop.
func (b *Box) Find(kind Kind, name string, data []byte) (Result, bool, error) {
	for _, dir := range []string{ProcessedDir, FailedDir} {
		for n := 1; ; n++ {
			r, _, same, err := b.compare(dir, numbered(name, n), kind, data)
			if same || err != nil && !absent(err) {
				return r, same, err
			}
			if err != nil {
				break
			}
		}
	}
	return Result{}, false, nil
}

// compare reports whether a settled file holds a drop, and came from the same inbox. If
// data is nil, any drop will do. The error says that the file is absent, also if it was
// archived or put back into the inbox just now.
func (b *Box) compare(dir, name string, kind Kind, data []byte) (r Result, info fs.FileInfo, same bool, err error) {
	settled, info, err := loadForeign(b.settledPath(dir, name))
	if err != nil || data != nil && (settled == nil || !sameDrop(settled, data)) {
		return r, info, false, err
	}
	s, err := b.ReadSettled(dir, name)
	if err != nil || s.Result.Inbox != kind {
		return r, info, false, err
	}
	return s.Result, info, true, nil
}

// TaskID is the task that the drop is about; 0 if it names none.
func (s *Settled) TaskID() pipeline.TaskID {
	var id pipeline.TaskID
	if s.Object == nil || json.Unmarshal(s.Object.Get("taskId"), &id) != nil {
		return 0
	}
	return id
}
