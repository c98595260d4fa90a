package install

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// hostile is a path in which everything stands that means something to systemd.
const hostile = `/srv/o t m/%h ${X} $Y "d'y\z é;#`

// units is what most tests render.
func units() setup {
	return setup{
		Options: Options{Manager: Systemd, Dir: hostile, LogDir: "/srv/lo gs", Bin: "/opt/b %n $HOME é", Home: "/home/robin", Path: "/usr/bin:/opt/x y"},
		Board:   true, Workspaces: []string{"/srv/ws 1", "/srv/ws 2"},
	}
}

func renderUnits(t *testing.T, c setup) map[string]string {
	t.Helper()
	all, err := c.files()
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, u := range all {
		texts[u.Name] = string(u.Text)
		if !strings.HasPrefix(texts[u.Name], "# "+c.Marker()+"\n") {
			t.Errorf("%s does not begin with the marker", u.Name)
		}
	}
	return texts
}

// lines are the settings of a unit, without comments.
func lines(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return l == "" || l[0] == '#' || l[0] == '[' })
}

func unitNames(texts map[string]string) string {
	var all []string
	for name := range texts {
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestWhichUnits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		board, watchdog bool
		want            string
	}{
		{false, false, "otm-completion-detector.service otm-dispatcher.service otm-injector.service"},
		{true, false, "otm-board.service otm-completion-detector.service otm-dispatcher.service otm-injector.service"},
		{true, true, "otm-board.service otm-completion-detector.service otm-dispatcher.service otm-injector.service otm-watchdog.service"},
	}
	for _, tt := range tests {
		c := units()
		c.Board, c.Watchdog = tt.board, tt.watchdog
		texts := renderUnits(t, c)
		if got := unitNames(texts); got != tt.want {
			t.Errorf("board %t: %s, want %s", tt.board, got, tt.want)
		}
		for name, text := range texts {
			if wants := strings.Contains(text, "Wants=otm-board.service"); wants != (tt.board && name != "otm-board.service") {
				t.Errorf("%s wants the board: %v", name, wants)
			}
		}
	}
}

// TestQuoting (B92): install-check.sh has systemd read such paths.
func TestQuoting(t *testing.T) {
	t.Parallel()
	texts := renderUnits(t, units())
	for unit, wants := range map[string][]string{
		"otm-dispatcher.service": {
			`ExecStart="/opt/b %%n $HOME é/otm-dispatcher" --every 2m`,
			`Environment="OTM_DIR=/srv/o t m/%%h ${X} $Y \"d'y\\z é;#"`,
			`ReadWritePaths="-/srv/o t m/%%h ${X} $Y \"d'y\\z é;#"`,
			`ReadWritePaths="-/srv/lo gs"`, `ReadWritePaths="-/srv/ws 1"`, `ReadWritePaths="-/srv/ws 2"`,
		},
	} {
		for _, want := range wants {
			if !slices.Contains(lines(texts[unit]), want) {
				t.Errorf("%s lacks %s:\n%s", unit, want, texts[unit])
			}
		}
	}
	for _, c := range []setup{
		{Options: Options{Dir: "/a\nb", Bin: "/b"}}, {Options: Options{Dir: "/a", Bin: "/b\x1b"}}, {Options: Options{Dir: "/a\xff", Bin: "/b"}},
		{Options: Options{Dir: "/a", Bin: `/b"`}}, {Options: Options{Dir: "/a", Bin: "/b'"}}, {Options: Options{Dir: "/a", Bin: `/b\x20`}},
		{Options: Options{Dir: "/a", Bin: "/b"}, Workspaces: []string{"/\x7f"}},
	} {
		if all, err := c.files(); err == nil {
			t.Errorf("the files of %+v are %s, want an error", c, all[0].Text)
		}
	}
}

// TestUnitsOfStartedAgents: what a dispatcher that starts agents must not be told, as
// it would be told to the agents.
func TestUnitsOfStartedAgents(t *testing.T) {
	t.Parallel()
	sandbox := regexp.MustCompile(`^(Protect|Private|Restrict[A-Z].*=yes|RestrictAddress|NoNew|ReadWrite|SystemCall|Memory|Capability|Lock|UMask|Device|IPAddress|Remove|Keyring)`)
	isSandbox := func(l string) bool { return sandbox.MatchString(l) }
	c := units()
	c.Exec = true
	for name, text := range renderUnits(t, c) {
		l := lines(text)
		if starts := name == "otm-dispatcher.service"; slices.ContainsFunc(l, isSandbox) == starts {
			t.Errorf("%s, sandbox %v:\n%s", name, !starts, text)
		} else if slices.Contains(l, "KillMode=process") != starts || slices.Contains(l, `Environment="PATH=/opt/b %%n $HOME é:/usr/bin:/opt/x y"`) != starts {
			t.Errorf("%s, KillMode and PATH:\n%s", name, text)
		}
	}
}

// analyze finds systemd-analyze. CI sets OTM_TEST_SYSTEMD=must.
func analyze(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("systemd-analyze")
	if err == nil {
		return path
	}
	if os.Getenv("OTM_TEST_SYSTEMD") == "must" {
		t.Fatal("systemd-analyze is missing: install the package systemd")
	}
	t.Skip("needs systemd-analyze, of the package systemd")
	return ""
}

// write writes all units and the programs that they start.
func writeUnits(t *testing.T, c setup) (dir string, paths []string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "") // a short path: a manager has sockets below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for name, text := range renderUnits(t, c) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return dir, paths
}

// TestVerify has systemd look at every unit that can be.
func TestVerify(t *testing.T) {
	t.Parallel()
	program := analyze(t)
	bin := filepath.Join(t.TempDir(), "b %n $HOME é")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"otm", "otm-injector", "otm-dispatcher", "otm-completion-detector"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		c := units()
		c.Exec, c.Board, c.Bin = i&1 == 0, i&2 == 0, bin
		t.Run(fmt.Sprintf("exec=%v board=%v", c.Exec, c.Board), func(t *testing.T) {
			t.Parallel()
			dir, paths := writeUnits(t, c)
			cmd := exec.Command(program, append([]string{"--user", "verify", "--man=no"}, paths...)...)
			cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir, "SYSTEMD_LOG_LEVEL=warning")
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("systemd-analyze verify: %v\n%s", err, out)
			}
		})
	}
}

var exposure = regexp.MustCompile(`Overall exposure level for (\S+): ([0-9.]+)`)

// TestScore holds what systemd makes of the sandboxes: 0 is perfect, 10 is
// none. The figures stand in docs/install.md; other versions of systemd count
// somewhat otherwise.
func TestScore(t *testing.T) {
	t.Parallel()
	program := analyze(t)
	tests := []struct {
		name  string
		c     setup
		limit float64
	}{
		{"hardened", units(), 6},
		{"agents are started", func() setup { c := units(); c.Exec = true; return c }(), 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir, paths := writeUnits(t, tt.c)
			for _, path := range paths {
				cmd := exec.Command(program, "security", "--offline=true", "--no-pager", path)
				cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
				out, err := cmd.CombinedOutput()
				m := exposure.FindSubmatch(out)
				if m == nil {
					t.Fatalf("systemd-analyze security: %v\n%s", err, out)
				}
				t.Logf("%s %s", m[1], m[2])
				var score float64
				fmt.Sscan(string(m[2]), &score)
				if score > tt.limit {
					t.Errorf("%s scores %s, want at most %v:\n%s", m[1], m[2], tt.limit, out)
				}
			}
		})
	}
}
