package app

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"otm/core"
	"otm/internal/cli"
	"otm/internal/safe"
	"otm/internal/tokens"
)

// tokenFileEnv names the file of the token with which commands act.
const tokenFileEnv = "OTM_TOKEN_FILE"

// acting finds out for whom a command acts: for the holder of a token, or for a reviewer. A
// command for several tasks asks again before each, as the token may be revoked meanwhile.
type acting struct {
	h    *Home
	c    *cobra.Command
	args []string
	file string // --token-file
}

// forPeople makes c a command for people and reviewers.
func forPeople(c *cobra.Command, s cli.Streams, do func(ctx context.Context, h *Home, as *acting, args []string) error) {
	as := &acting{c: c}
	c.Flags().StringVar(&as.file, "token-file", "", "the file of the token to act with (default: "+tokenFileEnv+"; on a terminal, the owner's)")
	c.RunE = withHome(s, func(ctx context.Context, h *Home, args []string) error {
		as.h, as.args = h, args
		return do(ctx, h, as, args)
	})
}

// actor returns for whom the command acts. The error is a *cli.Error.
func (as *acting) actor() (core.Actor, error) {
	if agent := as.h.Getenv("OTM_AGENT"); agent != "" {
		a := as.h.Agents().Named(agent)
		if a == nil || !slices.Contains(as.h.Config.Reviewers, a.Name) {
			return core.Actor{}, cli.Errorf(cli.Usage, "this shell is that of agent %s: %s is for people, and for agents that [review] agents of otm.toml names", agent, as.c.CommandPath()).
				Hint("otm-update --help   # what agents report with")
		}
		return core.ByReviewer(a.Name), nil
	}
	t, err := as.token()
	if err != nil {
		return core.Actor{}, err
	}
	if !t.Role.Steers() {
		return core.Actor{}, cli.Errorf(cli.Credentials, "the token %q has the role %s: %s takes an operator or an owner", t.Name, t.Role, as.c.CommandPath())
	}
	return core.ByPerson(t.Name), nil
}

// token returns the token with which the command acts.
func (as *acting) token() (*tokens.Token, error) {
	known := tokens.Open(as.h.Dir)
	path := as.file
	if path == "" {
		path = as.h.Getenv(tokenFileEnv)
	}
	if path == "" && !as.onTerminal() {
		e := cli.Errorf(cli.Credentials, "no token is named, and this is no terminal: %s acts for a person", as.c.CommandPath()).
			Hint("%s --token-file %s", as.line(), safe.Quote(known.OwnerPath())).
			Hint("export %s=%s   # for all commands that follow", tokenFileEnv, safe.Quote(known.OwnerPath()))
		if who := as.h.Config.Reviewers; len(who) > 0 {
			e.Hint("export OTM_AGENT=%s   # in the shell of that agent, which may review", safe.Quote(who[0]))
		}
		return nil, e
	}
	owner := path == "" || path == known.OwnerPath()
	if path == "" {
		path = known.OwnerPath()
	}
	token, err := tokens.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && owner:
		return nil, cli.Errorf(cli.Credentials, "the owner's token %q is missing", path).Hint("otm init   # adds what is missing")
	case err != nil:
		return nil, cli.Errorf(cli.Credentials, "the token cannot be read: %w", err)
	}
	t, err := known.Find(token)
	switch {
	case err != nil:
		return nil, err
	case t == nil && owner:
		return nil, cli.Errorf(cli.Credentials, "the owner's token %q is not known here", path).Hint("rm %s   # then: otm init", safe.Quote(path))
	case t == nil:
		return nil, cli.Errorf(cli.Credentials, "the token in %q is not known here, or was revoked", path).Hint("otm token list")
	}
	return t, nil
}

// onTerminal reports whether the command runs on a terminal: a person typed it.
func (as *acting) onTerminal() bool { return isTerminal(as.h.In) || isTerminal(as.h.Err) }

// line is the command line, as a person can paste it.
func (as *acting) line() string {
	line := as.c.CommandPath()
	for _, arg := range as.args {
		line += " " + safe.Quote(arg)
	}
	as.c.Flags().Visit(func(f *pflag.Flag) {
		switch values, several := f.Value.(pflag.SliceValue); {
		case several:
			for _, v := range values.GetSlice() {
				line += " --" + f.Name + " " + safe.Quote(v)
			}
		case f.Value.String() == "true":
			line += " --" + f.Name
		default:
			line += " --" + f.Name + " " + safe.Quote(f.Value.String())
		}
	})
	return line
}

// isTerminal reports whether a stream of a command is a terminal.
func isTerminal(stream any) bool {
	if o, ok := stream.(*cli.Output); ok {
		stream = o.W
	}
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}
