package inbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
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

// ReadSettled reads one settled drop; dir is ProcessedDir or FailedDir.
func (b *Box) ReadSettled(dir, name string) (*Settled, error) {
	s, err := readSettled(b.settledPath(dir, name))
	if dir != FailedDir {
		return s, err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return b.readClaimed(name)
	}
	if err == nil && s.Result.Inbox == "" { // a Retry that ended early may have put its explanation away
		for _, kind := range Kinds {
			explained, err := readExplanation(errorPath(filepath.Join(b.claimDir(kind), name)))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			s.Result = explained
			s.Result.Inbox = kind
			return s, err
		}
	}
	return s, err
}

func readSettled(path string) (*Settled, error) {
	data, _, err := load(path)
	if err != nil {
		return nil, err
	}
	s := &Settled{Name: filepath.Base(path)}
	if data != nil {
		if o, err := drop.ParseGrown(data); err == nil && o.Get(resultKey) != nil {
			s.Object = o
			return s, json.Unmarshal(o.Get(resultKey), &s.Result)
		}
	}
	result, err := readExplanation(errorPath(path))
	if errors.Is(err, fs.ErrNotExist) {
		result = Result{Error: "no reason stands beside it", Class: Invalid}
		err = nil
	}
	s.Result = result
	return s, err
}

func readExplanation(path string) (Result, error) {
	var beside struct {
		Result Result `json:"_result"`
	}
	data, err := durable.ReadFile(path)
	switch {
	case errors.Is(err, syscall.ENAMETOOLONG):
		err = fs.ErrNotExist // so long a name has none
	case err == nil:
		err = json.Unmarshal(data, &beside)
	}
	return beside.Result, err
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

// Retry puts a failed drop back into its inbox, under its name or, where that
// is taken, the next one. edit may change it before; nil leaves it as it is.
// unsaid is the inbox of a file that does not say from which it came; where it
// is "", the error of such a file matches ErrNoInbox; where there is no such
// file, or the name can be none, fs.ErrNotExist. One process at a time may call
// Retry.
//
// First the changes are made in the failed file. Then it is claimed: its
// explanation, if it has one, and after that the file itself get a place of
// their own, which says what their inbox is. There the result is taken out of
// it, and by one renaming it is back in the inbox. So it stands in one place
// only, its explanation has gone before the injector can write a new one, and
// if we crash anywhere in between, the next Retry goes on from there, without
// asking edit again; until then it counts as failed. Only where the inbox is on
// another file system it stands in both places for a moment: what is then
// delivered twice is the same drop with the same ids.
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
	// What a crash left there explains a file that has been put back.
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
	placed, err := placeNew(b.Dir(kind), name, func(path string) error { return moveBack(from, path) })
	if err != nil {
		return "", "", err
	}
	crash.Point("retry.delivered")
	durable.Remove(errorPath(from)) // left behind it explains nothing
	return kind, placed, nil
}

// readClaimed reads what a Retry that ended early was putting back. Its result
// may have been taken out of it already.
func (b *Box) readClaimed(name string) (s *Settled, err error) {
	for _, kind := range Kinds {
		s, err = readSettled(filepath.Join(b.claimDir(kind), name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && s.Result.Inbox == "" {
			s.Result = Result{Inbox: kind, Class: Invalid, Error: "it was being put back into its inbox when that was interrupted", Hint: "otm retry " + argument(name)}
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

// moveBack moves a failed file into its inbox, which may be a link into another
// file system.
func moveBack(from, to string) error {
	err := durable.Move(from, to)
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	data, _, err := durable.ReadAtMost(from, math.MaxInt64)
	if err != nil {
		return err
	}
	if err := durable.WriteNew(to, data); err != nil {
		return err
	}
	return durable.Remove(from)
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
