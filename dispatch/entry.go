package dispatch

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"otm/core"
	"otm/internal/ordered"
	"otm/pipeline"
)

// Entry is one element of the list in a dispatch file. Agents change it as they like:
// OTM sets the members that it means, and keeps the others, malformed or not. The
// fields are what OTM reads of them; what cannot be read is zero.
type Entry struct {
	TaskID  pipeline.TaskID // 0: the element is foreign
	Agent   string
	Attempt int
	Run     int // the number of the run in which an agent that takes it works; 0: not known
	RowID   string
	RunID   string
	Picked  bool // the agent took the task

	members ordered.Object
	raw     json.RawMessage // as it stands in the file; nil: it is to be written
}

// entryKeys are the keys that OTM writes, in their order.
var entryKeys = []string{"taskId", "title", "priority", "project", "type", "context", "inputFiles", "parent", "subtasks", "dispatchedAt", "slackItemId",
	"agent", "attempt", "run", "advice", "triggeredAt", "runId", "picked", "question", "answer"}

// entryOf returns the entry of a task's present dispatch.
func entryOf(t *core.Task) *Entry {
	e, d := &Entry{}, t.Dispatch
	e.set("taskId", t.ID)
	e.set("title", t.Title)
	e.set("priority", t.Priority)
	if e.set("project", t.Project); t.Project == "" {
		e.set("project", nil)
	}
	e.set("type", t.Type)
	if t.Context != "" {
		e.set("context", t.Context)
	}
	if len(t.Inputs) > 0 {
		e.set("inputFiles", t.Inputs)
	}
	if t.Parent != 0 {
		e.set("parent", t.Parent)
	}
	e.set("subtasks", t.StepTitles())
	e.set("dispatchedAt", stamp(d.At))
	e.set("slackItemId", t.RowID)
	e.set("agent", d.Agent)
	e.set("attempt", d.Attempt)
	e.set("run", t.Runs.Next())
	if advice := adviceFor(t); advice != "" {
		e.set("advice", advice)
	}
	e.noteWake(t)
	if t.Taken() {
		e.set("picked", true)
	}
	e.noteAnswer(t)
	return e
}

// adviceFor is what the agent of the next run, or of the one that goes on, is to heed; "":
// nothing.
func adviceFor(t *core.Task) string {
	for i := len(t.Runs) - 1; i >= 0 && i >= len(t.Runs)-2; i-- {
		if r := &t.Runs[i]; r.Ending == core.EndFailed && r.Advice != nil {
			return r.Advice.Text
		}
	}
	return ""
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// noteWake copies the last wake of a task into its entry, for people.
func (e *Entry) noteWake(t *core.Task) {
	if w := t.Woken; isWoken(t) && w.Key != e.RunID {
		if t.WakeNamed(w.Key) != nil { // else it counts the attempts of another task
			e.set("attempt", max(e.Attempt, w.Attempt))
		}
		e.set("triggeredAt", stamp(w.At))
		e.set("runId", w.Key)
	}
}

// noteAnswer copies the question of a blocked agent and its answer.
func (e *Entry) noteAnswer(t *core.Task) {
	if t.Question == "" {
		e.replace("question", nil)
		e.replace("answer", nil)
		return
	}
	e.set("question", t.Question)
	e.set("answer", t.Reason)
}

// refresh copies what changed into the entry of a task. What an agent took is left as
// it was taken.
func (e *Entry) refresh(t *core.Task) {
	e.noteWake(t)
	e.noteAnswer(t)
	e.set("run", t.Runs.Next())
	if t.Taken() && !e.Picked {
		e.set("picked", true)
	}
	if e.Picked {
		return
	}
	follow(e, "title", t.Title)
	follow(e, "priority", t.Priority)
	follow(e, "subtasks", t.StepTitles())
}

// follow sets a member, unless an agent made something else of it.
func follow[T any](e *Entry, key string, value T) {
	if e.get(key, new(T)) {
		e.set(key, value)
	}
}

// stale reports whether the entry, and its mark, belongs to an earlier attempt
// than the given one. Agents rewrite entries without an attempt: such an entry is
// not stale.
func (e *Entry) stale(attempt int) bool { return e.Attempt != 0 && e.Attempt < attempt }

// readEntry reads an element of the list. It is ours if it has a task id and names an
// agent.
func readEntry(raw json.RawMessage) *Entry {
	e := &Entry{raw: raw}
	e.members, _ = ordered.Parse(raw) // without members, it is foreign
	if e.read(); e.Agent == "" {
		e.TaskID = 0
	}
	return e
}

// read sets the fields.
func (e *Entry) read() {
	*e = Entry{members: e.members, raw: e.raw}
	e.get("taskId", &e.TaskID)
	e.get("agent", &e.Agent)
	e.get("attempt", &e.Attempt)
	e.get("run", &e.Run)
	e.get("slackItemId", &e.RowID)
	e.get("runId", &e.RunID)
	e.Picked = isYes(e.members.Get("picked"))
}

// get reads a member, and reports whether it has a value of the type.
func (e *Entry) get(key string, into any) bool {
	raw := e.members.Get(key)
	return raw != nil && string(raw) != "null" && json.Unmarshal(raw, into) == nil
}

// set sets a member. Our values always encode.
func (e *Entry) set(key string, value any) {
	raw, err := ordered.Encode(value)
	if err != nil {
		panic("internal error: " + key + " of an entry does not encode: " + err.Error())
	}
	e.replace(key, raw)
}

// replace replaces the value of a member, unless it is another spelling of the same;
// nil: it removes the member.
func (e *Entry) replace(key string, value json.RawMessage) {
	if sameJSON(e.members.Get(key), value) {
		return
	}
	isKey := func(m ordered.Member) bool { return m.Key == key }
	i := slices.IndexFunc(e.members, isKey)
	members := slices.DeleteFunc(slices.Clone(e.members), isKey) // copies of the entry share its members
	if i < 0 {
		i = len(members)
	}
	if value != nil {
		members = slices.Insert(members, i, ordered.Member{Key: key, Name: json.RawMessage(`"` + key + `"`), Value: value})
	}
	e.members, e.raw = members, nil
	e.read()
}

func sameJSON(a, b json.RawMessage) bool {
	if a == nil || b == nil || bytes.Equal(a, b) {
		return (a == nil) == (b == nil)
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
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
