package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"otm/core"
)

// Command is an outlet: a command that gets each message as JSON on its stdin. It has taken
// the message if it exits with 0.
type Command struct {
	Line []string
	Dir  string
	Env  []string
	Wait time.Duration // for its end; zero: commandWait
}

const (
	commandWait = 30 * time.Second
	// commandGrace is how long the pipes of a command that was killed may stay open.
	commandGrace = time.Second
)

// Tell implements Outlet.
func (o *Command) Tell(ctx context.Context, m Message) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	wait := o.Wait
	if wait == 0 {
		wait = commandWait
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("it did not end within %v", wait))
	defer cancel()
	said := &beginning{}
	c := exec.CommandContext(ctx, o.Line[0], o.Line[1:]...)
	c.Dir, c.Env, c.Stdin, c.Stderr, c.WaitDelay = o.Dir, o.Env, bytes.NewReader(append(data, '\n')), said, commandGrace
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) } // with all that it started
	err = c.Run()
	if c.Process != nil {
		syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // what it left running
	}
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay) && c.ProcessState.Success():
		return nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(said.kept)), "\n")
	if line != "" {
		line = ": " + line
	}
	return fmt.Errorf("%s: %w%s", o.Line[0], err, core.Excerpt(line))
}

// beginning keeps the beginning of what is written to it.
type beginning struct{ kept []byte }

func (b *beginning) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), 1000-len(b.kept))]...)
	return len(p), nil
}
