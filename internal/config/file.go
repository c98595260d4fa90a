package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// file is the form of otm.toml.
type file struct {
	Slack struct {
		Slack
		Budget  *float64     `toml:"budget"`
		Columns columnsTable `toml:"columns"`
	} `toml:"slack"`
	Board   Board `toml:"board"`
	Store   Store `toml:"store"`
	Gateway struct {
		Gateway
		RewakeMax *int `toml:"rewake_max"`
	} `toml:"gateway"`
	Agents map[string]agentTable `toml:"agents"`
	Types  map[string]typeTable  `toml:"types"`
	Review struct {
		Agents []string `toml:"agents"`
	} `toml:"review"`
	Retry struct {
		Advise []string `toml:"advise"`
	} `toml:"retry"`
	Notify Notify `toml:"notify"`
	Limits struct {
		MaxRunning int `toml:"max_running"`
	} `toml:"limits"`
	Times timesTable `toml:"times"`
}

// columnsTable has the names of fields as keys.
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
	ValidatedAt *string `toml:"validated_at"`
	CancelledAt *string `toml:"cancelled_at"`
	Previous    *string `toml:"previous_status"`
	Context     *string `toml:"context"`
	Inputs      *string `toml:"input_files"`
	Thread      *string `toml:"thread"`
	Reason      *string `toml:"reason"`
	Result      *string `toml:"result"`
}

// eachSet calls do with each key of a table of texts that the file has.
func eachSet(table any, do func(key, text string)) {
	v := reflect.ValueOf(table)
	for i := range v.NumField() {
		if text := v.Field(i).Interface().(*string); text != nil {
			do(v.Type().Field(i).Tag.Get("toml"), *text)
		}
	}
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

type typeTable struct {
	Review       *bool    `toml:"review"`
	MaxRetries   *int     `toml:"max_retries"`
	MaxRuntime   *string  `toml:"max_runtime"`
	ReclaimAfter *string  `toml:"reclaim_after"`
	Silence      []string `toml:"silence"`
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
	ArchiveAfter   *string `toml:"archive_after"`
	KeepEvents     *string `toml:"keep_events"`
}

// byteOrderMark stands at the beginning of a file that some editors wrote.
var byteOrderMark = []byte("\xef\xbb\xbf")

// parse returns nil if the text could not be read to its end.
func parse(data []byte) (*file, problemList) {
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
		var p problemList
		for _, e := range strict.Errors {
			line, _ := e.Position()
			p.add(fmt.Sprintf("line %d", line), "unknown key %s", strings.Join(e.Key(), "."))
		}
		return f, p
	case errors.As(err, &wrong):
		line, column := wrong.Position()
		return nil, []string{fmt.Sprintf("line %d, column %d: %s", line, column, plainly(wrong))}
	}
	return nil, []string{err.Error()}
}

// plainly words an error of the TOML decoder without the names of Go types.
func plainly(e *toml.DecodeError) string {
	text := strings.TrimPrefix(e.Error(), "toml: ")
	is, _, ok := strings.Cut(text, " into ")
	if is, isType := strings.CutPrefix(is, "cannot decode TOML "); ok && isType {
		return fmt.Sprintf("%s cannot be of the type %s", strings.Join(e.Key(), "."), is)
	}
	return text
}
