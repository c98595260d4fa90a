package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
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

	"otm/internal/app"
	"otm/internal/cli"
	"otm/internal/crash/crashtest"
)

// house is a data directory with an embedded board and two agents, in which
// the real mains run, each a process of its own.
type house struct {
	*testing.T
	root, dir, bin string
	killBoard      func()            // ends the board, and waits for that; nil: it was never started
	boardDied      func() bool       // reports whether the board was killed before that, at its point
	within         bool              // run what is not to be killed within this process: a start takes longer than the work
	acknowledged   map[string]string // key → id that was printed
}

func newHouse(t *testing.T) *house {
	t.Helper()
	root, err := os.MkdirTemp("", "otm house ")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // TempDir would take it ill that the process which held an agent's lock says so afterwards
		if !soon(patience, func() bool { return os.RemoveAll(root) == nil }) {
			t.Errorf("%s cannot be removed", root)
		}
	})
	h := &house{T: t, root: root, dir: filepath.Join(root, "data dir"), bin: filepath.Join(root, "bin"), acknowledged: map[string]string{}}
	self, err := mains()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{h.bin, filepath.Join(root, "ws"), filepath.Join(root, "ws2")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range mainNames {
		if err := os.Symlink(self, filepath.Join(h.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	h.within = !crashtest.Whole()
	h.must("otm", "init")
	h.within = false
	config := fmt.Sprintf("[board]\nlisten = \"127.0.0.1:0\"\n[times]\nsettle_after = \"1s\"\n[agents.devdas]\nworkspace = %q\ntrigger = \"none\"\n[agents.runner]\nworkspace = %q\ncommand = [\"true\"]\n",
		filepath.Join(root, "ws"), filepath.Join(root, "ws2"))
	if err := os.WriteFile(filepath.Join(h.dir, "otm.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// mains is the binary that acts as all commands and has the crash hook: this
// one, or, as thousands of processes are started and those with the race
// detector take several times as long, one that is built without it.
var mains = sync.OnceValues(func() (string, error) {
	if !crashtest.Raced {
		return os.Executable()
	}
	dir, err := os.MkdirTemp("", "otm mains ")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "otm.test")
	cmd := exec.Command("go", "test", "-c", "-ldflags=-w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the mains: %w\n%s", err, out)
	}
	return path, nil
})

func (h *house) command(crashAt, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(h.bin, name), args...)
	cmd.Env = append(os.Environ(), "OTM_DIR="+h.dir, "HOME="+h.root, "OTM_CRASH_AT="+crashAt, "OTM_CRASH_TRACE="+filepath.Join(h.root, "trace"), "WORK=")
	return cmd
}

// run runs a command and returns what it printed; killed says that it was
// killed at its point.
func (h *house) run(crashAt, name string, args ...string) (out string, code int, killed bool) {
	h.Helper()
	var stdout, stderr bytes.Buffer
	if h.within && crashAt == "" {
		env := map[string]string{"OTM_DIR": h.dir, "HOME": h.root}
		code := app.Main(append([]string{name}, args...), cli.Streams{
			In: strings.NewReader(""), Out: &stdout, Err: &stderr, Getenv: func(name string) string { return env[name] },
		})
		return stdout.String() + stderr.String(), code, false
	}
	cmd := h.command(crashAt, name, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.Fatal(err)
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		if status.Signal() != syscall.SIGKILL || crashAt == "" {
			h.Fatalf("%s %v: %v\n%s", name, args, status.Signal(), &stderr)
		}
		return stdout.String(), -1, true
	}
	return stdout.String() + stderr.String(), cmd.ProcessState.ExitCode(), false
}

func (h *house) must(name string, args ...string) string {
	h.Helper()
	out, code, _ := h.run("", name, args...)
	if code != 0 {
		h.Fatalf("%s %v: exit %d\n%s", name, args, code, out)
	}
	return out
}

// startBoard starts the board, to be killed at a point, and waits until it
// answers or is dead.
func (h *house) startBoard(crashAt string) {
	h.Helper()
	if said, ok := h.tryBoard(crashAt); !ok && crashAt == "" {
		h.Fatalf("the board ended: %s", said)
	}
}

// tryBoard does so as well, and reports whether it answers; said is what it said
// if it does not.
func (h *house) tryBoard(crashAt string) (said string, ok bool) {
	h.Helper()
	var stderr bytes.Buffer
	cmd := h.command(crashAt, "otm", "board")
	cmd.Env = append(cmd.Env, "OTM_CRASH_TRACE=") // that is of the steps
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		h.Fatal(err)
	}
	r := bufio.NewReader(stdout)
	_, err = r.ReadString('\n') // its address, once it listens
	dead := make(chan struct{})
	go func() {
		defer close(dead)
		io.Copy(io.Discard, r)
		cmd.Wait()
	}()
	h.killBoard = func() {
		cmd.Process.Kill()
		<-dead
	}
	h.boardDied = func() bool {
		select {
		case <-dead:
			return cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
		default:
			return false
		}
	}
	h.Cleanup(h.killBoard)
	if err != nil {
		<-dead
		return stderr.String(), false
	}
	return "", true
}

// person sets the status of a task's row as a person would; where the board is
// dead, nothing happens.
func (h *house) person(task, status string) {
	d := deskOf(h.dir)
	cards, _ := d.cards()
	for _, c := range cards {
		if c.cells["task_id"] == task {
			d.set("status", status, c.ID)
		}
	}
}

// step is one step of a task's life.
type step struct {
	name string
	args []string
	key  string // of a create
}

// life is the way of three tasks from their drop to the history. Each step may
// be done again: that is what somebody does who saw it die.
var life = []step{
	{name: "otm-create", args: []string{"--key", "one", "--title", "One", "--agent", "devdas", "--subtask", "a", "--subtask", "b", "--subtask", "c"}, key: "one"},
	{name: "otm-create", args: []string{"--key", "two", "--title", "Two", "--agent", "devdas"}, key: "two"},
	{name: "otm-create", args: []string{"--key", "three", "--title", "Three", "--agent", "runner"}, key: "three"},
	{name: "otm-injector", args: []string{"--once"}},
	{name: "otm-dispatcher", args: []string{"--once"}},
	{name: "otm", args: []string{"next", "--agent", "devdas"}},
	{name: "otm-update", args: []string{"--task-id", "ONE", "--subtask-done", "a", "--subtask-done", "b"}},
	{name: "otm-update", args: []string{"--task-id", "ONE", "--subtask-done", "c", "--result", "done it"}},
	{name: "otm-injector", args: []string{"--once"}},
	{name: "otm-completion-detector", args: []string{"--once"}},
	{name: "person"},
	{name: "otm-dispatcher", args: []string{"--once"}},
	{name: "otm", args: []string{"archive", "--older-than", "0d", "--yes"}},
}

// command is the step's name, with the word that tells what otm is to do.
func (s *step) command() string {
	if len(s.args) == 0 || strings.HasPrefix(s.args[0], "-") {
		return s.name
	}
	return s.name + " " + s.args[0]
}

// do does a step; killed says that it died at its point.
func (h *house) do(s step, crashAt string) (killed bool) {
	h.Helper()
	if s.name == "person" {
		h.person(h.acknowledged["one"], "done")
		return false
	}
	args := slices.Clone(s.args)
	if i := slices.Index(args, "ONE"); i >= 0 {
		args[i] = h.acknowledged["one"] // an id may have been lost with the process that took it
	}
	out, code, killed := h.run(crashAt, s.name, args...)
	if id := strings.TrimSpace(out); s.key != "" && strings.HasPrefix(id, "T-") {
		if before := h.acknowledged[s.key]; before != "" && before != id {
			h.Errorf("the key %s gave %s, and then %s", s.key, before, id)
		}
		h.acknowledged[s.key] = id
	}
	if s.key != "" && code != 0 && !killed {
		h.Errorf("%s %v: exit %d\n%s", s.name, s.args, code, out)
	}
	return killed
}

// live does the steps from one on.
func (h *house) live(from int) {
	h.Helper()
	for _, s := range life[from:] {
		h.do(s, "")
	}
}

// settle lets everything finish that was left half done, as two ticks would,
// and looks whether no problems found.
func (h *house) settle() {
	h.Helper()
	for tick := 1; ; tick++ {
		for _, name := range []string{"otm-injector", "otm-dispatcher", "otm-completion-detector"} {
			if out, code, _ := h.run("", name, "--once"); code != 0 && code != 3 {
				h.Errorf("%s: exit %d\n%s", name, code, out)
			}
		}
		out, code, _ := h.run("", "otm", "fsck", "--at-rest")
		if code == 0 {
			break
		}
		if tick == 2 {
			h.Errorf("otm fsck: exit %d\n%s", code, out)
			break
		}
	}
	if out := h.must("otm", "rebuild", "--check"); !strings.Contains(out, "no problems found") {
		h.Errorf("otm rebuild --check: %s", out)
	}
	// What was acknowledged is there, and is what it was.
	if len(h.acknowledged) != 3 {
		h.Errorf("acknowledged: %v", h.acknowledged)
	}
	known := h.must("otm", "list", "--all", "--json") + h.must("otm", "history", "--json")
	for key, id := range h.acknowledged {
		if title := strings.ToUpper(key[:1]) + key[1:]; !strings.Contains(known, fmt.Sprintf("%q", title)) || !strings.Contains(known, id) {
			h.Errorf("%s, acknowledged as %s, is not known", key, id)
		}
	}
}

// points returns the points that a step comes by, and how often, in a run in
// which nothing is killed.
func points(t *testing.T) []map[string]int {
	h := newHouse(t)
	h.startBoard("")
	trace := filepath.Join(h.root, "trace")
	var all []map[string]int
	for _, s := range life {
		os.Remove(trace)
		os.WriteFile(trace, nil, 0o600)
		h.do(s, "")
		data, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		hits := map[string]int{}
		for _, line := range strings.Fields(string(data)) {
			hits[line]++
		}
		all = append(all, hits)
	}
	h.settle()
	return all
}

// TestCrashMatrix kills each step of a task's life at each of its points, the
// first time and the third, does the step again as whoever saw it die would,
// and lives on: then no problems found, and what was acknowledged is there.
// The third time comes once a command and point, and one part of the cases is
// taken. OTM_TEST_WHOLE=1 kills each step each time that it comes by. What comes
// before the kill and after the restart are processes of their own only then.
func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	crashtest.Long(t, "is a walk")
	all := points(t)
	checkPoints(t, all)
	for _, k := range crashtest.Part(t, kills(all)) {
		t.Run(fmt.Sprintf("%d %s at %s", k.step, life[k.step].command(), k.at), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.startBoard("")
			h.within = !crashtest.Whole()
			for _, s := range life[:k.step] {
				h.do(s, "")
			}
			if !h.do(life[k.step], k.at) {
				t.Fatal("it was not killed")
			}
			h.within = false
			h.do(life[k.step], "")
			h.within = !crashtest.Whole()
			h.live(k.step + 1)
			h.settle()
		})
	}
}

// kill is the death of a step of the life at a point, the nth time that it comes
// by: "create.after:2".
type kill struct {
	step int
	at   string
}

// kills are those of TestCrashMatrix, given the points that each step comes by.
func kills(all []map[string]int) (kills []kill) {
	chosen := map[string]bool{} // command, point and hit
	for i, hits := range all {
		for _, point := range slices.Sorted(maps.Keys(hits)) {
			for hit := 1; hit <= hits[point]; hit++ {
				at := fmt.Sprintf("%s:%d", point, hit)
				what := life[i].command() + " " + at
				// Only the injector does other work at the same points when it runs again.
				again := chosen[what] && (hit > 1 || life[i].name != "otm-injector")
				if chosen[what] = true; crashtest.Whole() || !again && (hit == 1 || hit == 3) {
					kills = append(kills, kill{i, at})
				}
			}
		}
	}
	return kills
}

// boardPoints are where TestCrashMatrixBoard kills, and the hits of each.
var boardPoints = map[string][]int{
	"board.listening": {1}, "sqlite.commit": {1, 2, 4, 10}, "sqlite.committed": {1, 2, 4, 10},
}

// killedElsewhere are the points that no step of the life comes by, with the
// test that kills there.
var killedElsewhere = []struct{ points, file, test string }{
	{"settle.explained", "pipeline/inbox/settle_test.go", "TestSettleSurvivesACrash"},
	{"retry.explanation retry.moved retry.editing retry.edited", "pipeline/inbox/retry_test.go", "TestRetrySurvivesACrash"},
	{"store.commit", "core/store/process_test.go", "TestKilled"}, // of PostgreSQL
	{"archive.written archive.snapshot archive.settled", "core/store/archive_test.go", "TestArchiveKilled"},
	{"import.chunk import.aside", "internal/before/import_test.go", "TestImportKilled"},
	{"board.imported", "internal/board/kill_test.go", "TestKillWhileImporting"},
	{"end.before end.after", "dispatch/end_linux_test.go", "TestKilledBeforeItEndsAProcess"},
	{"init.list init.token", "cmd/otm/initslack_test.go", "TestKillsOfInitSlack"},
}

// checkPoints holds the points of the source against those at which a test
// kills: here, or as killedElsewhere says.
func checkPoints(t *testing.T, all []map[string]int) {
	t.Helper()
	killed := map[string]string{} // by whom
	for point := range boardPoints {
		killed[point] = "TestCrashMatrixBoard"
	}
	for _, hits := range all {
		for point := range hits {
			killed[point] = "TestCrashMatrix"
		}
	}
	for _, e := range killedElsewhere {
		data, err := os.ReadFile(filepath.Join("../..", e.file))
		_, body, ok := strings.Cut(string(data), "\nfunc "+e.test+"(")
		body, _, _ = strings.Cut(body, "\n}\n")
		if !ok {
			t.Errorf("%s has no %s: %v", e.file, e.test, err)
		}
		for point := range strings.FieldsSeq(e.points) {
			if by := killed[point]; by != "" {
				t.Errorf("%s is killed by %s as well as by %s", point, e.test, by)
			}
			if !strings.Contains(body, `"`+point+`"`) && !strings.Contains(body, `"`+point+`:`) {
				t.Errorf("%s does not name %s", e.test, point)
			}
			killed[point] = e.test
		}
	}
	linked, err := exec.Command("go", "list", "-deps", ".").Output() // what no program links kills nobody
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(linked))
	stand := map[string]bool{}
	call := regexp.MustCompile(`crash\.Point\((.*?)\)`)
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if !slices.Contains(packages, filepath.Dir(filepath.Join("otm", strings.TrimPrefix(path, "../..")))) {
			return nil
		}
		data, err := os.ReadFile(path)
		for _, m := range call.FindAllSubmatch(data, -1) {
			point, err := strconv.Unquote(string(m[1]))
			if err != nil {
				t.Errorf("%s: the point %s is not written out", path, m[1])
			}
			stand[point] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for point := range stand {
		if killed[point] == "" {
			t.Errorf("nobody kills at %s: have a step of the life come by, or add to killedElsewhere what does", point)
		}
	}
	for point, by := range killed {
		if !stand[point] {
			t.Errorf("%s stands nowhere, and %s kills there", point, by)
		}
	}
}

// TestCrashMatrixBoard kills the embedded board at each of its points, starts
// it again, and lives through everything once more.
func TestCrashMatrixBoard(t *testing.T) {
	t.Parallel()
	var kills []string
	for _, point := range slices.Sorted(maps.Keys(boardPoints)) {
		for _, hit := range boardPoints[point] {
			kills = append(kills, fmt.Sprintf("%s:%d", point, hit))
		}
	}
	for _, at := range crashtest.Part(t, kills) {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.within = !crashtest.Whole()
			h.startBoard(at)
			h.live(0)
			if !soon(patience, h.boardDied) {
				t.Fatal("it was not killed")
			}
			h.startBoard("")
			h.live(0)
			h.settle()
		})
	}
}
