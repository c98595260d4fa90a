package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"otm/dispatch/gateway/gatewaytest"
	"otm/internal/board"
	"otm/pipeline/inbox"
)

// scriptCommands are programs that scripts can start beside those of OTM.
var scriptCommands = map[string]func(){
	"gateway": func() { os.Exit(gatewaytest.Main(os.Args[1:], os.Stderr)) }, // a hostile OpenClaw gateway
}

// deadline leaves the test's own deadline some time to report.
func deadline(t *testing.T) time.Time {
	if d, ok := t.Deadline(); ok {
		return d.Add(-10 * time.Second)
	}
	return time.Time{}
}

// setup gives each script a data directory with a space in its path, made by
// otm init, an embedded board of its own, and workspaces.
func setup(env *testscript.Env) error {
	dir := filepath.Join(env.WorkDir, "data dir")
	env.Setenv("OTM_DIR", dir)
	env.Setenv("DATA", dir)
	env.Setenv("TZ", "UTC")
	repo, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	env.Setenv("REPO", repo)
	// With the race detector, a process would wait a second at its end.
	env.Setenv("GORACE", cmp.Or(os.Getenv("GORACE"), "atexit_sleep_ms=0"))
	return nil
}

// helpers are what scripts can say beside testscript's own commands.
//
//	waitfor FILE REGEXP      until the file matches
//	waitgone FILE            until there is no such file
//	settled N                until both inboxes are empty and N files are in processed/ and failed/
//	board list               the rows of the embedded board, one JSON object a line, to stdout
//	board set TASK FIELD V   edits a cell of a task's row over the API
//	board add TITLE AGENT    types a row, as a person would
//	board delete TASK        deletes a task's row
//	board open TASK STEP     takes the tick of a step away
//	board tick TASK STEP     ticks a step
//	tree DIR                 the files below DIR, sorted, with modes, to stdout
//	chtime FILE AGE          sets the time of a file back
//	repeat N FILE TEXT       writes TEXT N times into FILE
//	expand FROM TO           copies a file with $VARIABLES filled in
//	bytes FILE TEXT          writes TEXT, in which \n, \x00 and the like stand for bytes
//	append N FILE TEXT       appends TEXT N times
//	fifo FILE                makes a named pipe
//	exitcode N               the last exec ended with this code
//	reason FILE REGEXP       the failed drop says why
//	firstline VAR FILE       sets a variable to the first line of a file
//	commands FROM TO         puts the shell commands of a Markdown file or an agent's text into a script
//	smalldisk DIR            mounts a file system of two megabytes there
//	fill FILE                writes until the disk is full
//	sigterm                  interrupts the background commands
var helpers = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"waitfor":   waitfor,
	"waitgone":  waitgone,
	"settled":   settled,
	"board":     boardCmd,
	"tree":      tree,
	"chtime":    chtime,
	"repeat":    repeat,
	"sigterm":   sigterm,
	"smalldisk": smallDisk,
	"commands":  commandsOf,
	"fill":      fill,
	"expand":    expand,
	"bytes":     writeBytes,
	"append":    appendTo,
	"fifo":      fifo,
	"exitcode":  exitCode,
	"reason":    reason,
	"firstline": firstLine,
}

// patience is how long a script waits for something to happen. It is long, as
// it only bounds how late a failure is told.
const patience = 60 * time.Second

// soon calls ok until it is true, and tells whether it was before its patience
// ended. What it waits for is done by other processes, to files and to the
// board; what these do, they tell nobody, so it looks again and again.
func soon(patience time.Duration, ok func() bool) bool {
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) { // no signal comes, see above
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// until calls ok until it is true.
func until(ts *testscript.TestScript, what string, ok func() bool) {
	if !soon(patience, ok) {
		ts.Fatalf("waited in vain for %s", what)
	}
}

func waitfor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitfor FILE REGEXP")
	}
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	path := ts.MkAbs(args[0])
	var last []byte
	defer func() {
		if r := recover(); r != nil {
			ts.Logf("%s holds:\n%s", args[0], last)
			panic(r)
		}
	}()
	until(ts, fmt.Sprintf("%s to match %s", args[0], args[1]), func() bool {
		last, _ = os.ReadFile(path)
		return re.Match(last)
	})
}

func waitgone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitgone FILE")
	}
	until(ts, args[0]+" to go", func() bool {
		_, err := os.Lstat(ts.MkAbs(args[0]))
		return os.IsNotExist(err)
	})
}

func settled(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: settled N")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	dir := ts.Getenv("OTM_DIR")
	until(ts, args[0]+" settled files", func() bool {
		return count(dir, "new-tasks") == 0 && count(dir, "task-updates") == 0 && count(dir, "processed")+count(dir, "failed") == want
	})
}

func count(dir, sub string) int {
	entries, _ := os.ReadDir(filepath.Join(dir, sub))
	n := 0
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".json") && !strings.HasSuffix(e.Name(), ".error.json") && !strings.HasPrefix(e.Name(), ".") {
			n++
		}
	}
	return n
}

func tree(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: tree DIR")
	}
	root := ts.MkAbs(args[0])
	var lines []string
	ts.Check(filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		lines = append(lines, fmt.Sprintf("%v %s", info.Mode(), rel))
		return nil
	}))
	slices.Sort(lines)
	fmt.Fprintln(ts.Stdout(), strings.Join(lines, "\n"))
}

func chtime(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: chtime FILE AGE")
	}
	age, err := time.ParseDuration(args[1])
	ts.Check(err)
	at := time.Now().Add(-age)
	ts.Check(os.Chtimes(ts.MkAbs(args[0]), at, at))
}

func repeat(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: repeat N FILE TEXT")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strings.Repeat(args[2], n)), 0o600))
}

func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: expand FROM TO")
	}
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}

func writeBytes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: bytes FILE TEXT")
	}
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(args[1], `"`, `\"`) + `"`)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

func appendTo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: append N FILE TEXT")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[1]), os.O_APPEND|os.O_WRONLY, 0)
	ts.Check(err)
	_, err = f.WriteString(strings.Repeat(args[2], n))
	ts.Check(err)
	ts.Check(f.Close())
}

func fifo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: fifo FILE")
	}
	ts.Check(syscall.Mkfifo(ts.MkAbs(args[0]), 0o600))
}

func firstLine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: firstline VAR FILE")
	}
	line, _, _ := strings.Cut(ts.ReadFile(args[1]), "\n")
	ts.Setenv(args[0], line)
}

// reason holds what a failed drop says against a pattern.
func reason(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: reason FILE REGEXP")
	}
	s, err := inbox.Open(ts.Getenv("OTM_DIR")).ReadSettled(inbox.FailedDir, args[0])
	ts.Check(err)
	if !regexp.MustCompile(args[1]).MatchString(s.Result.Error) {
		ts.Fatalf("%s failed with %q, want %s", args[0], s.Result.Error, args[1])
	}
}

// exitCode holds the code of the last program against a number. testscript
// itself only tells success from failure.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: exitcode N")
	}
	got := strings.TrimSpace(ts.ReadFile(filepath.Join(ts.Getenv("WORK"), ".exit")))
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// sigterm ends a background command the way a supervisor does, and waits for
// it.
func sigterm(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sigterm NAME")
	}
	for _, bg := range ts.BackgroundCmds() {
		ts.Check(bg.Process.Signal(os.Interrupt))
	}
}

func boardCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: board list | board set TASK COLUMN VALUE | board add TITLE [AGENT] | board delete TASK | board open TASK STEP")
	}
	b := openAPI(ts)
	switch args[0] {
	case "list":
		for _, item := range b.items() {
			fmt.Fprintln(ts.Stdout(), item.line())
		}
	case "set":
		item := b.find(args[1])
		b.set(item.ID, args[2], args[3])
	case "add":
		var made struct{ Item struct{ ID string } }
		b.call("slackLists.items.create", url.Values{"list_id": {b.list}}, &made)
		b.set(made.Item.ID, "Title", args[1])
		if len(args) > 2 {
			b.set(made.Item.ID, "Assignee", args[2])
		}
	case "delete":
		b.call("slackLists.items.delete", url.Values{"list_id": {b.list}, "id": {b.find(args[1]).ID}}, nil)
	case "open", "tick":
		task := b.find(args[1])
		i := slices.IndexFunc(b.items(), func(it item) bool { return it.Parent == task.ID && it.cell("Title") == args[2] })
		if i < 0 {
			ts.Fatalf("%s has no step %q", args[1], args[2])
		}
		step := b.items()[i]
		if args[0] == "tick" {
			b.set(step.ID, "Completed", "true")
			break
		}
		b.set(step.ID, "Status", "new")
		b.set(step.ID, "Completed", "false")
	default:
		ts.Fatalf("board %s: unknown", args[0])
	}
}

// api is the board's API as a stranger would call it: without our client.
type api struct {
	ts    *testscript.TestScript
	base  string
	token string
	list  string
	cols  map[string]column
}

type column struct {
	ID, Name, Type string
	Options        struct {
		Choices []struct{ Value, Label string }
	}
}

func openAPI(ts *testscript.TestScript) *api {
	dir := filepath.Join(ts.Getenv("OTM_DIR"), "board")
	var endpoint board.Endpoint
	until(ts, "the board to listen", func() bool {
		var err error
		endpoint, err = board.ReadEndpoint(dir)
		return err == nil
	})
	token, err := board.ReadToken(dir)
	ts.Check(err)
	a := &api{ts: ts, base: endpoint.URL, token: token, list: endpoint.ListID, cols: map[string]column{}}
	var info struct {
		File struct {
			ListMetadata struct{ Schema []column } `json:"list_metadata"`
		}
	}
	a.call("files.info", url.Values{"file": {a.list}}, &info)
	for _, c := range info.File.ListMetadata.Schema {
		if _, taken := a.cols[c.Name]; !taken {
			a.cols[c.Name] = c
		}
	}
	return a
}

func (a *api) call(method string, form url.Values, into any) {
	form.Set("token", a.token)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", a.base+method, strings.NewReader(form.Encode()))
	a.ts.Check(err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	a.ts.Check(err)
	defer resp.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(resp.Body)
	a.ts.Check(err)
	var verdict struct {
		OK    bool
		Error string
	}
	a.ts.Check(json.Unmarshal(body.Bytes(), &verdict))
	if !verdict.OK {
		a.ts.Fatalf("%s: %s", method, verdict.Error)
	}
	if into != nil {
		a.ts.Check(json.Unmarshal(body.Bytes(), into))
	}
}

type item struct {
	ID     string
	Parent string `json:"parent_record_id"`
	Fields []struct {
		ColumnID string `json:"column_id"`
		Text     string
		Select   []string
		Number   []float64
		Checkbox *bool
	}
	api *api
}

func (a *api) items() []item {
	var page struct{ Items []item }
	a.call("slackLists.items.list", url.Values{"list_id": {a.list}, "limit": {"1000"}}, &page)
	for i := range page.Items {
		page.Items[i].api = a
	}
	slices.SortFunc(page.Items, func(x, y item) int { return strings.Compare(x.line(), y.line()) })
	return page.Items
}

// cell returns the value of a column as text.
func (it item) cell(name string) string {
	for _, f := range it.Fields {
		if f.ColumnID != it.api.cols[name].ID {
			continue
		}
		switch {
		case f.Text != "":
			return f.Text
		case len(f.Select) > 0:
			return f.Select[0]
		case len(f.Number) > 0:
			return strconv.FormatFloat(f.Number[0], 'f', -1, 64)
		case f.Checkbox != nil:
			return strconv.FormatBool(*f.Checkbox)
		}
	}
	return ""
}

// line is a row as scripts compare it: a step names the task above it.
func (it item) line() string {
	if it.Parent == "" {
		return fmt.Sprintf("%s %q status=%s agent=%s priority=%s remaining=%s completion=%s checked=%s reason=%q result=%q",
			it.cell("Task ID"), it.cell("Title"), it.cell("Status"), it.cell("Assignee"), it.cell("Priority"),
			it.cell("Subtasks remaining"), it.cell("Completion"), it.cell("Completed"), it.cell("Reason"), it.cell("Result"))
	}
	return fmt.Sprintf("  step %q status=%s checked=%s", it.cell("Title"), it.cell("Status"), it.cell("Completed"))
}

func (a *api) find(task string) item {
	for _, it := range a.items() {
		if it.cell("Task ID") == task {
			return it
		}
	}
	a.ts.Fatalf("no row with task id %s", task)
	return item{}
}

func (a *api) set(row, name, value string) {
	c, ok := a.cols[name]
	if !ok {
		a.ts.Fatalf("no column %s", name)
	}
	cell := map[string]any{"row_id": row, "column_id": c.ID}
	switch c.Type {
	case "select":
		cell["select"] = []string{value}
	case "text":
		cell["rich_text"] = []any{map[string]any{"type": "rich_text", "elements": []any{
			map[string]any{"type": "rich_text_section", "elements": []any{map[string]any{"type": "text", "text": value}}}}}}
	case "todo_completed":
		cell["checkbox"] = value == "true"
	default:
		a.ts.Fatalf("cannot set a %s", c.Type)
	}
	cells, err := json.Marshal([]any{cell})
	a.ts.Check(err)
	a.call("slackLists.items.update", url.Values{"list_id": {a.list}, "cells": {string(cells)}}, nil)
}

// condition tells whether the machine has what a script needs.
func condition(name string) (bool, error) {
	if name != "tmpfs" {
		return false, fmt.Errorf("unknown condition %q", name)
	}
	return mayMount(), nil
}

// mayMount tries to mount a small file system.
var mayMount = sync.OnceValue(func() bool {
	dir, err := os.MkdirTemp("", "otm mount ")
	if err != nil {
		return false
	}
	defer os.Remove(dir)
	if mountSmall(dir) != nil {
		return false
	}
	return exec.Command("umount", dir).Run() == nil
})

func mountSmall(dir string) error {
	return exec.Command("mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", dir).Run()
}

func smallDisk(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: smalldisk DIR")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	ts.Check(mountSmall(dir))
	ts.Defer(func() { exec.Command("umount", "-l", dir).Run() })
}

func fill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: fill FILE")
	}
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	for size := 1 << 16; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

// commandsOf collects what a text tells its reader to run: the fenced blocks of
// sh in Markdown, or the lines of otm in an indented text.
func commandsOf(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: commands FROM TO")
	}
	var script strings.Builder
	script.WriteString("set -ex\n")
	inside, more := false, ""
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(text, "```"):
			inside = text == "```sh"
			continue
		case inside:
		case more == "" && (strings.HasPrefix(line, "   otm") || strings.HasPrefix(line, "   otm-")):
		case more == "":
			continue
		}
		script.WriteString(text + "\n")
		switch {
		case inside || text == more:
			more = ""
		case strings.HasSuffix(text, "<<'EOF'"):
			more = "EOF"
		case strings.HasSuffix(text, "\\"):
			more = "the next line"
		case more == "the next line":
			more = ""
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(script.String()), 0o600))
}
