package install

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// hostileXML is a path in which everything stands that means something in XML.
const hostileXML = `/Volumes/o t m/<&>"'--> $HOME ~ %h é]]>`

// The labels. But for the board they are those of the specification.
const (
	labelBoard      = "ai.openclaw.otm-board"
	labelWatcher    = "ai.openclaw.otm-watcher"
	labelDispatcher = "ai.openclaw.otm-dispatcher"
	labelDetector   = "ai.openclaw.otm-completion-detector"
)

func jobs() setup {
	return setup{Board: true, Options: Options{
		Manager: Launchd, Dir: hostileXML, LogDir: "/Users/robin/Library/Logs/OpenClaw", Bin: "/opt/b & é", Home: "/Users/robin", Path: "/usr/bin:/opt/x <y>",
	}}
}

func renderJobs(t *testing.T, c setup) map[string]map[string]any {
	t.Helper()
	all, err := c.files()
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string]map[string]any{}
	for _, j := range all {
		label := strings.TrimSuffix(j.Name, ".plist")
		list, err := parse(j.Text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", j.Name, err, j.Text)
		}
		if list["Label"] != label {
			t.Errorf("%s has the label %v", j.Name, list["Label"])
		}
		lists[label] = list
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

func TestJobsOfResidents(t *testing.T) {
	t.Parallel()
	lists := renderJobs(t, jobs())
	want := map[string][]any{
		labelBoard:      {"/opt/b & é/otm", "board"},
		labelWatcher:    {"/opt/b & é/otm-injector"},
		labelDispatcher: {"/opt/b & é/otm-dispatcher", "--every", "2m"},
		labelDetector:   {"/opt/b & é/otm-completion-detector", "--every", "2m"},
	}
	if len(lists) != len(want) {
		t.Errorf("%d jobs, want %d", len(lists), len(want))
	}
	for label, args := range want {
		l := lists[label]
		if !reflect.DeepEqual(l["ProgramArguments"], args) {
			t.Errorf("%s runs %q, want %q", label, l["ProgramArguments"], args)
		}
		environ := map[string]any{"OTM_DIR": hostileXML, "HOME": "/Users/robin", "OTM_LOG_DIR": "/Users/robin/Library/Logs/OpenClaw", "PATH": "/opt/b & é:/usr/local/bin:/usr/bin:/bin", SupervisorEnv: Launchd}
		for name, want := range map[string]any{
			"RunAtLoad": true, "KeepAlive": map[string]any{"SuccessfulExit": false}, "ThrottleInterval": 30, "Umask": 0o77,
			"SoftResourceLimits": map[string]any{"NumberOfFiles": 8192}, "EnvironmentVariables": environ,
			"AbandonProcessGroup": nil,
		} {
			if !reflect.DeepEqual(l[name], want) {
				t.Errorf("%s: %s is %v, want %v", label, name, l[name], want)
			}
		}
	}
	if got := lists[labelBoard]["StandardOutPath"]; got != "/dev/null" {
		t.Errorf("the board prints its address to %v", got)
	}
	if got := lists[labelDispatcher]["StandardErrorPath"]; got != "/Users/robin/Library/Logs/OpenClaw/otm-dispatcher.stderr.log" {
		t.Errorf("what the dispatcher prints goes to %v: not into the log that it rotates", got)
	}
}

// TestJobsOfStartedAgents: agents outlive the dispatcher, and inherit nothing that
// was meant for it.
func TestJobsOfStartedAgents(t *testing.T) {
	t.Parallel()
	c := jobs()
	c.Exec = true
	for label, l := range renderJobs(t, c) {
		starts := label == labelDispatcher
		path := l["EnvironmentVariables"].(map[string]any)["PATH"]
		if (l["AbandonProcessGroup"] == true) != starts || (l["Umask"] == nil) != starts || (path == "/opt/b & é:/usr/bin:/opt/x <y>") != starts {
			t.Errorf("%s is %v", label, l)
		}
	}
}

func TestWhatNoPropertyListCanHold(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"/a\nb", "/a\x00", "/a\xff", "/a\x1b"} {
		c := jobs()
		c.Dir = dir
		if _, err := c.files(); err == nil {
			t.Errorf("a directory %q was taken", dir)
		}
	}
}
