package inbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
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
	Object *drop.Object // nil where the file is no JSON object
}

// ReadSettled reads one settled drop; dir is ProcessedDir or FailedDir. Only
// what OTM wrote counts as its result: the explanation beside the file, else
// _result in a file that OTM can have written. If neither says anything, the
// result has no Inbox. The error is one of the file system.
func (b *Box) ReadSettled(dir, name string) (*Settled, error) {
	s, err := readSettled(b.settledPath(dir, name))
	if dir != FailedDir {
		return s, err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return b.readClaimed(name)
	}
	if err != nil || s.Result.Inbox != "" {
		return s, err
	}
	for _, kind := range Kinds { // an interrupted Retry has moved the explanation, but not yet the file
		explained, found, err := readExplanation(errorPath(filepath.Join(b.claimDir(kind), name)))
		if err != nil {
			return nil, err
		}
		if found {
			s.Result = explained
			s.Result.Inbox = kind
			return s, nil
		}
	}
	return s, nil
}

func readSettled(path string) (*Settled, error) {
	data, _, err := load(path)
	if err != nil {
		return nil, err
	}
	s := &Settled{Name: filepath.Base(path)}
	explained, found, err := readExplanation(errorPath(path))
	if err != nil {
		return nil, err
	}
	if found {
		s.Result = explained
		return s, nil
	}
	if o, result, ok := ownResult(data); ok {
		s.Object, s.Result = o, result
		return s, nil
	}
	s.Result = Result{Error: "no reason stands beside it", Class: Invalid}
	return s, nil
}

// ownResult returns a settled drop and the _result that OTM added to it. It
// reports false for a file that is larger than a drop can be: OTM settles such
// a file as it is, so its _result is its writer's.
func ownResult(data []byte) (*drop.Object, Result, bool) {
	var r Result
	o, err := drop.ParseGrown(data)
	if err != nil || o.Get(resultKey) == nil || json.Unmarshal(o.Get(resultKey), &r) != nil {
		return nil, Result{}, false
	}
	return o, r, o.Size(resultKey, skippedKey) <= drop.MaxSize
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

// SettledNames lists the drops in processed/ or failed/, oldest name first,
// without the files that explain others. What a Retry that ended early was
// putting back counts as failed.
func (b *Box) SettledNames(dir string) ([]string, error) {
	names, err := deliveredIn(filepath.Join(b.dir, dir))
	if err != nil || dir != FailedDir {
		return names, err
	}
	for _, kind := range Kinds {
		claimed, err := deliveredIn(b.claimDir(kind))
		if err != nil {
			return nil, err
		}
		names = append(names, claimed...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// deliveredIn lists the drops in a directory without what explains them; none
// where there is no directory.
func deliveredIn(dir string) ([]string, error) {
	entries, err := durable.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if Delivered(e.Name()) && !strings.HasSuffix(e.Name(), ExplainSuffix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// IsSettled tells whether a name stands in processed/ or failed/.
func (b *Box) IsSettled(dir, name string) (bool, error) {
	return stands(b.settledPath(dir, name))
}

// ErrNoInbox says of a failed file that nothing tells from which inbox it came.
var ErrNoInbox = errors.New("does not say from which inbox it came")

// claims is the folder of failed/ in which Retry has what it puts back, under
// the kind of its inbox and its own name.
const claims = ".retry"

func (b *Box) claimDir(kind Kind) string {
	return filepath.Join(b.dir, FailedDir, claims, string(kind))
}

// Retry puts a failed drop back into its inbox, under its name or, if that is
// taken, the next one. edit may change it before; nil leaves it as it is.
// unsaid is the inbox of a file that does not say from which it came; if it is
// "" too, the error matches ErrNoInbox. If there is no such file, or the name
// cannot be one, the error matches fs.ErrNotExist. One process at a time may
// call Retry.
//
// The steps: edit the failed file in its place; claim it, by moving first its
// explanation and then the file into a folder that is named after its inbox;
// there take the result out of it and remove the explanation; rename it into
// the inbox. So the file stands in one place only, and its explanation has gone
// before the injector can write a new one. If we crash anywhere in between, the
// file counts as failed, and the next Retry goes on from there without calling
// edit again.
func (b *Box) Retry(name string, unsaid Kind, edit func(*drop.Object) error) (Kind, string, error) {
	if !canBeSettled(name) {
		return "", "", fs.ErrNotExist
	}
	for _, kind := range Kinds {
		claimed, err := stands(filepath.Join(b.claimDir(kind), name))
		if err != nil {
			return "", "", err
		}
		if claimed {
			// Whatever failed under this name since is another one.
			return b.putInInbox(kind, name)
		}
	}
	s, err := b.ReadSettled(FailedDir, name)
	if err != nil {
		return "", "", err
	}
	kind := s.Result.Inbox
	if kind == "" {
		kind = unsaid
	}
	if kind != NewTasks && kind != TaskUpdates {
		return "", "", fmt.Errorf("failed file %q %w", name, ErrNoInbox)
	}
	if edit != nil && s.Object != nil && !s.Result.Edited {
		if err := editFailed(b.settledPath(FailedDir, name), s, edit); err != nil {
			return "", "", err
		}
	}
	if err := b.claim(kind, name); err != nil {
		return "", "", err
	}
	return b.putInInbox(kind, name)
}

// canBeSettled tells whether a settled drop may have a name: not what leads
// elsewhere (".."), is ours (".retry"), or explains another.
func canBeSettled(name string) bool {
	return name == filepath.Base(name) && Delivered(name) && !strings.HasSuffix(name, ExplainSuffix) &&
		!strings.ContainsRune(name, 0) && len(name) <= maxName
}

// claim moves a failed file, and its explanation before it, to the place for
// those that are on their way into an inbox.
func (b *Box) claim(kind Kind, name string) error {
	from, to := b.settledPath(FailedDir, name), filepath.Join(b.claimDir(kind), name)
	for _, dir := range []string{filepath.Dir(b.claimDir(kind)), b.claimDir(kind)} {
		if err := durable.Mkdir(dir); err != nil {
			return err
		}
	}
	if err := durable.RenameVolatile(errorPath(from), errorPath(to)); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENAMETOOLONG) {
		return err
	}
	crash.Point("retry.explanation")
	if err := durable.Move(from, to); err != nil {
		return err
	}
	crash.Point("retry.claimed")
	return nil
}

// putInInbox delivers what was claimed, without its result.
func (b *Box) putInInbox(kind Kind, name string) (Kind, string, error) {
	from := filepath.Join(b.claimDir(kind), name)
	if err := durable.Mkdir(b.Dir(kind)); err != nil {
		return "", "", err
	}
	s, err := readSettled(from)
	if err != nil {
		return "", "", err
	}
	if s.Object != nil {
		s.Object.Delete(resultKey)
		s.Object.Delete(skippedKey)
		if err := durable.Replace(from, s.Object.Bytes()); err != nil {
			return "", "", err
		}
		crash.Point("retry.bare")
	}
	// The explanation goes first: left behind, it would speak of the next file
	// of this name.
	if err := durable.Remove(errorPath(from)); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENAMETOOLONG) {
		return "", "", err
	}
	placed, err := placeNew(b.Dir(kind), name, func(path string) error { return durable.Move(from, path) })
	if err != nil {
		return "", "", err
	}
	crash.Point("retry.delivered")
	return kind, placed, nil
}

// readClaimed reads what an interrupted Retry was putting back. Its result may
// have been taken out of it already; the folder says which inbox it is for.
func (b *Box) readClaimed(name string) (s *Settled, err error) {
	for _, kind := range Kinds {
		s, err = readSettled(filepath.Join(b.claimDir(kind), name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && s.Result.Inbox == "" {
			s.Result = Result{Class: Invalid, Error: "otm retry was interrupted while it put this file back", Hint: "otm retry " + argument(name)}
		}
		if err == nil {
			s.Result.Inbox = kind
		}
		return s, err
	}
	return nil, err
}

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

// Find looks for where the drop that was delivered under this name settled: its
// result, and whether it is settled at all. If data is nil, whatever bears the
// name is meant. What came from the other inbox is another drop.
func (b *Box) Find(kind Kind, name string, data []byte) (Result, bool, error) {
	for _, dir := range []string{ProcessedDir, FailedDir} {
		for n := 1; ; n++ {
			candidate := numbered(name, n)
			path := b.settledPath(dir, candidate)
			settled, _, err := loadForeign(path)
			if errors.Is(err, fs.ErrNotExist) {
				break
			}
			if err != nil {
				return Result{}, false, err
			}
			if data != nil && (settled == nil || !sameDrop(settled, data)) {
				continue
			}
			s, err := b.ReadSettled(dir, candidate)
			if errors.Is(err, fs.ErrNotExist) {
				break // archived, or put back into the inbox
			}
			if err != nil {
				return Result{}, false, err
			}
			if s.Result.Inbox == kind {
				return s.Result, true, nil
			}
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
