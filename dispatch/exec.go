package dispatch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"otm/core"
	"otm/internal/durable"
	"otm/internal/hook"
	"otm/internal/lock"
	"otm/pipeline"
)

// HelperCommand is the hidden first argument that makes a binary of OTM the helper
// of an agent's process. Every binary that dispatches calls RunHelper for it.
const HelperCommand = "__exec-helper"

// Exec wakes agents by starting their command. Each agent has at most one process:
// a helper in its own session, which outlives the dispatcher, holds
// locks/exec-<agent> while the command runs.
type Exec struct {
	Dir     string   // the data directory
	LogDir  string   // logs go to <LogDir>/exec/<agent>/
	PathDir string   // put in front of PATH: the directory of otm and its siblings
	Secrets []string // environment variables that no agent gets
	Store   string   // the URL of the store, "" if it is in the data directory; agents do not get it

	// Died, if it is not nil, is called when a helper that this process started was killed.
	Died func()

	helper  []string       // how to start the helper; nil: this program does it
	helpers sync.WaitGroup // running helpers that this process started
}

// spec is the order that the helper reads from stdin.
type spec struct {
	Dir       string   `json:"dir"`
	Agent     string   `json:"agent"`
	Key       string   `json:"key"`
	Command   []string `json:"command"`
	Workspace string   `json:"workspace"`
	Message   string   `json:"message"`
	LogDir    string   `json:"logDir"`
	Store     string   `json:"store,omitempty"`
}

// Ready implements Waker.
func (x *Exec) Ready(_ context.Context, a *pipeline.Agent) error {
	if CommandProblem(a) != nil {
		return fmt.Errorf("%w: its command cannot be started", ErrRefused)
	}
	return nil
}

// Ended implements Waker. The free lock shows that the process has ended; the helper
// notes in the store how.
func (x *Exec) Ended(_ context.Context, _ *pipeline.Agent, key string) (core.EndStart, bool, error) {
	end := core.EndStart{Key: key, Process: true}
	if logs, err := filepath.Glob(filepath.Join(x.LogDir, "exec", "*", "*-"+key+".log")); err == nil && len(logs) > 0 {
		end.Log = logs[len(logs)-1]
	}
	return end, true, nil
}

// Wait returns when all agents that it started have ended, however long that takes.
func (x *Exec) Wait() { x.helpers.Wait() }

func execLock(dir, agent string) string { return filepath.Join(dir, "locks", "exec-"+agent) }

// Wake implements Waker. It returns when the command runs.
func (x *Exec) Wake(ctx context.Context, r Request) error {
	s := spec{
		Dir: x.Dir, Agent: r.Agent.Name, Key: r.Key, Workspace: r.Agent.Workspace,
		Message: r.Message, LogDir: filepath.Join(x.LogDir, "exec", r.Agent.Name),
		Command: expand(r, x.Dir), Store: x.Store,
	}
	input, err := json.Marshal(s)
	if err != nil {
		return err
	}
	answer, err := x.startHelper(ctx, input, x.environ(r))
	if err != nil {
		return err
	}
	switch answer {
	case helperStarted:
		return nil
	case helperBusy:
		return errBusy
	}
	return fmt.Errorf("%w: %s", ErrRefused, answer)
}

// Answers of the helper. Any other answer says why it started nothing.
const (
	helperStarted = "started"
	helperBusy    = "busy"
)

// startHelper starts the helper in its own session, with the environment of the
// command, and reads its answer, one line. The helper outlives this process.
func (x *Exec) startHelper(ctx context.Context, input []byte, env []string) (string, error) {
	argv := x.helper
	if argv == nil {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		argv = []string{self, HelperCommand}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = x.Dir, env
	cmd.Stdin = bytes.NewReader(input)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	line := make(chan string, 1)
	x.helpers.Go(func() {
		answer, _ := bufio.NewReader(out).ReadString('\n')
		answer = strings.TrimSpace(answer)
		line <- answer
		if cmd.Wait() != nil && answer == helperStarted && x.Died != nil { // one that ends by itself touches the file
			x.Died()
		}
	})
	select {
	case answer := <-line:
		if answer == "" {
			answer = "the helper ended without an answer"
		}
		return answer, nil
	case <-ctx.Done():
		return "", fmt.Errorf("%w: the helper did not answer", ErrLost)
	}
}

// expand fills the placeholders of a command. Each stays within its argument, as no
// shell is involved.
func expand(r Request, dir string) []string {
	replacer := strings.NewReplacer("{message}", r.Message, "{agent}", r.Agent.Name, "{task}", r.Task.String(),
		"{file}", r.File, "{dir}", dir)
	return pipeline.Map(r.Agent.Command, replacer.Replace)
}

// environ returns the environment of the command: ours, without the secrets.
func (x *Exec) environ(r Request) []string {
	env := append(hook.Environment(x.PathDir, x.Secrets), "OTM_DIR="+x.Dir, "OTM_AGENT="+r.Agent.Name,
		"OTM_TASK_ID="+r.Task.String(), "OTM_RUN="+strconv.Itoa(r.Run), "OTM_DISPATCH_FILE="+r.File)
	if r.Trace != "" {
		env = append(env, "TRACEPARENT="+string(r.Trace))
	}
	return env
}

// RunHelper is the helper: it reads a spec from stdin, takes the agent's lock,
// starts the command, answers on stdout, and waits for the command's end. It opens the
// store only then. ended is called after the end is noted.
// RunHelper returns the exit code of the helper.
func RunHelper(stdin io.Reader, stdout io.Writer, now func() time.Time, open Opener, ended func(dir string)) int {
	runtime.LockOSThread() // the child dies with the thread that starts it (childAttr)
	// The dispatcher may be gone before we answer. That must not end us and the
	// command. We catch SIGPIPE, as the command would inherit an ignored signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	var s spec
	if err := json.NewDecoder(stdin).Decode(&s); err != nil {
		fmt.Fprintln(stdout, "the helper got no order:", err)
		return 1
	}
	ctx := context.Background()
	stop := endSignals()
	l, group, err := s.acquire(ctx)
	if err != nil {
		answer := helperBusy
		if held := (*lock.HeldError)(nil); !errors.As(err, &held) {
			answer = oneLine(err)
		}
		fmt.Fprintln(stdout, answer)
		return 1
	}
	cmd, log, err := s.start(now(), group.File())
	if err != nil {
		group.Release()
		l.Release() // before the answer: its reader may check the lock at once
		fmt.Fprintln(stdout, oneLine(err))
		return 1
	}
	defer log.Close()
	fmt.Fprintln(stdout, helperStarted)
	err, stopped := waitFor(cmd, stop)
	how, code, bySignal := howEnded(cmd, err)
	log.End(fmt.Sprintf("[%s] ended: %s", now().UTC().Format(time.RFC3339), how))
	noteEnd(ctx, open, &s, core.EndStart{
		Key: s.Key, Process: true, Ended: now(), Detail: how, ExitCode: code, Log: log.file.Name(),
	}, func() bool { return s.removed(group.File()) })
	allEnded := true
	if stopped || bySignal {
		group.Leave()
		allEnded = endGroup(groupLock(s.Dir, s.Agent))
	} else {
		group.Release()
	}
	l.Release()
	ended(s.Dir)
	if !allEnded {
		signalGroup(syscall.SIGKILL) // all is noted: we end with them
	}
	return 0
}

// acquire takes the locks of the agent's process and of its group.
func (s *spec) acquire(ctx context.Context) (process, group *lock.Lock, err error) {
	if process, err = lock.Acquire(ctx, execLock(s.Dir, s.Agent), helperWait); err != nil {
		return nil, nil, err
	}
	if group, err = lock.Acquire(ctx, groupLock(s.Dir, s.Agent), helperWait); err != nil {
		process.Release()
		return nil, nil, err
	}
	return process, group, nil
}

// helperWait is how long the helper waits for the agent's lock: lock.Holder takes it
// for a moment.
const helperWait = 200 * time.Millisecond

// start starts the agent's command without a shell. The command has the helper's
// environment and is found in its PATH.
func (s *spec) start(now time.Time, inherit *os.File) (*exec.Cmd, *execLog, error) {
	log, err := openExecLog(s.LogDir, s.Key, now)
	if err != nil {
		return nil, nil, fmt.Errorf("no log: %w", err)
	}
	cmd := exec.Command(s.Command[0], s.Command[1:]...)
	cmd.Dir = s.Workspace
	cmd.Stdin = strings.NewReader(s.Message + "\n")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr, cmd.ExtraFiles = childAttr(), []*os.File{inherit}
	cmd.WaitDelay = leftOpen
	if err := cmd.Start(); err != nil {
		log.discard() // else empty logs would push out the others
		if _, gone := os.Stat(s.Workspace); gone != nil {
			err = gone // the error of Start names the program instead
		}
		return nil, nil, fmt.Errorf("its command cannot be started: %w (see command in [agents.%s] of otm.toml)", err, s.Agent)
	}
	return cmd, log, nil
}

// leftOpen is how long the helper still reads the output of processes that the
// command left running.
const leftOpen = 2 * time.Second

// howEnded tells how a command ended: for people, and as its exit code, which is 128+n
// after signal n, as in shells (nil: not known).
func howEnded(cmd *exec.Cmd, err error) (how string, code *int, bySignal bool) {
	if cmd.ProcessState == nil {
		return err.Error(), nil, false
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		n := 128 + int(ws.Signal())
		return fmt.Sprintf("killed by signal %d", ws.Signal()), &n, true
	}
	n := cmd.ProcessState.ExitCode()
	return fmt.Sprintf("exit status %d", n), &n, false
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", " ") }

// Opener opens the store of a data directory. url is that of [Exec].Store.
type Opener func(ctx context.Context, dir, url string) (store core.Store, closeStore func() error, err error)

// removed reports whether somebody deleted the data directory, with our open file in it. A
// directory that was moved, or whose disk is away, may come back.
func (s *spec) removed(file *os.File) bool {
	if _, err := os.Stat(s.Dir); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	info, err := file.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 0
}

// noteEnd notes how the command ended, durably. If the store refuses, it retries for
// noteFor, unless the data directory is removed: without its exit code, the run would count
// as a failure. If the helper is killed before, the free lock shows the end.
func noteEnd(ctx context.Context, open Opener, s *spec, end core.EndStart, removed func() bool) {
	for giveUp := time.After(noteFor); ; {
		store, closeStore, err := open(ctx, s.Dir, s.Store)
		if err == nil {
			_, err = RecordEnd(ctx, store, end, end.Ended)
			err = errors.Join(err, closeStore())
		}
		if err == nil || removed() {
			return
		}
		select {
		case <-giveUp:
			return
		case <-time.After(noteAgain):
		}
	}
}

// How long, and after which pause, noteEnd retries.
const (
	noteFor   = time.Minute
	noteAgain = time.Second
)

// Bounds of the output that is kept.
const (
	maxExecLog  = 1 << 20 // bytes a run
	maxExecLogs = 20      // runs an agent
)

// execLog is the log of one run of a command. It drops output after maxExecLog bytes,
// and says so. It is not for several goroutines: os/exec makes one stream of stdout and
// stderr.
type execLog struct {
	file *durable.File
	left int // bytes that may still be written
}

// openExecLog creates the log of a run and deletes the agent's oldest logs.
func openExecLog(dir, key string, now time.Time) (*execLog, error) {
	if err := durable.MkdirAll(dir); err != nil {
		return nil, err
	}
	pruneExecLogs(dir)
	name := now.UTC().Format("20060102T150405.000Z") + "-" + key + ".log"
	f, err := durable.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return nil, err
	}
	return &execLog{file: f, left: maxExecLog}, nil
}

func pruneExecLogs(dir string) {
	entries, err := durable.ReadDir(dir)
	if err != nil {
		return
	}
	var logs []string // by time
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".log") {
			logs = append(logs, e.Name())
		}
	}
	for _, name := range logs[:max(0, len(logs)-maxExecLogs+1)] {
		durable.Remove(filepath.Join(dir, name))
	}
}

// Write never fails: a full disk must not end an agent.
func (l *execLog) Write(p []byte) (int, error) {
	if l.left <= 0 {
		return len(p), nil
	}
	keep := min(len(p), l.left)
	l.left -= keep
	l.file.Write(p[:keep])
	if l.left <= 0 {
		fmt.Fprintf(l.file, "\n[the rest is not kept: more than %d bytes]\n", maxExecLog)
	}
	return len(p), nil
}

// End writes the last line.
func (l *execLog) End(line string) {
	fmt.Fprintf(l.file, "\n%s\n", line)
}

func (l *execLog) Close() error { return l.file.Close() }

func (l *execLog) discard() {
	l.Close()
	durable.Remove(l.file.Name())
}
