package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"otm/internal/app"
	"otm/internal/cli"
	"otm/internal/crash/crashtest"
)

// wrongKinds are the files and folders in whose place wrong_kind.txtar puts the other kind.
var wrongKinds = []string{
	"new-tasks", "task-updates", "processed", "failed", "tasks", "keys", "board", "locks", "logs", "secrets",
	"otm.toml", "format", "next-task-id.json", "otm.db", "store.json",
}

// scripts returns the user stories, or some of them with -short.
func scripts(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	if testing.Short() {
		files = crashtest.Some(t, files, len(files)/6)
	}
	return mostWithin(t, files)
}

// mostWithin puts copies in the place of most scripts. To start a process takes longer than the work
// of most commands, so the copies run these within the tests. In one part of the scripts,
// another one each day, each command is a process of its own, and in all with
// OTM_TEST_WHOLE=1.
func mostWithin(t *testing.T, files []string) []string {
	t.Helper()
	separate := crashtest.Some(t, files, (len(files)+15)/16)
	dir := t.TempDir()
	for i, file := range files {
		if slices.Contains(separate, file) {
			continue
		}
		data, err := os.ReadFile(file)
		if err == nil {
			files[i] = filepath.Join(dir, filepath.Base(file))
			err = os.WriteFile(files[i], []byte(withinScript(string(data))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

var (
	// execLine is a line of a script that runs a command of OTM, and waits for it.
	execLine = regexp.MustCompile(`^(! )?exec (otm(-[a-z-]+)? .*[^&])$`)
	// inputLine gives the next program a standard input.
	inputLine = regexp.MustCompile(`^(stdin|ttyin) `)
)

// withinScript has the commands of a script run within the tests. Those that are given a
// standard input, which only programs can have, stay as they are.
func withinScript(text string) string {
	var out strings.Builder
	inScript, before := true, ""
	for line := range strings.Lines(text) {
		inScript = inScript && !strings.HasPrefix(line, "-- ")
		if inScript && !inputLine.MatchString(before) {
			line = execLine.ReplaceAllString(strings.TrimSuffix(line, "\n"), "${1}within $2") + "\n"
		}
		out.WriteString(line)
		before = line
	}
	return out.String()
}

// within runs a command as exec does, within this process if it can.
func within(ts *testscript.TestScript, neg bool, args []string) {
	ok := false
	if ownProcess(ts, args) {
		ok = ts.Exec(args[0], args[1:]...) == nil
	} else {
		var stdout, stderr bytes.Buffer
		code := app.Main(args, cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Getenv: ts.Getenv})
		ts.Stdout().Write(stdout.Bytes())
		ts.Stderr().Write(stderr.Bytes())
		ts.Check(os.WriteFile(exitFile(ts), []byte(strconv.Itoa(code)), 0o600))
		ok = code == 0
	}
	switch {
	case ok && neg:
		ts.Fatalf("unexpected command success")
	case !ok && !neg:
		ts.Fatalf("unexpected command failure")
	}
}

// ownProcess reports whether a command of a script needs a process of its own: it stays,
// starts others, looks where its program is, or is given the name of a file that begins at
// its directory.
func ownProcess(ts *testscript.TestScript, args []string) bool {
	if args[0] == "otm-dispatcher" || slices.Contains(args, "install") || stays(args[0], args[1:]) || !filepath.IsAbs(ts.Getenv("OTM_DIR")) {
		return true
	}
	return slices.ContainsFunc(args[1:], func(arg string) bool {
		_, value, _ := strings.Cut(arg, "=")
		for _, path := range []string{arg, value} {
			if path == "" || filepath.IsAbs(path) {
				continue
			}
			if _, err := os.Lstat(ts.MkAbs(path)); err == nil {
				return true
			}
		}
		return arg == "--dir"
	})
}
