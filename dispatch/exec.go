package dispatch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"otm/internal/lock"
	"otm/pipeline"
)

// HelperCommand is the hidden first argument with which a binary of OTM is
// started to hold an agent's process. Every binary that dispatches answers to
// it with RunHelper.
const HelperCommand = "__exec-helper"

// Exec wakes agents by starting their command. Each agent has one process at
// most: a helper in a session of its own, which outlives the dispatcher, holds
// locks/exec-<agent> for the command's life.
type Exec struct {
	Dir     string   // the data directory
	LogDir  string   // logs go to <LogDir>/exec/<agent>/
	PathDir string   // put in front of PATH: where otm and its siblings are
	Secrets []string // environment variables that no agent gets
	// Helper is how to start the helper: the program and the arguments before
	// HelperCommand. If nil, this program.
	Helper []string
}

// spec is what the helper is told, on its stdin.
type spec struct {
	Dir       string          `json:"dir"`
	Agent     string          `json:"agent"`
	Key       string          `json:"key"`
	Task      pipeline.TaskID `json:"task"`
	Command   []string        `json:"command"`
	Workspace string          `json:"workspace"`
	Message   string          `json:"message"`
	File      string          `json:"file"`
	LogDir    string          `json:"logDir"`
	Env       []string        `json:"env"`
}

// Running implements Waker.
func (x *Exec) Running(agent string) bool {
	_, held := lock.Holder(execLock(x.Dir, agent))
	return held
}

// Ended implements Waker. That the process has ended is known from its lock;
// how, the helper writes into the record.
func (x *Exec) Ended(_ context.Context, _ string) (string, bool, error) { return "", true, nil }

func execLock(dir, agent string) string { return filepath.Join(dir, "locks", "exec-"+agent) }

// Wake implements Waker: it returns when the command runs.
func (x *Exec) Wake(ctx context.Context, r Request) error {
	if len(r.Agent.Command) == 0 {
		return fmt.Errorf("%w: no command is set", ErrRefused)
	}
	s := spec{
		Dir: x.Dir, Agent: r.Agent.Name, Key: r.Key, Task: r.Task, Workspace: r.Agent.Workspace,
		Message: r.Message, File: r.File, LogDir: filepath.Join(x.LogDir, "exec", r.Agent.Name),
		Command: expand(r, x.Dir), Env: x.environ(r),
	}
	input, err := json.Marshal(s)
	if err != nil {
		return err
	}
	answer, err := x.startHelper(ctx, input)
	if err != nil {
		return err
	}
	if answer != helperStarted {
		return fmt.Errorf("%w: %s", ErrRefused, answer)
	}
	return nil
}

const helperStarted = "started"

// startHelper starts the helper in a session of its own and reads its answer,
// one line. The helper goes on without us.
func (x *Exec) startHelper(ctx context.Context, input []byte) (string, error) {
	argv := x.Helper
	if argv == nil {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		argv = []string{self}
	}
	cmd := exec.Command(argv[0], append(argv[1:len(argv):len(argv)], HelperCommand)...)
	cmd.Dir = x.Dir
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
	go func() {
		answer, _ := bufio.NewReader(out).ReadString('\n')
		line <- strings.TrimSpace(answer)
		cmd.Wait() // reaps it, should it end before us
	}()
	select {
	case answer := <-line:
		if answer == "" {
			answer = "the helper ended without a word"
		}
		return answer, nil
	case <-ctx.Done():
		return "", fmt.Errorf("%w: the helper did not answer", ErrLost)
	}
}

// expand fills the placeholders of a command. Each stays within its argument:
// no shell sees it.
func expand(r Request, dir string) []string {
	replacer := strings.NewReplacer("{message}", r.Message, "{agent}", r.Agent.Name, "{task}", r.Task.String(),
		"{file}", r.File, "{dir}", dir)
	out := make([]string, len(r.Agent.Command))
	for i, arg := range r.Agent.Command {
		out[i] = replacer.Replace(arg)
	}
	return out
}

// environ is the environment of the command: ours, without the secrets.
func (x *Exec) environ(r Request) []string {
	var env []string
	path := os.Getenv("PATH")
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if name != "PATH" && !strings.HasPrefix(name, "OTM_") && !contains(x.Secrets, name) {
			env = append(env, kv)
		}
	}
	if x.PathDir != "" {
		path = x.PathDir + string(os.PathListSeparator) + path
	}
	return append(env, "PATH="+path, "OTM_DIR="+x.Dir, "OTM_AGENT="+r.Agent.Name,
		"OTM_TASK_ID="+r.Task.String(), "OTM_DISPATCH_FILE="+r.File)
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

// RunHelper is the helper: it reads a spec from stdin, takes the agent's lock,
// starts the command, answers on stdout, and waits for the command's end. open
// returns the records of a data directory, and ended is told when all is
// noted. RunHelper returns the process's exit code.
func RunHelper(stdin io.Reader, stdout io.Writer, now func() time.Time, open func(dir string) pipeline.Records, ended func(dir string)) int {
	runtime.LockOSThread() // the child's life is tied to the thread that starts it
	var s spec
	if err := json.NewDecoder(stdin).Decode(&s); err != nil {
		fmt.Fprintln(stdout, "helper got no order:", err)
		return 1
	}
	ctx := context.Background()
	l, err := lock.Acquire(ctx, execLock(s.Dir, s.Agent), 200*time.Millisecond)
	if err != nil {
		fmt.Fprintln(stdout, "its process is running already")
		return 1
	}
	log, err := openExecLog(s.LogDir, s.Key, now())
	if err != nil {
		fmt.Fprintln(stdout, "no log:", err)
		return 1
	}
	defer log.Close()
	cmd := exec.Command(s.Command[0], s.Command[1:]...)
	if resolved := lookPath(s.Command[0], s.Env, s.Workspace); resolved != "" {
		cmd.Path, cmd.Err = resolved, nil
	}
	cmd.Dir, cmd.Env = s.Workspace, s.Env
	cmd.Stdin = strings.NewReader(s.Message + "\n")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttr()
	cmd.WaitDelay = 5 * time.Second // for what it left running with its output open
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(stdout, "not started:", strings.ReplaceAll(err.Error(), "\n", " "))
		return 1
	}
	fmt.Fprintln(stdout, helperStarted)
	how := "exit 0"
	if err := cmd.Wait(); err != nil {
		how = err.Error()
	}
	fmt.Fprintf(log, "\n[%s] ended: %s\n", now().UTC().Format(time.RFC3339), how)
	noteEnd(ctx, open(s.Dir), &s, how, now())
	l.Release()
	ended(s.Dir)
	return 0
}

// noteEnd writes into the record how the command ended. If we are killed
// before, the lock is free all the same, and that is what decides.
func noteEnd(ctx context.Context, records pipeline.Records, s *spec, how string, now time.Time) {
	records.Change(ctx, s.Task, func(r *pipeline.Record) error {
		w := wakeNamed(r, s.Key)
		if w == nil {
			return pipeline.ErrUnchanged
		}
		w.Ended, w.Exit = &now, how
		r.Note(now, "agent "+s.Agent+" process", "ended", how)
		return nil
	})
}

// lookPath finds a command in the PATH that it will have, not in ours.
func lookPath(name string, env []string, workspace string) string {
	if strings.Contains(name, "/") {
		return ""
	}
	for _, kv := range env {
		path, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			if !filepath.IsAbs(dir) {
				continue // "." would be the workspace, where the agent writes
			}
			file := filepath.Join(dir, name)
			if info, err := os.Stat(file); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
				return file
			}
		}
	}
	return ""
}
