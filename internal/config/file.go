package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"otm/pipeline"
)

// file is the form of otm.toml.
type file struct {
	Slack   slackTable            `toml:"slack"`
	Board   boardTable            `toml:"board"`
	Gateway gatewayTable          `toml:"gateway"`
	Agents  map[string]agentTable `toml:"agents"`
	Times   timesTable            `toml:"times"`
}

type slackTable struct {
	ListID    string       `toml:"list_id"`
	APIURL    string       `toml:"api_url"`
	TokenFile string       `toml:"token_file"`
	TokenEnv  string       `toml:"token_env"`
	Budget    *float64     `toml:"budget"`
	Columns   columnsTable `toml:"columns"`
}

type columnsTable struct {
	Title       *string `toml:"title"`
	TaskID      *string `toml:"task_id"`
	Type        *string `toml:"type"`
	Assignee    *string `toml:"assignee"`
	Project     *string `toml:"project"`
	Priority    *string `toml:"priority"`
	Status      *string `toml:"status"`
	Remaining   *string `toml:"subtasks_remaining"`
	Completion  *string `toml:"completion"`
	AssignedAt  *string `toml:"assigned_at"`
	CompletedAt *string `toml:"completed_at"`
	Reason      *string `toml:"reason"`
	Result      *string `toml:"result"`
}

// byField returns the columns that are set.
func (t columnsTable) byField() map[pipeline.Field]string {
	set := map[pipeline.Field]string{}
	for field, name := range map[pipeline.Field]*string{
		pipeline.FieldTitle: t.Title, pipeline.FieldTaskID: t.TaskID, pipeline.FieldType: t.Type,
		pipeline.FieldAssignee: t.Assignee, pipeline.FieldProject: t.Project, pipeline.FieldPriority: t.Priority,
		pipeline.FieldStatus: t.Status, pipeline.FieldRemaining: t.Remaining, pipeline.FieldCompletion: t.Completion,
		pipeline.FieldAssignedAt: t.AssignedAt, pipeline.FieldCompletedAt: t.CompletedAt,
		pipeline.FieldReason: t.Reason, pipeline.FieldResult: t.Result,
	} {
		if name != nil {
			set[field] = *name
		}
	}
	return set
}

type boardTable struct {
	Listen string `toml:"listen"`
}

type gatewayTable struct {
	URL       string `toml:"url"`
	TokenFile string `toml:"token_file"`
	TokenEnv  string `toml:"token_env"`
	RewakeMax *int   `toml:"rewake_max"`
}

type agentTable struct {
	Kind         string   `toml:"kind"`
	Workspace    string   `toml:"workspace"`
	Trigger      string   `toml:"trigger"`
	Command      []string `toml:"command"`
	Label        string   `toml:"label"`
	GatewayAgent string   `toml:"gateway_agent"`
	SlackUser    string   `toml:"slack_user"`
}

// timesTable holds durations as text, such as "15s": a bare number, which would
// be nanoseconds, is of the wrong type.
type timesTable struct {
	SettleAfter    *string `toml:"settle_after"`
	AdoptAfter     *string `toml:"adopt_after"`
	RedeliverAfter *string `toml:"redeliver_after"`
	RewakeAfter    *string `toml:"rewake_after"`
	UpdateWait     *string `toml:"update_wait"`
	SilentAfter    *string `toml:"silent_after"`
	DedupGiveUp    *string `toml:"dedup_give_up"`
	KeepProcessed  *string `toml:"keep_processed"`
}

// byteOrderMark stands at the beginning of a file that some editors wrote.
var byteOrderMark = []byte("\xef\xbb\xbf")

// parse returns nil if the text could not be read to its end.
func parse(data []byte) (*file, []string) {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) || bytes.IndexByte(data, 0) >= 0 {
		return nil, []string{"the file is UTF-16 or holds NUL bytes: save it as UTF-8"}
	}
	f := &file{}
	dec := toml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, byteOrderMark)))
	dec.DisallowUnknownFields()
	err := dec.Decode(f)
	var strict *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case err == nil:
		return f, nil
	case errors.As(err, &strict):
		var problems []string
		for _, e := range strict.Errors {
			line, _ := e.Position()
			problems = append(problems, fmt.Sprintf("line %d: unknown key %s", line, strings.Join(e.Key(), ".")))
		}
		return f, problems
	case errors.As(err, &wrong):
		line, column := wrong.Position()
		return nil, []string{fmt.Sprintf("line %d, column %d: %s", line, column, plainly(wrong))}
	}
	return nil, []string{err.Error()}
}

// plainly words an error of the TOML decoder without the names of Go types.
func plainly(e *toml.DecodeError) string {
	text := strings.TrimPrefix(e.Error(), "toml: ")
	is, target, ok := strings.Cut(text, " into ")
	is, ok2 := strings.CutPrefix(is, "cannot decode TOML ")
	if !ok || !ok2 {
		return text
	}
	_, typ, _ := strings.Cut(target, " of type ")
	wants := map[string]string{
		"string": "text in quotes", "[]string": "an array of texts", "float64": "a number", "int": "a whole number",
	}[typ]
	if wants == "" {
		wants = "a table"
	}
	return fmt.Sprintf("%s must be %s, is %s %s", strings.Join(e.Key(), "."), wants, article(is), is)
}

func article(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an"
	}
	return "a"
}
