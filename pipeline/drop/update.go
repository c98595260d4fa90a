package drop

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"otm/pipeline"
)

// Update is a drop in task-updates/: it reports on a task.
type Update struct {
	ID        string // the drop's own; "" if a foreign drop has none
	TaskID    pipeline.TaskID
	CreatedAt time.Time
	Status    pipeline.Status // "" if the status is to stay
	StepsDone []string        // titles or numbers, as reported
	Reason    string
	Result    string
	By        string           // the agent in whose shell it was made; "": not said
	Run       int              // the run to which it belongs; 0: not said
	Terminal  bool             // of failed: a retry makes no sense
	Message   pipeline.Message // its Text is "" if the update says nothing in the thread
	Trace     pipeline.Trace
	Ignored   []string // keys of the file that OTM does not know
}

// Sum is equal for updates that differ in their ids and times only.
func (u *Update) Sum() string {
	said := *u
	said.ID, said.CreatedAt = "", time.Time{}
	sum := sha256.Sum256(said.Encode())
	return hex.EncodeToString(sum[:8])
}

// updateFile is the form of an update on disk.
type updateFile struct {
	ID           string   `json:"id"`
	TaskID       string   `json:"taskId"`
	Action       string   `json:"action"`
	CreatedAt    string   `json:"createdAt"`
	Status       *string  `json:"status"`
	SubtasksDone []string `json:"subtasksDone"`
	Reason       *string  `json:"reason"`
	Result       *string  `json:"result"`
	By           string   `json:"by,omitempty"`
	Run          int      `json:"run,omitempty"`
	Terminal     bool     `json:"terminal,omitempty"`
	Note         string   `json:"note,omitempty"`
	Percent      *int     `json:"percent,omitempty"`
	Tag          string   `json:"tag,omitempty"`
	Mentions     []string `json:"mentions,omitempty"`

	Trace pipeline.Trace `json:"traceparent,omitempty"`
}

// updateLineFields are the keys that a line of otm-update --from may have.
var updateLineFields = []string{"taskId", "action", "status", "subtasksDone", "reason", "result", "by", "run", "terminal", "note", "percent", "tag", "mentions", "traceparent"}

var updateFields = []string{"id", "taskId", "action", "createdAt", "status", "subtasksDone", "reason", "result", "by", "run", "terminal", "note", "percent", "tag", "mentions", "traceparent"}

// Encode returns the file of an update.
func (u *Update) Encode() []byte {
	f := updateFile{
		ID: u.ID, TaskID: u.TaskID.String(), Action: "update", CreatedAt: stamp(u.CreatedAt),
		SubtasksDone: u.StepsDone, Status: orNull(string(u.Status)), Reason: orNull(u.Reason), Result: orNull(u.Result),
		By: u.By, Run: u.Run, Terminal: u.Terminal,
		Note: u.Message.Text, Percent: u.Message.Percent, Tag: string(u.Message.Tag), Mentions: u.Message.Mentions,
		Trace: u.Trace,
	}
	if f.SubtasksDone == nil {
		f.SubtasksDone = []string{}
	}
	return encode(f)
}

// ParseUpdate reads a drop from task-updates/. The error is a *SyntaxError or
// an *InvalidError.
func ParseUpdate(data []byte) (*Update, error) {
	r, err := newReader(data, updateFields...)
	if err != nil {
		return nil, err
	}
	u := r.update(Update{})
	u.TaskID = r.taskID("taskId", pipeline.ParseFileID)
	u.ID = r.text("id", pipeline.MaxText)
	u.Ignored = r.object.unknown(updateFields)
	return u, r.err
}

// ParseUpdateLine reads one line of otm-update --from. Fields that are missing or
// null are taken from defaults.
func ParseUpdateLine(data []byte, defaults Update) (*Update, error) {
	r, err := newReader(data, updateFields...)
	if err != nil {
		return nil, err
	}
	for key, instead := range map[string]string{"id": `; the task's id is "taskId"`, "createdAt": ""} {
		if r.object.Get(key) != nil {
			return nil, &InvalidError{Field: key, Reason: "is given by otm-update: leave it out" + instead}
		}
	}
	r.refuseUnknown(updateLineFields)
	u := r.update(defaults)
	u.TaskID = defaults.TaskID
	if r.has("taskId") || u.TaskID == 0 {
		u.TaskID = r.taskID("taskId", pipeline.ParseTaskID)
	}
	return u, r.err
}

// update reads the fields that a file and a line share, over the defaults in u.
func (r *reader) update(u Update) *Update {
	action := r.text("action", pipeline.MaxText)
	r.refuse(action != "" && action != "update", "action", "is %q: only \"update\" is known", action)
	if r.has("status") {
		u.Status = r.status()
	}
	r.textsInto("subtasksDone", &u.StepsDone, true)
	r.textInto("reason", &u.Reason, pipeline.MaxText)
	r.textInto("result", &u.Result, pipeline.MaxResult)
	r.message(&u.Message)
	r.textInto("by", &u.By, pipeline.MaxText)
	if r.has("run") {
		u.Run = r.number("run")
	}
	if r.has("terminal") {
		r.value("terminal", &u.Terminal, "must be true or false")
	}
	u.Trace = r.trace(u.Trace)
	u.CreatedAt = r.time("createdAt")
	r.fail(CheckUpdate(&u))
	return &u
}

func (r *reader) status() pipeline.Status {
	label := r.text("status", pipeline.MaxText)
	if r.err != nil || label == "" {
		return ""
	}
	s, err := ParseReport(label)
	r.fail(err)
	return s
}

// ParseReport reads a status that an update may set. The error is an
// *InvalidError: it lists the statuses that may be set, says who sets the given
// one, and carries the one that was probably meant as its Correction.
func ParseReport(label string) (pipeline.Status, error) {
	s, known := pipeline.ParseStatus(label)
	if known && string(s) == label && slices.Contains(pipeline.Reportable, s) {
		return s, nil
	}
	e := &InvalidError{Field: "status", Correction: string(nearestReport(s))}
	e.Reason = fmt.Sprintf("is %q: an update sets %s", label, strings.Join(pipeline.Texts(pipeline.Reportable), ", "))
	if known && pipeline.Status(label) == s {
		e.Reason += "; " + pipeline.WhoSets(s)
	}
	return "", e
}

// nearestReport is the reportable status that was probably meant; "" if none.
func nearestReport(s pipeline.Status) pipeline.Status {
	switch s {
	case pipeline.InProgress, "inprogress", "started", "start", "working", "in_work", "doing", "wip", "progress", "active":
		return pipeline.InProgress
	case pipeline.Blocked, "block", "stuck", "waiting", "on_hold":
		return pipeline.Blocked
	case pipeline.Failed, "fail", "error", "failure", "gave_up", "aborted":
		return pipeline.Failed
	case pipeline.AgentDone, pipeline.Done, "completed", "complete", "finished", "agentdone", "closed", "resolved":
		return pipeline.AgentDone
	}
	return ""
}

// CheckUpdate checks an update against its limits. The error is an
// *InvalidError.
func CheckUpdate(u *Update) error {
	var v verdict
	v.fail(CheckMessage(&u.Message))
	v.refuse(u.Status == "" && len(u.StepsDone) == 0 && u.Result == "" && u.Message.Text == "",
		"status", "is missing: an update needs a status, a finished step, a result or a note")
	needs := u.Status == pipeline.Blocked || u.Status == pipeline.Failed
	v.refuse(needs && strings.TrimSpace(u.Reason) == "", "reason", "is missing: %s needs one", u.Status)
	v.refuse(u.Terminal && u.Status != pipeline.Failed, "terminal", "is for status failed")
	v.text("reason", u.Reason, pipeline.MaxText)
	v.text("result", u.Result, pipeline.MaxResult)
	v.several("subtasksDone", len(u.StepsDone), "steps")
	for i, s := range u.StepsDone {
		v.title(place("subtasksDone", i), s)
	}
	return v.err
}

// message reads the message of an update, over the defaults in m.
func (r *reader) message(m *pipeline.Message) {
	r.textInto("note", &m.Text, pipeline.MaxText)
	r.textInto("tag", (*string)(&m.Tag), pipeline.MaxText)
	r.textsInto("mentions", &m.Mentions, false)
	if r.has("percent") {
		m.Percent = new(int)
		raw := r.object.Get("percent")
		r.refuse(json.Unmarshal(raw, m.Percent) != nil, "percent", "must be a whole number from 0 to 100, is %.20s", raw)
	}
}

// CheckMessage checks a message against its limits, and cleans its tag and the names that
// it mentions. A message without a text says nothing. The error is an *InvalidError.
func CheckMessage(m *pipeline.Message) error {
	if m.Text == "" && m.Tag == "" && m.Percent == nil && len(m.Mentions) == 0 {
		return nil
	}
	var v verdict
	v.title("note", m.Text)
	if m.Tag != "" {
		tag, ok := pipeline.ParseTag(string(m.Tag))
		v.refuse(!ok, "tag", "is %q: it is one of %s", m.Tag, strings.Join(pipeline.Texts(pipeline.Tags), ", "))
		m.Tag = tag
	}
	if m.Percent != nil {
		v.refuse(*m.Percent < 0 || *m.Percent > 100, "percent", "is %d: it is a whole number from 0 to 100", *m.Percent)
	}
	v.several("mentions", len(m.Mentions), "names")
	m.Mentions = slices.Clone(m.Mentions)
	for i, name := range m.Mentions {
		m.Mentions[i] = pipeline.CleanName(name)
		v.refuse(!pipeline.ValidAgentName(m.Mentions[i]), place("mentions", i), "is %q, which is no name for an agent", name)
	}
	return v.err
}
