// Package hook runs commands that people name in otm.toml, as a hook for what OTM does.
package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Command is a command that gets JSON on its stdin.
type Command struct {
	Line  []string // the program and its arguments; no shell
	Dir   string
	Env   []string
	Limit time.Duration // for its end
}

const (
	// maxSaid bounds what is kept of each output, in bytes.
	maxSaid = 16 << 10
	// grace is how long the pipes of a command that was killed may stay open.
	grace = time.Second
)

// Run runs the command with a value on its stdin, and returns the beginnings of what it
// printed. It kills what the command leaves running. The error says that it failed, or did
// not end in time.
func (c *Command) Run(ctx context.Context, value any) (stdout, stderr string, err error) {
	data, err := json.Marshal(value)
	if err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Limit, fmt.Errorf("it did not end within %v", c.Limit))
	defer cancel()
	var out, says beginning
	p := exec.CommandContext(ctx, c.Line[0], c.Line[1:]...)
	p.Dir, p.Env, p.WaitDelay = c.Dir, c.Env, grace
	p.Stdin, p.Stdout, p.Stderr = bytes.NewReader(append(data, '\n')), &out, &says
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error { return syscall.Kill(-p.Process.Pid, syscall.SIGKILL) } // with all that it started
	p.Cancel = kill
	err = p.Run()
	if p.Process != nil {
		kill()
	}
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay): // it ended well, and what it left held its pipes
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", c.Line[0], err)
	}
	return string(out.kept), string(says.kept), err
}

// beginning keeps the beginning of what is written to it.
type beginning struct{ kept []byte }

func (b *beginning) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), maxSaid-len(b.kept))]...)
	return len(p), nil
}

// Environment returns our environment without secrets, and without what names an agent or a
// trace. pathDir stands in front of its PATH.
func Environment(pathDir string, secrets []string) (env []string) {
	path := os.Getenv("PATH")
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		own := name == "PATH" || name == "TRACEPARENT" || name == "TRACESTATE" || strings.HasPrefix(name, "OTM_")
		if !own && !slices.Contains(secrets, name) {
			env = append(env, kv)
		}
	}
	switch {
	case path == "":
		path = pathDir // an empty element would mean the working directory
	case pathDir != "":
		path = pathDir + string(os.PathListSeparator) + path
	}
	return append(env, "PATH="+path)
}
