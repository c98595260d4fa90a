package dispatch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"otm/internal/crash"
	"otm/internal/durable"
	"otm/internal/lock"
	"otm/pipeline"
)

// FileName is the name of the dispatch file in a workspace.
const FileName = "task-dispatch.json"

// fileWait is how long to wait for a dispatch file's lock.
const fileWait = 60 * time.Second

// Entry is one task in a dispatch file. What agents add to it is kept.
type Entry struct {
	TaskID       pipeline.TaskID
	Title        string
	Priority     pipeline.Priority
	Project      string
	Type         pipeline.Type
	Steps        []string
	DispatchedAt time.Time
	RowID        string
	Agent        string
	Attempt      int
	TriggeredAt  time.Time // a copy for people; zero: not woken yet
	RunID        string    // a copy for people
	Picked       bool

	raw map[string]json.RawMessage // as it stands in the file
}

// entryJSON is the form of an entry that OTM writes.
type entryJSON struct {
	TaskID       pipeline.TaskID   `json:"taskId"`
	Title        string            `json:"title"`
	Priority     pipeline.Priority `json:"priority"`
	Project      *string           `json:"project"`
	Type         pipeline.Type     `json:"type"`
	Subtasks     []string          `json:"subtasks"`
	DispatchedAt string            `json:"dispatchedAt"`
	SlackItemID  string            `json:"slackItemId"`
	Agent        string            `json:"agent"`
	Attempt      int               `json:"attempt"`
	TriggeredAt  string            `json:"triggeredAt,omitempty"`
	RunID        string            `json:"runId,omitempty"`
	Picked       bool              `json:"picked,omitempty"`
}

// MarshalJSON writes the entry as agents see it, with what they added behind.
func (e Entry) MarshalJSON() ([]byte, error) {
	f := entryJSON{
		TaskID: e.TaskID, Title: e.Title, Priority: e.Priority, Type: e.Type, Subtasks: e.Steps,
		DispatchedAt: e.DispatchedAt.UTC().Format(time.RFC3339), SlackItemID: e.RowID,
		Agent: e.Agent, Attempt: e.Attempt, RunID: e.RunID, Picked: e.Picked,
	}
	if e.Project != "" {
		f.Project = &e.Project
	}
	if !e.TriggeredAt.IsZero() {
		f.TriggeredAt = e.TriggeredAt.UTC().Format(time.RFC3339)
	}
	ours, err := encode(f)
	if err != nil {
		return nil, err
	}
	var extra bytes.Buffer
	for _, k := range slices.Sorted(maps.Keys(e.raw)) {
		if slices.Contains(entryKeys, k) {
			continue
		}
		key, _ := json.Marshal(k) // a string always marshals
		extra.WriteByte(',')
		extra.Write(key)
		extra.WriteByte(':')
		extra.Write(e.raw[k])
	}
	ours = bytes.TrimSuffix(ours, []byte("}"))
	return append(append(ours, extra.Bytes()...), '}'), nil
}

var entryKeys = []string{"taskId", "title", "priority", "project", "type", "subtasks", "dispatchedAt", "slackItemId",
	"agent", "attempt", "triggeredAt", "runId", "picked"}

// item is one element of the array: an entry of ours, or whatever else stands
// there.
type item struct {
	entry *Entry // nil where it is not ours
	raw   json.RawMessage
}

// readItem reads an element. Ours is what has a task id and names an agent; a
// field that an agent bent out of shape is passed over.
func readItem(raw json.RawMessage) item {
	it := item{raw: raw}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return it
	}
	e := &Entry{raw: fields}
	get := func(key string, into any) { json.Unmarshal(fields[key], into) }
	get("taskId", &e.TaskID)
	get("agent", &e.Agent)
	if e.TaskID == 0 || e.Agent == "" {
		return it
	}
	get("title", &e.Title)
	get("priority", &e.Priority)
	get("project", &e.Project)
	get("type", &e.Type)
	get("subtasks", &e.Steps)
	get("dispatchedAt", &e.DispatchedAt)
	get("slackItemId", &e.RowID)
	get("attempt", &e.Attempt)
	get("triggeredAt", &e.TriggeredAt)
	get("runId", &e.RunID)
	get("picked", &e.Picked)
	it.entry = e
	return it
}

// File is a dispatch file that is being changed.
type File struct {
	path  string
	rest  map[string]json.RawMessage // keys other than dispatched
	items []item
	// Aside is where the file was put because it was not JSON; "" where it was
	// fine.
	Aside string
	was   []byte
}

// Edit changes the dispatch file of a workspace under its lock: it reads it
// again, lets f change it, and replaces it if f changed something. It is
// durable on return. dir is the data directory.
func Edit(ctx context.Context, dir, workspace string, now time.Time, f func(*File) error) error {
	resolved, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("dispatch-%x", sha256.Sum256([]byte(resolved)))[:len("dispatch-")+16]
	l, err := lock.Acquire(ctx, filepath.Join(dir, "locks", name), fileWait)
	if err != nil {
		return err
	}
	defer l.Release()
	file, err := readFile(filepath.Join(resolved, FileName), now)
	if err != nil {
		return err
	}
	if err := f(file); err != nil {
		return err
	}
	return file.write()
}

// maxFile bounds what is read of a dispatch file, in bytes.
const maxFile = 64 << 20

// readFile reads a dispatch file; one that is missing is empty, and one that
// is not what it should be is set aside, with every byte.
func readFile(path string, now time.Time) (*File, error) {
	file := &File{path: path, rest: map[string]json.RawMessage{}}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if errors.Is(err, syscall.ELOOP) {
		return file, file.setAside(now) // a link: it is not followed
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if file.was, err = io.ReadAll(io.LimitReader(f, maxFile)); err != nil {
		return nil, err
	}
	if file.parse() != nil {
		return file, file.setAside(now)
	}
	return file, nil
}

func (file *File) parse() error {
	data := bytes.TrimSpace(bytes.TrimPrefix(file.was, []byte("\xef\xbb\xbf")))
	if len(data) == 0 {
		return nil // made by hand, and empty
	}
	if err := json.Unmarshal(data, &file.rest); err != nil {
		return err
	}
	if file.rest == nil {
		return errors.New("null")
	}
	var raws []json.RawMessage
	if list := file.rest["dispatched"]; list != nil {
		if err := json.Unmarshal(list, &raws); err != nil {
			return err
		}
	}
	delete(file.rest, "dispatched")
	for _, raw := range raws {
		file.items = append(file.items, readItem(raw))
	}
	return nil
}

func (file *File) setAside(now time.Time) error {
	file.rest, file.items, file.was = map[string]json.RawMessage{}, nil, nil
	for n := 0; ; n++ {
		aside := file.path + ".corrupt-" + now.UTC().Format("20060102T150405Z")
		if n > 0 {
			aside += fmt.Sprintf("-%d", n+1)
		}
		err := durable.Move(file.path, aside)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		file.Aside = aside
		return err
	}
}

func (file *File) write() error {
	data, err := file.encode()
	if err != nil {
		return err
	}
	if bytes.Equal(data, file.was) || len(file.items) == 0 && len(file.was) == 0 && file.Aside == "" {
		return nil
	}
	crash.Point("dispatch.file.before")
	err = durable.Replace(file.path, data)
	crash.Point("dispatch.file.after")
	return err
}

// encode writes one entry a line, so that people can read it and a diff shows
// what happened.
func (file *File) encode() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("{\"dispatched\":[")
	for i, it := range file.items {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n ")
		raw := []byte(it.raw)
		if it.entry != nil {
			var err error
			if raw, err = it.entry.MarshalJSON(); err != nil {
				return nil, err
			}
		}
		if err := json.Compact(&b, raw); err != nil {
			return nil, err
		}
	}
	b.WriteString("\n]")
	for _, k := range slices.Sorted(maps.Keys(file.rest)) {
		key, _ := json.Marshal(k) // a string always marshals
		fmt.Fprintf(&b, ",\n%s:", key)
		if err := json.Compact(&b, file.rest[k]); err != nil {
			return nil, err
		}
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

// Entries returns our entries, in the order of the file.
func (file *File) Entries() []*Entry {
	var entries []*Entry
	for _, it := range file.items {
		if it.entry != nil {
			entries = append(entries, it.entry)
		}
	}
	return entries
}

// Find returns the entry of a task for an agent; nil where there is none.
func (file *File) Find(id pipeline.TaskID, agent string) *Entry {
	for _, e := range file.Entries() {
		if e.TaskID == id && pipeline.FoldName(e.Agent) == pipeline.FoldName(agent) {
			return e
		}
	}
	return nil
}

// Put adds an entry, or replaces the one of the same task and agent. What the
// agent added to that one stays, but for its mark if this is a new attempt.
func (file *File) Put(e Entry) {
	if old := file.Find(e.TaskID, e.Agent); old != nil {
		e.raw = old.raw
		if old.Attempt == e.Attempt {
			e.Picked = old.Picked
		}
		*old = e
		return
	}
	file.items = append(file.items, item{entry: &e})
}

// Remove takes an entry out.
func (file *File) Remove(e *Entry) {
	file.items = slices.DeleteFunc(file.items, func(it item) bool { return it.entry == e })
}

// byUrgency orders entries: highest priority first, then oldest.
func byUrgency(a, b *Entry) int {
	return cmp.Or(cmp.Compare(a.Priority.Rank(), b.Priority.Rank()),
		a.DispatchedAt.Compare(b.DispatchedAt), cmp.Compare(a.TaskID, b.TaskID))
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
