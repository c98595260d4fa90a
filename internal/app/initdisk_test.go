package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/crash/crashtest"
	"otm/internal/safe"
)

// TestInitWhereTheDiskFails: at whichever step the disk refuses, that is told,
// nothing passes for a data directory that is none, and the next run goes on.
func TestInitWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
		above := t.TempDir()
		dir := filepath.Join(above, "otm")
		refused, err := refuse(above, func() error {
			_, err := Init(dir)
			return err
		})
		refused.Told(t, err, refused.Of("write", "/locks/")) // whose a lock is, is for people
		if _, bad := config.CheckDir(dir); bad == nil {      // then it is whole
			for _, name := range append([]string{config.FileName, "next-task-id.json", "secrets/owner"}, config.Folders...) {
				if !exists(filepath.Join(dir, name)) {
					t.Errorf("refused %q: initialised without %s", refused, name)
				}
			}
		}
		if _, err := Init(dir); err != nil {
			t.Errorf("refused %q: again: %v", refused, err)
		}
		if _, err := config.CheckDir(dir); err != nil || content(t, filepath.Join(dir, "next-task-id.json")) != "{\"next\":1}\n" {
			t.Errorf("refused %q: in the end: %v", refused, err)
		}
	})
}

// TestInitSlackWhereTheDiskFails: at whichever step the disk refuses, otm.toml and
// the token are as they were or as they should be, and run again, all is done.
func TestInitSlackWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	b := boardtest.Start(t)
	const before = ""
	run := func(dir string) (code int, out string) {
		code, out, errs := initSlack(t, b, dir, b.Token, "--token-stdin", "--list", b.ListID)
		return code, out + errs
	}
	files := func(dir string) [2]string {
		token, err := os.ReadFile(filepath.Join(dir, slackTokenFile))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return [2]string{content(t, filepath.Join(dir, config.FileName)), string(token)}
	}
	whole := slackDir(t, before, "")
	old := files(whole)
	if code, out := run(whole); code != cli.OK {
		t.Fatalf("exit %d: %s", code, out)
	}
	want := files(whole)
	crashtest.EachOwnPlace(t, syscall.EIO, "otm/internal/app", func(refuse crashtest.Refuse) {
		dir := slackDir(t, before, "")
		code, out := 0, ""
		refused, _ := refuse(dir, func() error {
			code, out = run(dir)
			return nil
		})
		told := code != cli.OK || strings.Contains(out, "warning")
		// Whose a lock is, is for people; a snapshot is made anew, a counter looked at once more,
		// and a token in our own place written once more.
		silent := refused.Of("write", "/locks/") || refused.Of("stat", "/board/") || refused.Of("read", "/board/") ||
			refused.Of("read", "/next-task-id") || refused.Of("read", slackTokenFile)
		if told != refused.Came() && !silent {
			t.Errorf("refused %q: exit %d: %s", refused, code, out)
		}
		for i, got := range files(dir) {
			if got != old[i] && got != want[i] {
				t.Errorf("refused %q: exit %d; it left\n%s", refused, code, got)
			}
		}
		if code, out := run(dir); code != cli.OK || files(dir) != want {
			t.Errorf("refused %q; again: exit %d: %s", refused, code, out)
		}
	})
}

// TestInitCommand: a path that cannot become a data directory is left as it is, with what to do; one
// that is one already, too.
func TestInitCommand(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir, file, full := filepath.Join(root, "da ta"), filepath.Join(root, "a file"), filepath.Join(root, "mu sic")
	link := filepath.Join(root, "nowhere")
	put(t, file, "mine")
	put(t, filepath.Join(full, "a.ogg"), "mine")
	if err := os.Symlink(filepath.Join(root, "none", "x"), link); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (int, string) {
		var said bytes.Buffer
		code := Main(append([]string{"otm", "init"}, args...), cli.Streams{In: strings.NewReader(""), Out: &said, Err: &said, Getenv: func(string) string { return "" }})
		return code, said.String()
	}
	at := func(mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	const empty = `"added":[]`
	for _, tt := range []struct {
		name   string
		before func()
		args   []string
		code   int
		says   []string
	}{
		{"nowhere", nil, nil, cli.BadConfig, []string{"HOME is not set", "otm: hint: export OTM_DIR="}},
		{"a file", nil, []string{"--dir", file}, cli.Failed, []string{"not a directory"}},
		{"a link to nothing", nil, []string{"--dir", link}, cli.Failed, []string{"not a directory"}},
		{"something else", nil, []string{"--dir", full}, cli.Failed, []string{`holds something else, such as "a.ogg"`, "otm: hint: otm init --dir " + safe.Quote(filepath.Join(full, "otm")) + "\n"}},
		{"a folder in it", nil, []string{"--dir", filepath.Join(full, "otm"), "--json"}, cli.OK, []string{`"added":["","new-tasks",`, `"format"]`}},
		{"of Slack", nil, []string{"--dir", dir, "--list", "F0123456789"}, cli.Usage, []string{"these flags are for --slack", "otm: hint: otm init --slack "}},
		{"new", nil, []string{"--dir", dir}, cli.OK, []string{dir + "\n", "otm: note: edit " + safe.Quote(filepath.Join(dir, "otm.toml")), "otm up --dir " + safe.Quote(dir)}},
		{"again", nil, []string{"--dir", dir}, cli.OK, []string{dir + "\n", "was initialised already; nothing is missing"}},
		{"read by others", func() { at(0o755) }, []string{"--dir", dir, "--json"}, cli.OK, []string{"has mode 0755, not 0700; chmod 700 " + safe.Quote(dir) + "\n", empty}},
		{"written by others", func() { at(0o777) }, []string{"--dir", dir}, cli.BadConfig, []string{"others can write to", "otm: hint: chmod go-w " + safe.Quote(dir)}},
		{"a folder is gone", func() {
			at(0o700)
			os.Remove(filepath.Join(dir, "keys"))
		}, []string{"--dir", dir, "--json"}, cli.OK, []string{`"added":["keys"]`}},
		{"its counter is gone", func() { os.Remove(filepath.Join(dir, "next-task-id.json")) }, []string{"--dir", dir, "--json"}, cli.OK, []string{empty}},
	} {
		if tt.before != nil {
			tt.before()
		}
		code, said := run(tt.args...)
		if code != tt.code {
			t.Errorf("%s: exit %d, want %d: %s", tt.name, code, tt.code, said)
		}
		for _, want := range tt.says {
			if !strings.Contains(said, want) {
				t.Errorf("%s: it does not say %q:\n%s", tt.name, want, said)
			}
		}
		if tt.name == "of Slack" && exists(dir) {
			t.Error("it made a directory all the same")
		}
	}
	left, err := filepath.Glob(filepath.Join(full, "*"))
	if err != nil || len(left) != 2 || content(t, file) != "mine" || content(t, filepath.Join(full, "a.ogg")) != "mine" || exists(filepath.Join(root, "none")) {
		t.Errorf("it left %q, %v", left, err)
	}
}
