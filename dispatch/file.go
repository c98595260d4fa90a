package dispatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"otm/core"
	"otm/internal/crash"
	"otm/internal/durable"
	"otm/internal/ordered"
	"otm/pipeline"
)

// FileName is the name of the dispatch file in a workspace.
const FileName = "task-dispatch.json"

// How long to wait for the lock of a dispatch file. A pass waits less: it may
// hold the board meanwhile, and the next pass tries again.
const (
	fileWait = 60 * time.Second
	passWait = 3 * time.Second
)

// File is a dispatch file that is being changed.
type File struct {
	path  string
	top   ordered.Object // keyDispatched is among the keys, without its value
	items []*Entry       // in the order of the file, foreign elements too
	Aside string         // the new path of an invalid file that was set aside; "": the file was valid

	removed bool // entries were removed
}

// maxFile bounds a dispatch file, in bytes: some ten thousand entries.
const maxFile = 4 << 20

// TooLargeError says that a dispatch file is larger than OTM reads. OTM leaves the
// file and its agent alone: reading it would delay the other agents.
type TooLargeError struct {
	Path string
	Size int64 // in bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%q has %d bytes, and OTM reads at most %d: move it away, and OTM writes a new one with all open tasks", e.Path, e.Size, int64(maxFile))
}

// A writer that ignores our lock may be in the middle of a write. So readFile
// retries a file that is not JSON if it was written less than settledAge ago.
const (
	settleTries = 10
	settlePause = 20 * time.Millisecond
	settledAge  = 2 * time.Second
)

// readFile reads a dispatch file. A missing file is empty. An invalid one is set
// aside unchanged.
func readFile(path string, now time.Time) (*File, error) {
	for try := 1; ; try++ {
		file := &File{path: path}
		data, written, err := load(path, maxFile)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return file, nil
		case errors.Is(err, errUnfit):
			return file, file.setAside(now)
		case err != nil:
			return nil, err
		}
		err = file.parse(data)
		unsettled := try < settleTries && time.Since(written).Abs() < settledAge
		switch {
		case err == nil && (len(data) > 0 || !unsettled):
			return file, nil
		case !unsettled:
			return file, file.setAside(now)
		}
		time.Sleep(settlePause) // whoever writes it in place gives no sign when it is done
	}
}

// Peek returns the entries of a dispatch file, and changes nothing. The error matches
// ErrNoEntries if the file is not JSON.
func Peek(path string) ([]*Entry, error) {
	data, _, err := load(path, maxFile)
	if err != nil {
		return nil, err
	}
	file := &File{}
	if err := file.parse(data); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoEntries, err)
	}
	return file.Entries(), nil
}

// ErrNoEntries says that a dispatch file holds no list of entries.
var ErrNoEntries = errors.New("not a dispatch file")

var errUnfit = errors.New("not a regular file")

// load returns the bytes of a regular file of at most limit bytes, and when it
// was written. It does not follow links nor wait for pipes: the error is errUnfit.
func load(path string, limit int64) ([]byte, time.Time, error) {
	data, info, err := durable.ReadAtMost(path, limit)
	switch {
	case errors.Is(err, durable.ErrNoFile):
		return nil, time.Time{}, errUnfit
	case err == nil && info.Size() > limit:
		return nil, time.Time{}, &TooLargeError{Path: path, Size: info.Size()}
	case err != nil:
		return nil, time.Time{}, err
	}
	return data, info.ModTime(), nil
}

// parse reads the bytes of a file. People make empty files: they are valid. If
// the list of entries occurs twice, the second is appended to the first.
func (file *File) parse(data []byte) error {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	if len(data) == 0 {
		return nil
	}
	top, err := ordered.Parse(data)
	if err != nil {
		return err
	}
	for _, m := range top {
		if m.Key == keyDispatched {
			var raws []json.RawMessage
			if err := json.Unmarshal(m.Value, &raws); err != nil {
				return err
			}
			for _, raw := range raws {
				file.items = append(file.items, readEntry(raw))
			}
			if file.top.Has(keyDispatched) {
				continue
			}
		}
		file.top = append(file.top, m)
	}
	return nil
}

// keyDispatched is the key of the list of entries.
const keyDispatched = "dispatched"

// setAside renames the file. If we crash before the new one is written, the next
// pass misses the entries and writes them again.
func (file *File) setAside(now time.Time) error {
	aside, err := durable.SetAside(file.path, now.UTC().Format("20060102T150405Z"))
	file.Aside = aside
	return err
}

// write replaces the file, durably, if its content changed. Formatting alone is
// no reason: a writer that ignores our lock can lose its changes by each write.
func (file *File) write() error {
	isNew := func(e *Entry) bool { return e.raw == nil }
	if !file.removed && file.Aside == "" && !slices.ContainsFunc(file.items, isNew) {
		return nil
	}
	data, err := file.encode()
	if err != nil {
		return err
	}
	if len(data) > maxFile {
		return &TooLargeError{Path: file.path, Size: int64(len(data))}
	}
	crash.Point("dispatch.file.before")
	err = durable.Replace(file.path, data)
	crash.Point("dispatch.file.after")
	return err
}

// encode writes one entry a line, for people and for diffs.
func (file *File) encode() ([]byte, error) {
	b := bytes.NewBufferString("{")
	top := file.top
	if !top.Has(keyDispatched) {
		top = append(ordered.Object{{Key: keyDispatched, Name: json.RawMessage(`"` + keyDispatched + `"`)}}, top...)
	}
	for i, m := range top {
		if i > 0 {
			b.WriteString(",\n")
		}
		b.Write(m.Name)
		b.WriteByte(':')
		var err error
		if m.Key == keyDispatched {
			err = file.encodeItems(b)
		} else {
			err = json.Compact(b, m.Value)
		}
		if err != nil {
			return nil, err
		}
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

func (file *File) encodeItems(b *bytes.Buffer) (err error) {
	b.WriteByte('[')
	for i, e := range file.items {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n ")
		raw := []byte(e.raw)
		if raw == nil {
			raw, err = e.members.Line()
		}
		if err == nil {
			err = json.Compact(b, raw)
		}
		if err != nil {
			return err
		}
	}
	b.WriteString("\n]")
	return nil
}

// Entries returns our entries in the order of the file.
func (file *File) Entries() []*Entry {
	return slices.DeleteFunc(slices.Clone(file.items), func(e *Entry) bool { return e.TaskID == 0 })
}

// Find returns the entry of a task for an agent; nil if there is none.
func (file *File) Find(id pipeline.TaskID, agent string) *Entry {
	for _, e := range file.items {
		if e.TaskID == id && core.SameAgent(e.Agent, agent) {
			return e
		}
	}
	return nil
}

// Put adds an entry, or replaces the one of the same task and agent. Members that
// the agent added are kept. Its mark is kept unless the attempt is new.
func (file *File) Put(e *Entry) {
	old := file.Find(e.TaskID, e.Agent)
	if old == nil {
		file.items = append(file.items, e)
		return
	}
	marked := old.Picked && !old.stale(e.Attempt)
	for _, key := range entryKeys {
		if key != "picked" || !marked {
			old.replace(key, e.members.Get(key))
		}
	}
}

// Remove takes an entry out.
func (file *File) Remove(e *Entry) {
	file.items = slices.DeleteFunc(file.items, func(other *Entry) bool { return other == e })
	file.removed = true
}
