package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"otm/internal/board"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/slacklist"
)

// A process notices that its otm.toml is another one, came, or went, and whether others can
// read it.
func TestConfigChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		had    bool
		change func(path string) error
		want   bool
		broken string
	}{
		"as it was":    {true, func(string) error { return nil }, false, ""},
		"touched":      {true, func(path string) error { return os.Chtimes(path, time.Unix(0, 0), time.Unix(0, 0)) }, false, ""},
		"longer":       {true, func(path string) error { return os.WriteFile(path, []byte("# a longer one\n"), 0o600) }, true, ""},
		"gone":         {true, os.Remove, true, ""},
		"still none":   {false, func(string) error { return nil }, false, ""},
		"one has come": {false, func(path string) error { return os.WriteFile(path, nil, 0o600) }, true, ""},
		"broken":       {true, func(path string) error { return os.WriteFile(path, []byte("[agents\n"), 0o600) }, true, "line 1"},
	} {
		h := newHome(t, "")
		path := filepath.Join(h.Dir, config.FileName)
		if !c.had {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			var err error
			if h, err = OpenHome(h.Streams, h.Dir); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.change(path); err != nil {
			t.Fatal(err)
		}
		if got := h.configChanged(); got != c.want {
			t.Errorf("%s: changed %t", name, got)
		}
		if err := h.configUnreadable(); (err != nil) != (c.broken != "") || err != nil && !strings.Contains(err.Error(), c.broken) {
			t.Errorf("%s: unreadable: %v", name, err)
		}
	}
}

// OTM_LOG_LEVEL=debug has all said, by what stays and by what runs once.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	for _, resident := range []bool{false, true} {
		for level, want := range map[string]bool{"": false, "info": false, "debug": true} {
			h := newHome(t, "")
			var stderr bytes.Buffer
			h.Streams = cli.Streams{Err: &stderr, Getenv: func(name string) string {
				return map[string]string{"OTM_LOG_LEVEL": level}[name]
			}}
			log, end := h.stderrLog("x"), func() {}
			if resident {
				var err error
				if log, end, err = h.logger("x"); err != nil {
					t.Fatal(err)
				}
			}
			log.Debug("small")
			log.Info("large")
			end()
			said := stderr.String()
			if resident {
				said += content(t, filepath.Join(h.LogDir(), "x.log"))
			}
			if !strings.Contains(said, "large") || strings.Contains(said, "small") != want || resident != (stderr.Len() == 0) {
				t.Errorf("level %q, resident %t: said %s", level, resident, said)
			}
		}
	}
}

// The embedded board has no budget unless it has limits; what is configured stands.
func TestEmbeddedBudget(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]float64{"": {0, config.DefaultSlackBudget}, "[slack]\nbudget = 7\n": {7, 7}} {
		h := newHome(t, text)
		for i, limits := range []string{"", "slack"} {
			o := slacklist.Options{Budget: h.Config.Slack.Budget}
			if embeddedBudget(h, &o, board.Endpoint{Limits: limits}); o.Budget != want[i] {
				t.Errorf("with %q and limits %q: a budget of %v, want %v", text, limits, o.Budget, want[i])
			}
		}
	}
}
