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

// Entry is one task in a dispatch file. Members that agents add are kept.
type Entry struct {
	TaskID       pipeline.TaskID
	Title        string
	Priority     pipeline.Priority
	Project      string
	Type         pipeline.Type
	Context      string
	Inputs       []string
	Steps        []string
	DispatchedAt time.Time
	RowID        string
	Agent        string
	Attempt      int
	TriggeredAt  time.Time // a copy for people; zero: not woken yet
	RunID        string    // a copy for people
	Picked       bool      // the agent took the task

	stood   *standing // as read from the file; nil: the entry is new
	removed bool      // the entry is not written again
}

// standing is an entry as read from the file.
type standing struct {
	fields ordered.Object
	ours   ordered.Object // the members that OTM would write for what it understood
}

// entryKeys are the keys of an entry that OTM writes.
var entryKeys = []string{"taskId", "title", "priority", "project", "type", "context", "inputFiles", "subtasks", "dispatchedAt", "slackItemId",
	"agent", "attempt", "triggeredAt", "runId", "picked"}

// ours returns the members that OTM writes.
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
	if e.Context != "" {
		put("context", e.Context)
	}
	if len(e.Inputs) > 0 {
		put("inputFiles", e.Inputs)
	}
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

// members returns what to write: our changes since the entry was read, and
// everything else as it was, malformed or not.
func (e *Entry) members() (ordered.Object, error) {
	now, err := e.ours()
	if err != nil || e.stood == nil {
		return now, err
	}
	was := e.stood.ours
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

// MarshalJSON writes the entry as agents see it, with the members they added.
func (e Entry) MarshalJSON() ([]byte, error) {
	o, err := e.members()
	if err != nil {
		return nil, err
	}
	return o.Line()
}

// changed reports whether the entry differs from the file.
func (e *Entry) changed() bool {
	if e.stood == nil {
		return true
	}
	now, err := e.ours()
	return err != nil || !slices.EqualFunc(now, e.stood.ours, func(a, b ordered.Member) bool {
		return a.Key == b.Key && bytes.Equal(a.Value, b.Value)
	})
}

// stale reports whether the entry, and its mark, belongs to an earlier attempt
// than the given one. Agents rewrite entries without an attempt: such an entry is
// not stale.
func (e *Entry) stale(attempt int) bool { return e.Attempt != 0 && e.Attempt < attempt }

// item is one element of the array: an entry of ours, or something foreign.
type item struct {
	entry *Entry // nil: foreign
	raw   json.RawMessage
}

// readItem reads an element. It is ours if it has a task id and names an agent.
// Malformed fields are skipped.
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
	get("context", &e.Context)
	get("inputFiles", &e.Inputs)
	get("dispatchedAt", &e.DispatchedAt)
	get("slackItemId", &e.RowID)
	get("attempt", &e.Attempt)
	get("triggeredAt", &e.TriggeredAt)
	get("runId", &e.RunID)
	if json.Unmarshal(fields.Get("subtasks"), &e.Steps) != nil {
		e.Steps = nil // Unmarshal may have filled a part
	}
	e.Picked = isYes(fields.Get("picked"))
	if ours, err := e.ours(); err == nil {
		e.stood = &standing{fields, ours}
		it.entry = &e
	}
	return it
}

// isYes reads a mark the way people and models write it: true, "true", 1.
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
