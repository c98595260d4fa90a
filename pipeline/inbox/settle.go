package inbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"otm/internal/crash"
	"otm/internal/durable"
	"otm/internal/safe"
	"otm/pipeline/drop"
)

// Class says why a drop failed.
type Class string

// The classes of failure.
const (
	Invalid   Class = "invalid"   // the file is no usable drop
	Unmatched Class = "unmatched" // its task or its step is not known
	Conflict  Class = "conflict"  // what it asks for contradicts what is
	Rejected  Class = "rejected"  // the board refuses it
)

// Result is the _result that OTM adds to a settled drop.
type Result struct {
	At       time.Time `json:"at"`
	Inbox    Kind      `json:"inbox"`
	Attempts int       `json:"attempts"`

	// Where it took effect.
	SlackItemID      string   `json:"slackItemId,omitempty"`
	SubtaskItemIDs   []string `json:"subtaskItemIds,omitzero"`
	SkippedDuplicate bool     `json:"skippedDuplicate,omitempty"`
	DedupUnverified  bool     `json:"dedupUnverified,omitempty"`

	// Ignored names the keys of the drop that OTM does not know.
	Ignored []string `json:"ignored,omitempty"`

	// Where it did not.
	Error string `json:"error,omitempty"`
	Class Class  `json:"class,omitempty"`
	Hint  string `json:"hint,omitempty"`
	// HintNames makes Settle append the settled file's name to Hint: only Settle
	// knows it.
	HintNames bool `json:"-"`
}

// Keys that settling adds to a drop.
const (
	resultKey  = "_result"
	skippedKey = "_skipped_duplicate"
)

// form is the result as it stands in, or beside, a settled file of this name. The row
// and the rows of steps are never left out of a processed one.
func (r Result) form(name string) any {
	form := struct {
		Result
		SlackItemID *string `json:"slackItemId,omitempty"`
	}{Result: r}
	switch {
	case r.Class == "":
		form.SlackItemID, form.SubtaskItemIDs = &r.SlackItemID, append([]string{}, r.SubtaskItemIDs...)
	case r.HintNames:
		form.Hint += " " + argument(name)
	}
	return form
}

// argument is a file's name as one word of a command: quoted if necessary, and
// never read as a flag.
func argument(name string) string {
	if strings.HasPrefix(name, "-") {
		name = "./" + name
	}
	return safe.Quote(name)
}

// Settling is a drop that is to be settled.
type Settling struct {
	File
	Data   []byte // what was read of it
	Result Result
	object *drop.Object // of Data; nil: it is no JSON object

	// What came of it: the settled file's name. It is "" if nothing was settled: a file
	// that is no JSON object has changed or gone.
	Settled string
	Err     error
}

// Settle gives drops their last places: processed/ if the result has no Class, else
// failed/. On return the settled copies are durable and the inbox files are gone, unless
// they changed since they were read: then they stay, as drops of their own.
func (b *Box) Settle(drops ...*Settling) {
	var together []*Settling // whose copies are written together
	var files []durable.NewFile
	for _, d := range drops {
		d.Result.Inbox = d.Kind
		dir := ProcessedDir
		if d.Result.Class != "" {
			dir = FailedDir
		}
		if d.Err = durable.Mkdir(filepath.Join(b.dir, dir)); d.Err != nil {
			continue
		}
		if d.Regular() {
			d.object, _ = drop.ParseObject(d.Data)
		}
		if d.object == nil {
			d.Settled, d.Err = b.settleAsIs(d.File, dir, d.Result)
			continue
		}
		if dir == FailedDir || !canBeSettled(d.Name) {
			d.Settled, d.Err = d.place(filepath.Join(b.dir, dir))
			d.copied(b)
			continue
		}
		data, err := d.encode(d.Name)
		if d.Err = err; err == nil {
			together, files = append(together, d), append(files, durable.NewFile{Name: d.Name, Data: data})
		}
	}
	dir := filepath.Join(b.dir, ProcessedDir)
	for i, err := range durable.WriteEachNew(dir, files) {
		d := together[i]
		if d.Settled, d.Err = d.Name, err; errors.Is(err, fs.ErrExist) {
			d.Settled, d.Err = d.place(dir)
		}
		d.copied(b)
	}
}

// encode returns the settled copy as it stands under a name.
func (d *Settling) encode(name string) ([]byte, error) {
	d.object.Delete(skippedKey)
	d.object.Delete(resultKey)
	if err := d.object.Set(resultKey, d.Result.form(name)); err != nil {
		return nil, err
	}
	if d.Result.SkippedDuplicate {
		if err := d.object.Set(skippedKey, true); err != nil {
			return nil, err
		}
	}
	return d.object.Bytes(), nil
}

// place writes the copy under the first name in a directory that is free.
func (d *Settling) place(dir string) (name string, err error) {
	return placeNew(dir, d.Name, func(path string) error {
		data, err := d.encode(filepath.Base(path))
		if err != nil {
			return err
		}
		// An explanation that was left behind would speak of this file.
		for _, explanation := range []string{errorPath(path), asidePath(path)} {
			if err := durable.Remove(explanation); err != nil && !absent(err) && !errors.Is(err, syscall.ENAMETOOLONG) {
				return err
			}
		}
		return durable.WriteNew(path, data)
	})
}

// copied removes the inbox file if the copy was written.
func (d *Settling) copied(b *Box) {
	if d.Err != nil {
		d.Settled = ""
		return
	}
	crash.Point("settle.copied")
	// If we crash here, Leftover finds the copy and the inbox file is unlinked
	// by the next sweep.
	d.Err = b.unlink(d.File)
}

// unlink removes an inbox file whose settled copy is durable, unless it changed since it
// was read. A writer may rename its next file over this name at any moment. So the file
// is taken out of the way first, and then compared once more.
func (b *Box) unlink(f File) error {
	if same, err := unchanged(b.path(f), f); !same || err != nil {
		return err
	}
	crash.Point("settle.unlinking")
	taken := f
	taken.At = takenName(f.Name)
	if err := durable.RenameVolatile(b.path(f), b.path(taken)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	crash.Point("settle.taken")
	// If we crash here, the next sweep finds what we took, as any other drop.
	if same, err := unchanged(b.path(taken), f); !same || err != nil {
		return err
	}
	err := durable.Remove(b.path(taken))
	crash.Point("settle.unlinked")
	return err
}

// takenMark stands in the name of a file that was taken out of the way.
const takenMark = "-otm-taken-"

// takenName is a unique name for a file that is taken out of the way. It counts as
// delivered, and comes before the name of the file.
func takenName(name string) string {
	return fit(strings.TrimSuffix(name, ".json"), fmt.Sprintf("%s%016x.json", takenMark, rand.Uint64()))
}

// deliveredAs is the name under which a file was delivered. A very long one was shortened
// when the file was taken out of the way.
func deliveredAs(at string) string {
	if name, _, taken := strings.Cut(at, takenMark); taken {
		return name + ".json"
	}
	return at
}

// unchanged reports whether the file at path is still the one that was read.
func unchanged(path string, f File) (bool, error) {
	now, err := durable.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && unchangedFile(f.Info, now), err
}

// settleAsIs moves a file that is no JSON object, and writes its result beside it. The
// result comes first: if we crash in between, it is written again.
func (b *Box) settleAsIs(f File, dir string, result Result) (string, error) {
	if same, err := unchanged(b.path(f), f); !same || err != nil {
		return "", err // there is nothing left to settle; what came instead is for the next sweep
	}
	name := f.Name
	if len(name) > maxName-len(ExplainSuffix) {
		name = fit(strings.TrimSuffix(name, ".json"), ".json")
	}
	if dir == FailedDir {
		same, err := b.failedAs(f, name)
		if err != nil {
			return "", err
		}
		if same != "" { // the same garbage once more is kept once
			if err := explain(b.settledPath(FailedDir, same), result); err != nil {
				return "", err
			}
			return same, b.unlink(f)
		}
	}
	return placeNew(filepath.Join(b.dir, dir), name, func(path string) error {
		if err := explain(path, result); err != nil {
			return err
		}
		crash.Point("settle.explained")
		return durable.Move(b.path(f), path)
	})
}

// failedAs finds what failed under a name, or one with a number, and holds the
// same bytes as f from the same inbox; "" if nothing does, or f is very large.
func (b *Box) failedAs(f File, name string) (string, error) {
	if !f.Regular() {
		return "", nil
	}
	for n := 1; ; n++ {
		candidate := numbered(name, n)
		path := b.settledPath(FailedDir, candidate)
		if there, err := stands(path); !there || err != nil {
			return "", err
		}
		if !durable.SameContent(b.path(f), path) {
			continue
		}
		if explained, found, err := readExplanation(errorPath(path)); err != nil || found && explained.Inbox == f.Kind {
			return candidate, err
		}
	}
}

// explain writes a result beside the place of a settled file.
func explain(path string, result Result) error {
	o, _ := drop.ParseObject([]byte("{}"))
	if err := o.Set(resultKey, result.form(filepath.Base(path))); err != nil {
		return err
	}
	return durable.Replace(errorPath(path), o.Bytes())
}

// MaxSettled bounds the bytes read of a settled file: a drop with its result, each
// key on a line of its own.
const MaxSettled = 4 * drop.MaxSize

// ExplainSuffix ends the names of files in failed/ that explain others.
const ExplainSuffix = ".error.json"

// errorPath is where the result of a file that is no JSON object stands.
func errorPath(path string) string { return path + ExplainSuffix }

func unchangedFile(before, now fs.FileInfo) bool {
	same := os.SameFile(before, now)
	if !before.Mode().IsRegular() {
		return same
	}
	return same && now.Size() == before.Size() && now.ModTime().Equal(before.ModTime())
}

// load reads a file that may be a drop, settled or not. The data is nil if it is
// no regular file, or too large.
func load(path string) ([]byte, fs.FileInfo, error) {
	data, info, err := durable.ReadAtMost(path, MaxSettled)
	if errors.Is(err, durable.ErrNoFile) || err == nil && info.Size() > MaxSettled {
		return nil, nil, nil
	}
	return data, info, err
}

// loadForeign is load for files of anybody: one that we may not read is no drop
// of ours.
func loadForeign(path string) ([]byte, fs.FileInfo, error) {
	data, info, err := load(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil, nil, nil
	}
	return data, info, err
}

// Leftover reports whether f is settled already and only its unlinking was
// interrupted, and then unlinks it: there is a settled copy of the same drop from
// the same inbox, under the same name, younger than f. A copy under another name
// does not count: x-2.json may be another drop that says the same. A file that a crash
// left out of the way was settled if there is any copy.
func (b *Box) Leftover(f File, data []byte) (bool, error) {
	if f.At != f.Name {
		_, settled, err := b.Find(f.Kind, f.Name, data)
		if settled && err == nil {
			err = durable.Remove(b.path(f))
		}
		return settled, err
	}
	for _, dir := range []string{ProcessedDir, FailedDir} {
		_, info, same, err := b.compare(dir, f.Name, f.Kind, data)
		if err != nil && !absent(err) {
			return false, err
		}
		if same && !info.ModTime().Before(durable.ChangeTime(f.Info)) {
			return true, b.unlink(f)
		}
	}
	return false, nil
}

// sameDrop reports whether a settled file holds the drop that was read as data.
func sameDrop(settled, data []byte) bool {
	s, err := drop.ParseGrown(settled)
	if err != nil {
		return bytes.Equal(settled, data)
	}
	d, err := drop.ParseObject(data)
	if err != nil {
		return bytes.Equal(settled, data)
	}
	for _, o := range []*drop.Object{s, d} {
		o.Delete(resultKey)
		o.Delete(skippedKey)
	}
	return bytes.Equal(s.Bytes(), d.Bytes())
}

// placeNew calls place with name, name-2, name-3 … until a name was free. It
// never uses the name of an explanation, which could be overwritten.
func placeNew(dir, name string, place func(path string) error) (string, error) {
	for n := 1; ; n++ {
		candidate := numbered(name, n)
		path := filepath.Join(dir, candidate)
		// Checked first, so that nothing is written or explained for a taken name.
		taken, err := stands(path)
		if err != nil {
			return "", err
		}
		if taken || strings.HasSuffix(candidate, ExplainSuffix) {
			continue
		}
		err = place(path)
		if err == nil {
			return candidate, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
}

func numbered(name string, n int) string {
	if n == 1 {
		return name
	}
	return fit(strings.TrimSuffix(name, ".json"), fmt.Sprintf("-%d.json", n))
}

// maxName is how many bytes file systems allow a name to have.
const maxName = 255

// fit appends a suffix to a file name. It shortens the name if both leave no room
// for the suffix of an explanation.
func fit(name, suffix string) string {
	keep := min(len(name), maxName-len(ExplainSuffix)-len(suffix))
	for keep < len(name) && keep > 0 && !utf8.RuneStart(name[keep]) {
		keep--
	}
	return name[:keep] + suffix
}

// Prune removes drops from processed/ that took effect more than keep ago, and
// returns how many. A file without a result of ours stays. Records know what was
// done: a drop that comes again later is still recognised.
//
// The clock alone deletes nothing, as it may have jumped ahead: drops must have
// settled within keep, the first of them an hour before the last. So after a
// jump nothing goes until the clock has stood there for an hour of work.
func (b *Box) Prune(now time.Time, keep time.Duration) (int, error) {
	names, err := b.SettledNames(ProcessedDir)
	if err != nil {
		return 0, err
	}
	var old []string
	var first, last time.Time
	for _, name := range names {
		info, err := durable.Lstat(b.settledPath(ProcessedDir, name))
		if err != nil || !info.Mode().IsRegular() || info.ModTime().After(now) {
			continue
		}
		at := info.ModTime()
		if now.Sub(at) > keep {
			old = append(old, name)
			continue
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	if last.Sub(first) < min(time.Hour, keep/2) {
		return 0, nil
	}
	pruned := 0
	for _, name := range old {
		s, err := b.ReadSettled(ProcessedDir, name)
		if err != nil || s.Result.At.IsZero() || now.Sub(s.Result.At) <= keep {
			continue
		}
		if err := durable.Remove(b.settledPath(ProcessedDir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return pruned, err
		}
		pruned++
	}
	return pruned, nil
}
