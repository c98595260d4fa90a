package dispatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"otm/internal/crash"
	"otm/internal/durable"
	"otm/internal/ordered"
	"otm/pipeline"
)

// FileName is the name of the dispatch file in a workspace.
const FileName = "task-dispatch.json"

// How long to wait for a dispatch file's lock. A pass waits less: it may hold
// the board meanwhile, and it comes again.
const (
	fileWait = 60 * time.Second
	passWait = 3 * time.Second
)

// File is a dispatch file that is being changed.
type File struct {
	path  string
	top   ordered.Object // dispatched stands among the keys, without its value
	items []item
	// Aside is where the file was put because it was not what it should be; ""
	// where it was fine.
	Aside string

	moved bool // entries came or went
	index map[pipeline.TaskID][]*Entry
}

// maxFile bounds a dispatch file, in bytes: some ten thousand entries.
const maxFile = 4 << 20

// TooLargeError says that a dispatch file is larger than OTM reads. It is left as
// it is, and so is its agent: to read it would delay the others.
type TooLargeError struct {
	Path string
	Size int64 // in bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%q has %d bytes, and OTM reads %d at most: move it away, and OTM begins a new one with all that is open", e.Path, e.Size, int64(maxFile))
}

// A writer that does not know our lock may be in the middle of it, and tells
// nobody when it has done: what is not JSON is looked at again for a while if it
// has just been written.
const (
	settleTries = 10
	settlePause = 20 * time.Millisecond
	settledAge  = 2 * time.Second
)

// readFile reads a dispatch file; one that is missing is empty, and one that
// is not what it should be is set aside, with every byte.
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
		time.Sleep(settlePause) // who writes in place tells nobody when the file is whole
	}
}

var errUnfit = errors.New("not a regular file")

// load returns the bytes of a regular file of at most limit bytes, and when it
// was written. Links are not followed, and pipes not waited for.
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

// parse reads the file's bytes. One that is empty was made by hand.
func (file *File) parse(data []byte) error {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	if len(data) == 0 {
		return nil
	}
	top, err := ordered.Parse(data)
	if err != nil {
		return err
	}
	var items []item
	for i, m := range top {
		if m.Key != keyDispatched {
			continue
		}
		var raws []json.RawMessage
		if err := json.Unmarshal(m.Value, &raws); err != nil {
			return err
		}
		for _, raw := range raws {
			items = append(items, readItem(raw))
		}
		top[i].Value = nil
	}
	file.top, file.items = top, items
	return nil
}

// keyDispatched is the key of the list of entries.
const keyDispatched = "dispatched"

// setAside gives the file another name. If we crash before a new one is
// written, its entries count as vanished, and come back like those.
func (file *File) setAside(now time.Time) error {
	aside, err := durable.SetAside(file.path, now.UTC().Format("20060102T150405Z"))
	file.Aside = aside
	return err
}

// write replaces the file if it was changed. Where it was not, it is left as it
// is, however it is formatted: each write is one that a writer without our lock
// could lose by.
func (file *File) write() error {
	changed := file.moved || file.Aside != "" || slices.ContainsFunc(file.items, func(it item) bool { return it.entry != nil && it.entry.changed() })
	if !changed {
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

// encode writes one entry a line, so that people can read it and a diff shows
// what happened.
func (file *File) encode() ([]byte, error) {
	b := bytes.NewBufferString("{")
	written := false
	top := file.top
	if !top.Has(keyDispatched) {
		top = append(ordered.Object{{Key: keyDispatched, Name: json.RawMessage(`"` + keyDispatched + `"`)}}, top...)
	}
	for _, m := range top {
		if m.Key == keyDispatched && written {
			continue // it stood there twice: the lists are one now
		}
		if b.Len() > 1 {
			b.WriteString(",\n")
		}
		b.Write(m.Name)
		b.WriteByte(':')
		if m.Key != keyDispatched {
			if err := json.Compact(b, m.Value); err != nil {
				return nil, err
			}
			continue
		}
		written = true
		if err := file.encodeItems(b); err != nil {
			return nil, err
		}
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

func (file *File) encodeItems(b *bytes.Buffer) error {
	b.WriteByte('[')
	first := true
	for _, it := range file.items {
		if it.entry != nil && it.entry.removed {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		b.WriteString("\n ")
		raw := []byte(it.raw)
		if it.entry != nil && it.entry.changed() {
			var err error
			if raw, err = it.entry.MarshalJSON(); err != nil {
				return err
			}
		}
		if err := json.Compact(b, raw); err != nil {
			return err
		}
	}
	b.WriteString("\n]")
	return nil
}

// Entries returns our entries, in the order of the file.
func (file *File) Entries() []*Entry {
	var entries []*Entry
	for _, it := range file.items {
		if it.entry != nil && !it.entry.removed {
			entries = append(entries, it.entry)
		}
	}
	return entries
}

// Find returns the entry of a task for an agent; nil if there is none.
func (file *File) Find(id pipeline.TaskID, agent string) *Entry {
	if file.index == nil {
		file.index = map[pipeline.TaskID][]*Entry{}
		for _, e := range file.Entries() {
			file.index[e.TaskID] = append(file.index[e.TaskID], e)
		}
	}
	for _, e := range file.index[id] {
		if !e.removed && sameAgent(e.Agent, agent) {
			return e
		}
	}
	return nil
}

// Put adds an entry, or replaces the one of the same task and agent. What the
// agent added to that one stays, but for its mark if this is a new attempt.
func (file *File) Put(e Entry) {
	if old := file.Find(e.TaskID, e.Agent); old != nil {
		e.stood = old.stood
		if !old.stale(e.Attempt) {
			e.Picked = old.Picked || e.Picked
		}
		*old = e
		return
	}
	file.items = append(file.items, item{entry: &e})
	file.index[e.TaskID] = append(file.index[e.TaskID], &e)
	file.moved = true
}

// Remove takes an entry out.
func (file *File) Remove(e *Entry) {
	e.removed = true
	file.moved = true
}
