package app

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"otm/internal/cli"
	"otm/internal/crash/crashtest"
)

// readers are the commands that tell people and agents how things stand.
var readers = [][]string{
	{"otm", "status"}, {"otm", "status", "--json"}, {"otm", "status", "--fresh"}, {"otm", "list", "--all"}, {"otm", "list", "--json"}, {"otm", "list", "--fresh"},
	{"otm", "show", "T-00002"}, {"otm", "show", "T-00002", "--json"}, {"otm", "show", "T-00002", "--fresh"}, {"otm", "show", "T-00004"},
	{"otm", "why", "T-00002"}, {"otm", "why", "T-00002", "--json"}, {"otm", "why", "T-00002", "--fresh"}, {"otm", "why", "T-00001"}, {"otm", "why", "T-00003", "--json"}, {"otm", "why", "T-00004", "--json"}, {"otm", "why", "T-00009"},
	{"otm", "why", "--all"}, {"otm", "why", "--all", "--json"}, {"otm", "doctor"}, {"otm", "doctor", "--json"},
	{"otm", "history"}, {"otm", "history", "--json"}, {"otm", "history", "T-00001"}, {"otm", "fsck"}, {"otm", "fsck", "--json"}, {"otm", "prompt"},
}

// newRead is a busy patient with a task in the history and a create that failed.
// Its list has no limits, as readers come to it often.
func newRead(t *testing.T) *patient {
	t.Helper()
	p := newBusy(t)
	p.must("otm", "archive", "--older-than", "0d", "--yes")
	toml := filepath.Join(p.h.Dir, "otm.toml")
	put(t, toml, strings.Replace(content(t, toml), "[slack]\n", "[slack]\nbudget = 0\n", 1))
	waiting, err := filepath.Glob(filepath.Join(p.h.Dir, "new-tasks", "*.json"))
	if err != nil || len(waiting) != 1 {
		t.Fatalf("%q wait: %v", waiting, err)
	}
	dropped := strings.TrimRight(content(t, waiting[0]), "}\n") // T-00003
	put(t, filepath.Join(p.h.Dir, "failed", "late.json"), dropped+`,"_result":{"inbox":"new-tasks","error":"no room","class":"rejected"}}`)
	if err := os.Remove(waiting[0]); err != nil {
		t.Fatal(err)
	}
	p.must("otm-create", "--title", "Waits", "--agent", "devdas") // T-00004
	return p
}

// passing is what readers say otherwise the next time, and the width of columns.
var passing = regexp.MustCompile(` +|\b\d+(ms|s|m)\b|\d+ MiB|"mib":"\d+"|"[\d-]+T[\d:.]+Z"`)

// TestReadersWhereTheDiskFails: wherever in this package's code the disk refuses a
// reader something, it says so, or answers what it answers without that. It changes
// nothing.
func TestReadersWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	eachReader(t, func(t *testing.T, p *patient, argv []string) {
		usual, answer := p.main(argv...)
		before := p.kept()
		crashtest.EachOwnPlace(t, syscall.EIO, "otm/internal/app", func(refuse crashtest.Refuse) {
			code, out := 0, ""
			refused, _ := refuse(p.h.Dir, func() error {
				code, out = p.main(argv...)
				return nil
			})
			told := code != usual || strings.Contains(out, syscall.EIO.Error())
			same := passing.ReplaceAllString(out, "") == passing.ReplaceAllString(answer, "")
			if told == same || told && !refused.Came() {
				t.Errorf("refused %q: exit %d: %s", refused, code, out)
			}
			if code, out := p.main(argv...); code != usual {
				t.Errorf("refused %q, again: exit %d: %s", refused, code, out)
			}
			if after := p.kept(); after != before {
				t.Errorf("refused %q: it leaves\n%s\nwant\n%s", refused, after, before)
			}
		})
	})
}

// eachReader calls f with each reader, some of them with one patient, one after the
// other: they change nothing.
func eachReader(t *testing.T, f func(t *testing.T, p *patient, argv []string)) {
	for some := range slices.Chunk(readers, 10) {
		t.Run("readers", func(t *testing.T) {
			t.Parallel()
			p := newRead(t)
			for _, argv := range some {
				t.Run(strings.Join(argv, " "), func(t *testing.T) {
					of := p.T
					defer func() { p.T = of }()
					p.T = t
					f(t, p, argv)
				})
			}
		})
	}
}

// kept are the files that hold tasks, drops and what is known of them.
func (p *patient) kept() string {
	p.Helper()
	var b strings.Builder
	for _, pattern := range []string{"new-tasks/*", "task-updates/*", "failed/*", "processed/*", "tasks/*", "next-task-id.json"} {
		paths, err := filepath.Glob(filepath.Join(p.h.Dir, pattern))
		if err != nil {
			p.Fatal(err)
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err != nil || info.Mode().IsRegular() {
				fmt.Fprintln(&b, path, content(p.T, path))
			}
		}
	}
	for _, e := range eventsOf(p, p.h, 0) {
		fmt.Fprintln(&b, e.Seq, e.Type(), e.Task)
	}
	return b.String()
}

// fullAfter is an output that takes so many writes.
type fullAfter struct{ left int }

func (f *fullAfter) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, syscall.ENOSPC
	}
	return len(p), nil
}

// TestAnswerIsLost: whichever part of its answer is not taken, no command passes
// for a success.
func TestAnswerIsLost(t *testing.T) {
	t.Parallel()
	for _, argv := range [][]string{
		{"otm", "next", "--agent", "devdas"}, {"otm", "next", "--agent", "devdas", "--json"}, {"otm", "retry", "bad.json", "--json"}, {"otm", "retry", "bad.json"},
		{"otm", "archive", "--older-than", "0d"}, {"otm", "archive", "--older-than", "0d", "--json"}, {"otm", "init"}, {"otm", "init", "--json"},
		{"otm", "init", "--slack"}, {"otm", "init", "--slack", "--json"}, {"otm", "install", "--systemd", "--user", "--uninstall", "--dry-run", "--json"},
		{"otm"}, {"otm", "--version"}, {"otm", "completion", "bash"}, {"otm", "completion", "zsh"}, {"otm", "completion", "fish"}, {"otm-create", "--title", "x", "--agent", "devdas"}, {"otm-update", "--help"},
	} {
		t.Run(strings.Join(argv, " "), func(t *testing.T) {
			t.Parallel()
			loseAnswer(t, newRead(t), argv)
		})
	}
	eachReader(t, loseAnswer)
}

// loseAnswer has each write of the answer refused.
func loseAnswer(t *testing.T, p *patient, argv []string) {
	for n := 0; ; n++ {
		full, errs := &fullAfter{n}, &bytes.Buffer{}
		code := p.run(argv, &cli.Output{W: full}, errs)
		if full.left >= 0 {
			if n == 0 && code == cli.OK {
				t.Error("it answers nothing")
			}
			return
		}
		if code == cli.OK || !strings.Contains(errs.String(), "the answer was not written: "+syscall.ENOSPC.Error()) {
			t.Errorf("answer lost after %d writes: exit %d: %s", n, code, errs)
		}
	}
}
