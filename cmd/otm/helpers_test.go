package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
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
	"otm/internal/config"
	"otm/internal/leak"
	"otm/internal/notify/notifytest"
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
	env.Setenv("OTM_TOKEN_FILE", filepath.Join(dir, "secrets", "owner")) // no script is a terminal
	env.Setenv("TZ", "UTC")
	repo, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	env.Setenv("REPO", repo)
	env.Setenv(leak.RunEnv, os.Getenv(leak.RunEnv))
	env.Setenv(racedEnv, racedDir)
	// With the race detector, a process would wait a second at its end.
	env.Setenv("GORACE", cmp.Or(os.Getenv("GORACE"), "atexit_sleep_ms=0"))
	return nil
}

// helpers are what scripts can say beside testscript's own commands. TestScripts adds wrongkinds.
//
//	waitfor FILE REGEXP      until the file matches
//	waitgone FILE            until there is no such file
//	again COMMAND...         runs a command until it succeeds, as a person does whom the board's limits turn away
//	settled N                until both inboxes are empty and N files are in processed/ and failed/
//	board list               the rows of the embedded board, a line each, to stdout
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
//	slackchat FILE           starts a double of Slack's messages, which appends each to FILE, with its channel
//	telegram FILE            starts a double of Telegram's Bot API, which appends each message to FILE
//	commands FROM DIR        puts the shell commands of a Markdown text into scripts, one a section; all stand in blocks of sh
//	waitshow ID REGEXP       waits until what otm show says of a task, as JSON, matches
//	waitboard REGEXP         waits until a line of board list matches
//	smalldisk DIR            mounts a file system of two megabytes there
//	fill FILE                writes until the disk is full, and again as room is made
//	unfill FILE              ends what fill began, and removes the file
//	sigterm                  interrupts the background commands
//	wrongkinds               sets $KINDS to those of wrongKinds that this run takes
//	within COMMAND...        runs a command of OTM as exec does, if possible without a process of its own
var helpers = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"waitfor":    waitfor,
	"waitgone":   waitgone,
	"waitshow":   waitShow,
	"waitstatus": waitStatus,
	"waitboard":  waitBoard,
	"again":      again,
	"settled":    settled,
	"board":      boardCmd,
	"tree":       tree,
	"chtime":     chtime,
	"repeat":     repeat,
	"sigterm":    sigterm,
	"smalldisk":  smallDisk,
	"commands":   commandsOf,
	"fill":       fill,
	"unfill":     unfill,
	"expand":     expand,
	"bytes":      writeBytes,
	"append":     appendTo,
	"fifo":       fifo,
	"exitcode":   exitCode,
	"reason":     reason,
	"firstline":  firstLine,
	"telegram":   telegram,
	"slackchat":  slackChat,
	"within":     within,
}

// patience is how long a script waits for something to happen. It is long, as
// it only bounds how late a failure is told.
const patience = 5 * time.Minute

// soon calls ok until it is true, and reports whether it was before its patience
// ended. What it waits for is done by other processes, to files and to the
// board; what these do, they tell nobody, so it looks again and again; the longer
// a look takes, the more rarely, as what it waits for needs the CPU too.
func soon(patience time.Duration, ok func() bool) bool {
	for end := time.Now().Add(patience); ; {
		began := time.Now()
		if ok() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		time.Sleep(max(10*time.Millisecond, 2*time.Since(began))) // other processes do it, and send no signal
	}
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

func waitShow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitshow ID REGEXP")
	}
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	until(ts, fmt.Sprintf("otm show %s to match %s", args[0], args[1]), func() bool {
		return ts.Exec("otm", "show", args[0], "--json") == nil && re.MatchString(ts.ReadFile("stdout"))
	})
}

// waitStatus waits until a task has a status, whatever the board shows.
func waitStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitstatus ID STATUS")
	}
	until(ts, args[0]+" to be "+args[1], func() bool {
		var shown struct{ Task struct{ Status string } }
		return ts.Exec("otm", "show", args[0], "--json") == nil && json.Unmarshal([]byte(ts.ReadFile("stdout")), &shown) == nil && shown.Task.Status == args[1]
	})
}

func waitBoard(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitboard REGEXP")
	}
	re, err := regexp.Compile(args[0])
	ts.Check(err)
	until(ts, "the board to show "+args[0], func() bool {
		cards, err := deskOf(ts.Getenv("OTM_DIR")).cards()
		return err == nil && slices.ContainsFunc(cards, func(c card) bool { return re.MatchString(c.line()) })
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

func again(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: again COMMAND...")
	}
	until(ts, strings.Join(args, " ")+" to succeed", func() bool { return ts.Exec(args[0], args[1:]...) == nil })
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

// storeEnv is the URL of the store that otm.toml names; "": the script's is in otm.db.
const storeEnv = "STORE_URL"

func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: expand FROM TO")
	}
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	if url := ts.Getenv(storeEnv); url != "" && filepath.Base(args[1]) == config.FileName {
		text += fmt.Sprintf("\n[store]\nurl = %q\n", url)
	}
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

// exitFile is where the code of the last program stands.
func exitFile(ts *testscript.TestScript) string { return filepath.Join(ts.Getenv("WORK"), ".exit") }

// exitCode holds the code of the last program against a number. testscript
// itself only tells success from failure.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: exitcode N")
	}
	got := strings.TrimSpace(ts.ReadFile(exitFile(ts)))
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
		ts.Fatalf("usage: board list | board set TASK COLUMN VALUE | board add TITLE [AGENT] | board delete TASK | board open|tick TASK STEP")
	}
	dir := ts.Getenv("OTM_DIR")
	until(ts, "the board to listen", func() bool {
		_, err := board.ReadEndpoint(filepath.Join(dir, "board"))
		return err == nil
	})
	d := deskOf(dir)
	cards, err := d.cards()
	ts.Check(err)
	slices.SortFunc(cards, func(a, b card) int { return strings.Compare(a.line(), b.line()) })
	row := func(what string, is func(c *card) bool) string {
		for i := range cards {
			if is(&cards[i]) {
				return cards[i].ID
			}
		}
		ts.Fatalf("the board has no %s", what)
		return ""
	}
	task := func(id string) string {
		return row("task "+id, func(c *card) bool { return c.cells["task_id"] == id })
	}
	step := func() string {
		parent := task(args[1])
		return row(args[1]+" with step "+args[2], func(c *card) bool { return c.Parent == parent && c.cells["title"] == args[2] })
	}
	switch args[0] {
	case "list":
		for _, c := range cards {
			fmt.Fprintln(ts.Stdout(), c.line())
		}
	case "set":
		key := strings.ReplaceAll(strings.ToLower(args[2]), " ", "_")
		ts.Check(d.set(key, args[3], task(args[1])))
	case "add":
		pairs := []string{"title", args[1]}
		if len(args) > 2 {
			pairs = append(pairs, "assignee", args[2])
		}
		ts.Check(d.add(pairs...))
	case "delete":
		ts.Check(d.remove(task(args[1])))
	case "tick":
		ts.Check(d.set("todo_completed", "true", step()))
	case "open":
		ts.Check(d.set("status", "new", step()))
		ts.Check(d.set("todo_completed", "false", step()))
	default:
		ts.Fatalf("board %s: unknown", args[0])
	}
}

// condition reports whether the machine has what a script needs.
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
	path := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(path, nil, 0o600))
	toFull(path)
	ended, stop := make(chan struct{}), make(chan struct{})
	end := sync.OnceFunc(func() { close(stop); <-ended })
	ts.Defer(end)
	fillers.Store(path, end)
	go func() {
		defer close(ended)
		for tick := time.NewTicker(time.Millisecond); toFull(path); { // what makes room sends no signal
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
}

// fillers maps the files that fill keeps large to the functions that end it.
var fillers sync.Map

// unfill makes room again. It waits for fill: a file that is removed while fill has it
// open takes up its room for a moment longer.
func unfill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: unfill FILE")
	}
	path := ts.MkAbs(args[0])
	end, ok := fillers.LoadAndDelete(path)
	if !ok {
		ts.Fatalf("%s was not filled", path)
	}
	end.(func())()
	ts.Check(os.Remove(path))
}

// toFull adds to a file until no byte more is taken. It reports whether there is
// such a file.
func toFull(path string) bool {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	for size := 1 << 16; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	return true
}

// commandsOf collects what a Markdown text tells its reader to run: its blocks of sh. Each
// section is a script, named after the first word of its heading. A command anywhere else
// would never be run, and is refused.
func commandsOf(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: commands FROM DIR")
	}
	scripts, err := shellBlocks(ts.ReadFile(args[0]))
	ts.Check(err)
	ts.Check(os.Mkdir(ts.MkAbs(args[1]), 0o700))
	for section, script := range scripts {
		ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[1]), section+".sh"), []byte("set -ex\n"+script), 0o600))
	}
}

// commandText is a command of OTM with an argument, or a flag of one.
var commandText = regexp.MustCompile(`\botm(-create|-update)? +[a-z-]|(^|[^\w-])--[a-z]`)

func shellBlocks(text string) (map[string]string, error) {
	scripts := make(map[string]string)
	section, inside := "", false
	for line := range strings.Lines(text) {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(text, "```"):
			inside = !inside && text == "```sh"
		case inside:
			scripts[section] += text + "\n"
		case commandText.MatchString(text):
			return nil, fmt.Errorf("a command stands outside of the blocks of sh: %s", text)
		case strings.HasPrefix(line, "## "):
			section = strings.ToLower(strings.Trim(strings.Fields(line)[1], ","))
		}
	}
	return scripts, nil
}

// TestShellBlocks: no command of a text is left out silently.
func TestShellBlocks(t *testing.T) {
	t.Parallel()
	scripts, err := shellBlocks("## Do, now\n1. Do `task-dispatch.json` (`otm: hint:`), OTM is up:\n\n   ```sh\n   otm next --agent x\n   ```\n\n   then --\n" +
		"## See\n```sh\notm why 1\notm why 2\n```\n## End\n")
	if want := map[string]string{"do": "otm next --agent x\n", "see": "otm why 1\notm why 2\n"}; !maps.Equal(scripts, want) || err != nil {
		t.Errorf("the scripts are %q, %v; want %q", scripts, err, want)
	}
	for _, text := range []string{
		"Go on: `otm-update --task-id 1 --status in_progress`.", "   otm next\n", "For a person: `--type decision`", "```\notm list --all\n```\n", "```sh\ntrue\n```\notm why 1\n",
	} {
		if scripts, err := shellBlocks(text); err == nil {
			t.Errorf("%q gives %q", text, scripts)
		}
	}
}

// telegram starts a double of the Bot API. Its address is in $TELEGRAM, and the bot's token
// where OTM looks for it.
func telegram(ts *testscript.TestScript, _ bool, args []string) {
	took := appender(ts.MkAbs(args[0]))
	server := httptest.NewServer(&notifytest.Telegram{Token: "123:secret", Chat: "-100", Took: took})
	ts.Defer(server.Close)
	ts.Setenv("TELEGRAM", server.URL)
	ts.Setenv("TELEGRAM_BOT_TOKEN", "123:secret")
}

// slackChat starts a double of what Slack does with messages. Its address is in $SLACK.
func slackChat(ts *testscript.TestScript, _ bool, args []string) {
	took := appender(ts.MkAbs(args[0]))
	double := &notifytest.Slack{Token: "xoxb-secret", Channels: []string{"CNEWS", "CAUDIT"}}
	double.Took = func(m notifytest.SlackMessage) { took(m.Channel + " " + m.Thread + ": " + m.Text) }
	server := httptest.NewServer(double)
	ts.Defer(server.Close)
	ts.Setenv("SLACK", server.URL+"/api/")
	ts.Setenv("SLACK_BOT_TOKEN", "xoxb-secret")
}

// appender appends texts to a file.
func appender(path string) func(text string) {
	return func(text string) {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprintln(f, text)
			f.Close()
		}
	}
}
