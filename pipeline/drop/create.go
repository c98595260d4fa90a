package drop

import (
	"slices"
	"strings"
	"time"

	"otm/pipeline"
)

// Create is a drop in new-tasks/: it asks for a task.
type Create struct {
	ID        string // the drop's own; "" if a foreign drop has none
	CreatedAt time.Time
	Task      pipeline.Task // ID is 0 in a line of otm-create --from
	By        string        // who asked for it, as the file claims; "": it says nothing
	// Parked is why the task is not to be worked on yet: it begins as blocked,
	// with this reason. "": it begins as new.
	Parked  string
	Trace   pipeline.Trace
	Ignored []string // keys of the file that OTM does not know
}

// createFile is the form of a create on disk.
type createFile struct {
	ID        string            `json:"id"`
	TaskID    string            `json:"taskId"`
	Title     string            `json:"title"`
	Agent     string            `json:"agent"`
	CreatedAt string            `json:"createdAt"`
	Priority  pipeline.Priority `json:"priority"`
	Project   *string           `json:"project"`
	Subtasks  []string          `json:"subtasks"`
	Type      pipeline.Type     `json:"type"`
	Context   string            `json:"context,omitempty"`
	Inputs    []string          `json:"inputFiles,omitempty"`
	Body      string            `json:"body,omitempty"`
	Parent    pipeline.TaskID   `json:"parent,omitempty"`
	Status    string            `json:"status"`
	By        string            `json:"by,omitempty"`
	Trace     pipeline.Trace    `json:"traceparent,omitempty"`
}

var createFields = []string{"id", "taskId", "title", "agent", "createdAt", "priority", "project", "subtasks", "type", "context", "inputFiles", "body", "parent", "status", "reason", "by", "traceparent"}

// lineFields are the keys that a line of otm-create --from may have.
var lineFields = []string{"title", "agent", "priority", "project", "subtasks", "type", "context", "inputFiles", "body", "parent", "traceparent", "key"}

// Encode returns the file of a create.
func (c *Create) Encode() []byte {
	f := createFile{
		ID: c.ID, TaskID: c.Task.ID.String(), Title: c.Task.Title, Agent: c.Task.Agent,
		CreatedAt: stamp(c.CreatedAt), Priority: c.Task.Priority, Subtasks: c.Task.Steps,
		Type: c.Task.Type, Context: c.Task.Context, Inputs: c.Task.Inputs, Body: c.Task.Body, Parent: c.Task.Parent, Status: "pending", By: c.By, Trace: c.Trace,
	}
	if c.Task.Project != "" {
		f.Project = &c.Task.Project
	}
	return encode(f)
}

// ParseCreate reads a drop from new-tasks/. The error is a *SyntaxError or an
// *InvalidError.
func ParseCreate(data []byte) (*Create, error) {
	r, err := newReader(data, createFields...)
	if err != nil {
		return nil, err
	}
	if !r.has("taskId") {
		r.fail(&InvalidError{Field: "taskId", Reason: "is missing: only otm-create gives out task ids",
			Hint: "otm-create --from -"})
	}
	id := r.taskID("taskId", pipeline.ParseFileID)
	c := r.create(pipeline.Task{ID: id, Priority: pipeline.Normal, Type: pipeline.Action})
	c.ID = r.text("id", pipeline.MaxText)
	c.By = r.text("by", pipeline.MaxText)
	c.Parked = r.parked()
	c.Trace = r.trace("")
	c.Ignored = r.object.unknown(createFields)
	return c, r.err
}

// parked reads the status of a create: pending, or blocked with a reason.
func (r *reader) parked() string {
	status, reason := r.text("status", pipeline.MaxText), r.text("reason", pipeline.MaxText)
	s, _ := pipeline.ParseStatus(status)
	if status == "" || s == pipeline.Pending {
		return ""
	}
	r.refuse(s != pipeline.Blocked, "status", "is %q: a new task is pending, or blocked with a reason", status)
	r.refuse(strings.TrimSpace(reason) == "", "reason", "is missing: a task that begins as blocked needs one")
	return reason
}

// Line is one line of otm-create --from: a create without an id, and the key
// that makes it unique.
type Line struct {
	Create
	Key string
}

// ParseLine reads one line of otm-create --from. Fields that are missing or null
// are taken from defaults.
func ParseLine(data []byte, defaults Line) (*Line, error) {
	r, err := newReader(data, append(createFields, "key")...)
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"id", "taskId", "createdAt", "status"} {
		if r.object.Get(key) != nil {
			return nil, &InvalidError{Field: key, Reason: "is given by otm-create: leave it out"}
		}
	}
	r.refuseUnknown(lineFields)
	line := &Line{Create: *r.create(defaults.Task), Key: defaults.Key}
	line.Trace = r.trace(defaults.Trace)
	if r.has("key") {
		line.Key = r.text("key", MaxSize)
		r.refuse(strings.TrimSpace(line.Key) == "", "key", "is blank")
	}
	return line, r.err
}

// create reads the fields that a file and a line share, over the defaults in t.
func (r *reader) create(t pipeline.Task) *Create {
	r.textInto("title", &t.Title, pipeline.MaxText)
	r.textInto("agent", &t.Agent, pipeline.MaxText)
	r.textInto("project", &t.Project, pipeline.MaxText)
	if r.has("priority") {
		t.Priority = enum(r, "priority", pipeline.ParsePriority, pipeline.Priorities)
	}
	if r.has("type") {
		label := r.text("type", pipeline.MaxText)
		var ok bool
		t.Type, ok = pipeline.ParseType(label)
		r.refuse(!ok, "type", "is %q, which is no name", label)
	}
	r.textsInto("subtasks", &t.Steps, false)
	r.textInto("context", &t.Context, pipeline.MaxText)
	r.textsInto("inputFiles", &t.Inputs, false)
	r.textInto("body", &t.Body, MaxSize) // CheckTask counts its bytes
	if r.has("parent") {
		t.Parent = r.taskID("parent", pipeline.ParseFileID)
	}
	c := &Create{Task: t, CreatedAt: r.time("createdAt")}
	r.fail(CheckTask(&c.Task))
	return c
}

// CheckTask checks a task against the limits of a create, cleans the names of the agent
// and the context, and adds the default step if there is none. The error is an *InvalidError.
func CheckTask(t *pipeline.Task) error {
	var v verdict
	v.title("title", t.Title)
	v.refuse(strings.ContainsAny(t.Title, "\r\n"), "title", "has a line break: a title is one line")
	v.refuse(t.Parent != 0 && t.Parent == t.ID, "parent", "is the task itself")
	t.Agent = pipeline.CleanName(t.Agent)
	v.refuse(t.Agent == "", "agent", "is missing")
	v.refuse(!pipeline.ValidAgentName(t.Agent), "agent", "%q is no name for an agent: letters, digits, spaces, '.', '-' and '_', at most %d", t.Agent, pipeline.MaxAgentName)
	if pipeline.IsSharedQueue(t.Agent) {
		t.Agent = pipeline.SharedQueue
	}
	v.text("project", t.Project, pipeline.MaxText)
	if len(t.Steps) == 0 {
		t.Steps = []string{pipeline.DefaultStep}
	}
	v.several("subtasks", len(t.Steps), "steps")
	t.Context = pipeline.FoldName(t.Context)
	v.refuse(t.Context != "" && !slices.Contains(pipeline.Contexts, t.Context), "context", "is %q: it is one of %s", t.Context, strings.Join(pipeline.Contexts, ", "))
	v.several("inputFiles", len(t.Inputs), "paths")
	for i, s := range t.Inputs {
		v.title(place("inputFiles", i), s)
		v.refuse(strings.ContainsAny(s, "\r\n"), place("inputFiles", i), "has a line break")
	}
	v.refuse(len(t.Body) > pipeline.MaxBody, "body", "has %d bytes, more than %d: put the rest into a file, and name that as an input", len(t.Body), pipeline.MaxBody)
	v.text("body", t.Body, pipeline.MaxBody)
	if strings.TrimSpace(t.Body) == "" {
		t.Body = ""
	}
	for i, s := range t.Steps {
		v.title(place("subtasks", i), s)
	}
	return v.err
}
