package inbox

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"otm/internal/crash"
	"otm/internal/durable"
	"otm/pipeline"
	"otm/pipeline/drop"
)

// Kind is an inbox: the name of its directory.
type Kind string

// The inboxes, and where their files settle.
const (
	NewTasks    Kind = "new-tasks"
	TaskUpdates Kind = "task-updates"

	ProcessedDir = "processed"
	FailedDir    = "failed"
)

// Kinds lists the inboxes in the order in which they are swept.
var Kinds = []Kind{NewTasks, TaskUpdates}

// Box is the data directory as this package sees it.
type Box struct{ dir string }

// Open returns the inboxes of a data directory. Nothing is read or made yet.
func Open(dir string) *Box { return &Box{dir: dir} }

// Dir returns the path of an inbox.
func (b *Box) Dir(kind Kind) string { return filepath.Join(b.dir, string(kind)) }

// nameTime is how names of drops begin: they sort in the order of their times.
const nameTime = "20060102T150405.000000000Z"

// NewName returns the name under which our own commands deliver a drop.
func NewName(at time.Time, dropID string) string {
	return at.UTC().Format(nameTime) + "-" + dropID + ".json"
}

// TimeOf returns when a drop was written, from its name; false if another
// program named it differently.
func TimeOf(name string) (time.Time, bool) {
	if len(name) < len(nameTime) {
		return time.Time{}, false
	}
	at, err := time.Parse(nameTime, name[:len(nameTime)])
	return at, err == nil
}

// Dropped is when the file was delivered: the time in its name, else, as with foreign
// names, that of its last change. Its writer sets both, so it is at most now.
func (f File) Dropped(now time.Time) time.Time {
	at, ok := TimeOf(f.Name)
	if !ok {
		at = f.Info.ModTime()
	}
	if at.After(now) {
		return now
	}
	return at
}

// IsNewName reports whether a file of this name is one that our own commands
// delivered for a drop of this id.
func IsNewName(name, dropID string) bool {
	at, ok := TimeOf(name)
	return ok && name == NewName(at, dropID) && pipeline.DropIDInName(name) == dropID
}

// Publish delivers a drop. It is durable on return. If the name is taken, the
// error matches fs.ErrExist. A missing inbox is made, but no data directory: if
// that has gone, the error matches fs.ErrNotExist.
func (b *Box) Publish(kind Kind, name string, data []byte) error {
	return b.PublishAll(kind, []durable.NewFile{{Name: name, Data: data}})
}

// PublishAll delivers many drops at once. Until all are written, none is
// delivered. They are durable on return.
func (b *Box) PublishAll(kind Kind, drops []durable.NewFile) error {
	crash.Point("publish.before")
	err := durable.WriteAllNew(b.Dir(kind), drops)
	if errors.Is(err, fs.ErrNotExist) {
		if err := durable.Mkdir(b.Dir(kind)); err != nil {
			return err
		}
		err = durable.WriteAllNew(b.Dir(kind), drops)
	}
	crash.Point("publish.after")
	return err
}

// Waiting reports whether a drop still stands in its inbox.
func (b *Box) Waiting(kind Kind, name string) (bool, error) {
	return stands(filepath.Join(b.Dir(kind), name))
}

func stands(path string) (bool, error) {
	_, err := durable.Lstat(path)
	if absent(err) {
		return false, nil
	}
	return err == nil, err
}

// absent reports whether an error means that nothing stands at a path: no file,
// or no directory in which one could.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// File is something delivered.
type File struct {
	Kind Kind
	Name string      // under which it was delivered
	At   string      // the name that it has: Name, unless a crash left it out of the way
	Info fs.FileInfo // of the file itself; a link is not followed
}

// Same reports whether another look at its name found the same, unchanged file.
func (f File) Same(now File) bool {
	return unchangedFile(f.Info, now.Info) && f.Changed().Equal(now.Changed())
}

// Changed is when the file came under its name, or its mode or owner changed.
func (f File) Changed() time.Time { return durable.ChangeTime(f.Info) }

// Regular reports whether it is a file and not a directory, a pipe or a link.
func (f File) Regular() bool { return f.Info.Mode().IsRegular() }

// Ensure makes the inboxes that are missing, for the injector to watch. An inbox
// that is a dangling link, as to a volume that is not mounted, stays as it is.
// The error matches fs.ErrNotExist if the data directory itself has gone: only
// otm init makes one.
func (b *Box) Ensure() error {
	if _, err := durable.Stat(b.dir); err != nil {
		return err
	}
	for _, kind := range Kinds {
		if info, err := durable.Lstat(b.Dir(kind)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			continue
		}
		if err := durable.Mkdir(b.Dir(kind)); err != nil {
			return err
		}
	}
	return nil
}

// List returns the files delivered in an inbox, in the order of names. It makes
// nothing: a missing inbox and a dangling link are empty. Files that vanish
// meanwhile are left out.
func (b *Box) List(kind Kind) ([]File, error) {
	entries, err := deliveredIn(b.Dir(kind))
	if err != nil {
		return nil, err
	}
	var files []File
	for _, e := range entries {
		info, err := durable.Lstat(filepath.Join(b.Dir(kind), e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, File{Kind: kind, Name: deliveredAs(e.Name()), At: e.Name(), Info: info})
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.At, b.At) })
	return files, nil
}

// deliveredIn lists the entries with delivered names in a directory; none if it is missing.
func deliveredIn(dir string) ([]fs.DirEntry, error) {
	entries, err := durable.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !Delivered(e.Name()) }), err
}

// Delivered reports whether a name counts as delivered.
func Delivered(name string) bool {
	return strings.HasSuffix(name, ".json") && !strings.HasPrefix(name, ".")
}

// Arrives reports whether a file that gets this name may be new: it is delivered, and we
// did not just take it out of the way.
func Arrives(name string) bool { return Delivered(name) && !strings.Contains(name, takenMark) }

// Read returns the bytes of a regular file, at most one more than a drop may
// have, and f with its state at the time of reading. A file that we own and may
// not read is made readable first, if the system allows that safely. The error
// matches fs.ErrNotExist if the file has gone.
func (b *Box) Read(f File) ([]byte, File, error) {
	path := b.path(f)
	// A link or a pipe that replaced the file since it was listed is refused.
	data, info, err := durable.ReadAtMost(path, drop.MaxSize+1)
	if errors.Is(err, fs.ErrPermission) && durable.GrantRead(path) == nil {
		data, info, err = durable.ReadAtMost(path, drop.MaxSize+1)
	}
	if err != nil {
		return nil, f, err
	}
	f.Info = info
	return data, f, nil
}

func (b *Box) path(f File) string { return filepath.Join(b.dir, string(f.Kind), f.At) }

func (b *Box) settledPath(dir, name string) string { return filepath.Join(b.dir, dir, name) }

// EachDrop visits the drops in a directory, settled or not. It skips other files,
// and those that we may not read.
func EachDrop(dir string, visit func(*drop.Object)) error {
	entries, err := deliveredIn(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
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

// Drops returns the creates of the tasks of a data directory, as far as they are found.
// It reads all creates and is for when tasks are lost.
func Drops(dir string) (map[pipeline.TaskID]pipeline.Dropped, error) {
	all := map[pipeline.TaskID]pipeline.Dropped{}
	for _, folder := range []string{FailedDir, string(NewTasks), ProcessedDir} { // what took effect says most
		err := EachDrop(filepath.Join(dir, folder), func(o *drop.Object) {
			c, err := drop.ParseCreate(o.Bytes())
			if err != nil {
				return // an update, or no drop
			}
			d := all[c.Task.ID]
			d.Waiting = d.Waiting || folder == string(NewTasks)
			if d.Steps == nil || o.Get(skippedKey) == nil {
				d.Steps = c.Task.Steps
			}
			all[c.Task.ID] = d
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
