package notify

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"otm/core"
	"otm/internal/hook"
)

// Command is an outlet: a command that gets each message as JSON on its stdin. It has taken
// the message if it exits with 0.
type Command struct {
	Line []string
	Dir  string
	Env  []string
	Wait time.Duration // for its end; zero: commandWait
}

const commandWait = 30 * time.Second

// Tell implements Outlet. The error has the first line that the command printed to stderr.
func (o *Command) Tell(ctx context.Context, m Message) error {
	c := hook.Command{Line: o.Line, Dir: o.Dir, Env: o.Env, Limit: cmp.Or(o.Wait, commandWait)}
	_, says, err := c.Run(ctx, m)
	line, _, _ := strings.Cut(strings.TrimSpace(says), "\n")
	if err == nil || line == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, core.Excerpt(line))
}
