package dispatch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"otm/internal/ordered"
	"otm/pipeline"
)

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

	stood   *standing // as it was read; nil: it is new
	removed bool      // it is not written any more
}

// standing is an entry as it stands in the file.
type standing struct {
	fields ordered.Object
	read   Entry // what of it was understood
}

// entryKeys are the keys of an entry that OTM writes.
var entryKeys = []string{"taskId", "title", "priority", "project", "type", "subtasks", "dispatchedAt", "slackItemId",
	"agent", "attempt", "triggeredAt", "runId", "picked"}

// ours are the members that OTM writes.
func (e *Entry) ours() (o ordered.Object, err error) {
	put := func(key string, v any) {
		m, merr := ordered.New(key, v)
		o, err = append(o, m), cmp.Or(err, merr)
	}
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	put("taskId", e.TaskID)
	put("title", e.Title)
	put("priority", e.Priority)
	if e.Project != "" {
		put("project", e.Project)
	} else {
		put("project", nil)
	}
	put("type", e.Type)
	put("subtasks", append([]string{}, e.Steps...))
	put("dispatchedAt", stamp(e.DispatchedAt))
	put("slackItemId", e.RowID)
	put("agent", e.Agent)
	put("attempt", e.Attempt)
	if !e.TriggeredAt.IsZero() {
		put("triggeredAt", stamp(e.TriggeredAt))
	}
	if e.RunID != "" {
		put("runId", e.RunID)
	}
	if e.Picked {
		put("picked", true)
	}
	return o, err
}

// members are what is to be written: what we changed since we read the entry,
// and all the rest as it stood, also where an agent bent it out of shape.
func (e *Entry) members() (ordered.Object, error) {
	now, err := e.ours()
	if err != nil || e.stood == nil {
		return now, err
	}
	was, err := e.stood.read.ours()
	if err != nil {
		return nil, err
	}
	var out ordered.Object
	for _, m := range e.stood.fields {
		value := now.Get(m.Key)
		switch {
		case !slices.Contains(entryKeys, m.Key), bytes.Equal(value, was.Get(m.Key)):
			out = append(out, m)
		case value != nil && !out.Has(m.Key):
			out = append(out, ordered.Member{Key: m.Key, Name: m.Name, Value: value})
		}
	}
	for _, m := range now {
		if !e.stood.fields.Has(m.Key) && !bytes.Equal(m.Value, was.Get(m.Key)) {
			out = append(out, m)
		}
	}
	return out, nil
}

// MarshalJSON writes the entry as agents see it, with what they added.
func (e Entry) MarshalJSON() ([]byte, error) {
	o, err := e.members()
	if err != nil {
		return nil, err
	}
	return o.Line()
}

// changed reports whether the entry differs from what stands in the file.
func (e *Entry) changed() bool {
	if e.stood == nil {
		return true
	}
	a, b := *e, e.stood.read
	same := slices.Equal(a.Steps, b.Steps) && a.DispatchedAt.Equal(b.DispatchedAt) && a.TriggeredAt.Equal(b.TriggeredAt)
	a.Steps, a.DispatchedAt, a.TriggeredAt, a.stood = nil, b.DispatchedAt, b.TriggeredAt, nil
	b.Steps, b.stood = nil, nil
	return !same || !equalRest(a, b)
}

// equalRest compares two entries without their steps.
func equalRest(a, b Entry) bool {
	return a.TaskID == b.TaskID && a.Title == b.Title && a.Priority == b.Priority && a.Project == b.Project && a.Type == b.Type &&
		a.RowID == b.RowID && a.Agent == b.Agent && a.Attempt == b.Attempt && a.RunID == b.RunID && a.Picked == b.Picked
}

// stale reports whether the entry, and its mark, is from before the given attempt.
// One without an attempt, as agents rewrite them, is not.
func (e *Entry) stale(attempt int) bool { return e.Attempt != 0 && e.Attempt < attempt }

// byUrgency orders entries: highest priority first, then oldest.
func byUrgency(a, b *Entry) int {
	return cmp.Or(cmp.Compare(a.Priority.Rank(), b.Priority.Rank()),
		a.DispatchedAt.Compare(b.DispatchedAt), cmp.Compare(a.TaskID, b.TaskID))
}

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
	fields, err := ordered.Parse(raw)
	if err != nil {
		return it
	}
	var e Entry
	get := func(key string, into any) {
		if raw := fields.Get(key); raw != nil {
			json.Unmarshal(raw, into)
		}
	}
	get("taskId", &e.TaskID)
	get("agent", &e.Agent)
	if e.TaskID == 0 || e.Agent == "" {
		return it
	}
	get("title", &e.Title)
	get("priority", &e.Priority)
	get("project", &e.Project)
	get("type", &e.Type)
	get("dispatchedAt", &e.DispatchedAt)
	get("slackItemId", &e.RowID)
	get("attempt", &e.Attempt)
	get("triggeredAt", &e.TriggeredAt)
	get("runId", &e.RunID)
	if json.Unmarshal(fields.Get("subtasks"), &e.Steps) != nil {
		e.Steps = nil // a list of which only a part was understood
	}
	e.Picked = isYes(fields.Get("picked"))
	read := e
	e.stood = &standing{fields: fields, read: read}
	it.entry = &e
	return it
}

// isYes reads a mark as people and models write it: true, "true", 1.
func isYes(raw json.RawMessage) bool {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return false
	}
	switch v := v.(type) {
	case bool:
		return v
	case float64:
		return v != 0
	case string:
		return slices.Contains([]string{"true", "yes", "1"}, strings.ToLower(strings.TrimSpace(v)))
	}
	return false
}
