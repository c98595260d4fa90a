package launchd

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// hostile is a path in which everything stands that means something in XML.
const hostile = `/Volumes/o t m/<&>"'--> $HOME ~ %h é]]>`

func config() Config {
	return Config{
		Marker: "otm-install: {}", Dir: hostile, LogDir: "/Users/robin/Library/Logs/OpenClaw", Bin: "/opt/b & é", Home: "/Users/robin", Path: "/usr/bin:/opt/x <y>",
		Board: true,
	}
}

func render(t *testing.T, c Config) map[string]map[string]any {
	t.Helper()
	jobs, err := Jobs(c)
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string]map[string]any{}
	for _, j := range jobs {
		if !slices.Contains(Labels, j.Label) {
			t.Errorf("%s is not in Labels: it would never be removed", j.Label)
		}
		list, err := parse(j.Text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", j.File(), err, j.Text)
		}
		if list["Label"] != j.Label || j.File() != j.Label+".plist" {
			t.Errorf("%s has the label %v", j.File(), list["Label"])
		}
		lists[j.Label] = list
	}
	return lists
}

// parse reads a property list strictly.
func parse(text []byte) (map[string]any, error) {
	d := xml.NewDecoder(strings.NewReader(string(text)))
	var top []any
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if start, ok := token.(xml.StartElement); ok {
			if start.Name.Local != "plist" {
				return nil, fmt.Errorf("begins with %s", start.Name.Local)
			}
			if top, err = children(d); err != nil {
				return nil, err
			}
		}
	}
	if len(top) != 1 {
		return nil, fmt.Errorf("holds %d values", len(top))
	}
	dict, ok := top[0].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("holds a %T", top[0])
	}
	return dict, nil
}

type key string

// children reads values up to the end of the element that was begun.
func children(d *xml.Decoder) (values []any, err error) {
	for {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		switch tok := token.(type) {
		case xml.EndElement:
			return values, nil
		case xml.CharData:
			if strings.TrimSpace(string(tok)) != "" {
				return nil, fmt.Errorf("text %q between elements", tok)
			}
		case xml.StartElement:
			v, err := value(d, tok.Name.Local)
			if err != nil {
				return nil, err
			}
			values = append(values, v)
		}
	}
}

func value(d *xml.Decoder, kind string) (any, error) {
	switch kind {
	case "dict":
		items, err := children(d)
		if err != nil {
			return nil, err
		}
		dict := map[string]any{}
		for i := 0; i < len(items); i += 2 {
			k, ok := items[i].(key)
			if !ok || i+1 == len(items) || dict[string(k)] != nil {
				return nil, fmt.Errorf("dict: %v is no key, has no value, or stands twice", items[i])
			}
			dict[string(k)] = items[i+1]
		}
		return dict, nil
	case "array":
		return children(d)
	case "true", "false":
		return kind == "true", d.Skip()
	}
	var text string
	for {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		switch tok := token.(type) {
		case xml.CharData:
			text += string(tok)
			continue
		case xml.StartElement:
			return nil, fmt.Errorf("%s holds %s", kind, tok.Name.Local)
		case xml.EndElement:
			switch kind {
			case "key":
				return key(text), nil
			case "string":
				return text, nil
			case "integer":
				return strconv.Atoi(text)
			}
			return nil, fmt.Errorf("unknown element %s", kind)
		}
	}
}

func TestResidents(t *testing.T) {
	t.Parallel()
	lists := render(t, config())
	want := map[string][]any{
		LabelBoard:      {"/opt/b & é/otm", "board"},
		LabelWatcher:    {"/opt/b & é/otm-injector"},
		LabelDispatcher: {"/opt/b & é/otm-dispatcher", "--every", "2m"},
		LabelDetector:   {"/opt/b & é/otm-completion-detector", "--every", "2m"},
	}
	if len(lists) != len(want) {
		t.Errorf("%d jobs, want %d", len(lists), len(want))
	}
	for label, args := range want {
		l := lists[label]
		if !reflect.DeepEqual(l["ProgramArguments"], args) {
			t.Errorf("%s runs %q, want %q", label, l["ProgramArguments"], args)
		}
		environ := map[string]any{"OTM_DIR": hostile, "HOME": "/Users/robin", "PATH": "/opt/b & é:/usr/local/bin:/usr/bin:/bin", SupervisorEnv: Supervisor}
		for name, want := range map[string]any{
			"RunAtLoad": true, "KeepAlive": map[string]any{"SuccessfulExit": false}, "ThrottleInterval": 30, "Umask": 0o77,
			"SoftResourceLimits": map[string]any{"NumberOfFiles": 8192}, "EnvironmentVariables": environ,
			"StartInterval": nil, "WatchPaths": nil, "AbandonProcessGroup": nil, "UserName": nil,
		} {
			if !reflect.DeepEqual(l[name], want) {
				t.Errorf("%s: %s is %v, want %v", label, name, l[name], want)
			}
		}
	}
	if got := lists[LabelBoard]["StandardOutPath"]; got != "/dev/null" {
		t.Errorf("the board prints its address to %v", got)
	}
	if got := lists[LabelDispatcher]["StandardErrorPath"]; got != "/Users/robin/Library/Logs/OpenClaw/otm-dispatcher.stderr.log" {
		t.Errorf("what the dispatcher prints goes to %v: not into the log that it rotates", got)
	}
}

// TestTimers holds the schedule and the logs of the specification.
func TestTimers(t *testing.T) {
	t.Parallel()
	c := config()
	c.Timers, c.Board = true, false
	lists := render(t, c)
	want := map[string]struct {
		program string
		every   any
		log     string
	}{
		LabelWatcher:    {"otm-injector", nil, "otm-watcher"},
		LabelSweeper:    {"otm-injector", 600, "otm-injector"},
		LabelDispatcher: {"otm-dispatcher", 120, "otm-dispatcher"},
		LabelDetector:   {"otm-completion-detector", 120, "otm-completion-detector"},
	}
	if len(lists) != len(want) {
		t.Errorf("%d jobs, want %d", len(lists), len(want))
	}
	for label, w := range want {
		l := lists[label]
		log := "/Users/robin/Library/Logs/OpenClaw/" + w.log + ".log"
		if !reflect.DeepEqual(l["ProgramArguments"], []any{"/opt/b & é/" + w.program, "--once"}) || l["StartInterval"] != w.every ||
			l["KeepAlive"] != nil || l["StandardOutPath"] != log || l["StandardErrorPath"] != log {
			t.Errorf("%s is %v", label, l)
		}
	}
	if got, want := lists[LabelWatcher]["WatchPaths"], []any{hostile + "/new-tasks", hostile + "/task-updates"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the watcher watches %q, want %q", got, want)
	}
}

// TestStartedAgents: agents outlive the dispatcher, and inherit nothing that
// was meant for it.
func TestStartedAgents(t *testing.T) {
	t.Parallel()
	for _, timers := range []bool{false, true} {
		c := config()
		c.Exec, c.Timers, c.User, c.Group = true, timers, "robin", "staff"
		for label, l := range render(t, c) {
			starts := label == LabelDispatcher
			path := l["EnvironmentVariables"].(map[string]any)["PATH"]
			if (l["AbandonProcessGroup"] == true) != starts || (l["Umask"] == nil) != starts || (path == "/opt/b & é:/usr/bin:/opt/x <y>") != starts {
				t.Errorf("%s is %v", label, l)
			}
			if l["UserName"] != "robin" || l["GroupName"] != "staff" {
				t.Errorf("%s runs as %v, %v", label, l["UserName"], l["GroupName"])
			}
		}
	}
}

func TestWhatNoListCanHold(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"/a\nb", "/a\x00", "/a\xff", "/a\x1b"} {
		c := config()
		c.Dir = dir
		if _, err := Jobs(c); err == nil {
			t.Errorf("a directory %q was taken", dir)
		}
	}
}
