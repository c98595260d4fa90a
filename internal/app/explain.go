package app

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"otm/core"
	"otm/core/store"
	"otm/heartbeat"
	"otm/internal/board"
	"otm/internal/cli"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/internal/sqlite"
	"otm/internal/submit"
	"otm/pipeline"
	"otm/slacklist"
)

// errNoBoard says that no list is configured and no embedded board answers.
var errNoBoard = errors.New("no list is configured and no embedded board is running")

// tokenError says that the token of the board cannot be had.
type tokenError struct{ err error }

func (e *tokenError) Error() string { return fmt.Sprintf("token of the board: %v", e.err) }

func (e *tokenError) Unwrap() error { return e.err }

// Explain turns errors into what people are told and the exit code; nil where
// it knows nothing better.
func Explain(err error) *cli.Error {
	var token *tokenError
	var resident *residentError
	var missing *pipeline.MissingError
	var be *pipeline.BoardError
	var op *net.OpError
	var bad *net.AddrError
	const otherAddress = "name another address with listen in [board] of otm.toml"
	switch {
	case errors.As(err, &token):
		return cli.Errorf(cli.Credentials, "%w", err).Hint("otm init --slack --token-stdin   # paste the token, then Enter; or put it where slack.token_file or token_env of otm.toml says")
	case errors.As(err, &resident) && resident.id != heartbeat.Board:
		return cli.Errorf(cli.Locked, "%w", err).Hint("otm status")
	case errors.Is(err, board.ErrInUse), errors.As(err, &resident):
		return cli.Errorf(cli.Locked, "%w", err).Hint("otm status").Hint("otm board --link   # prints a link to the page")
	case errors.As(err, &missing):
		return cli.Errorf(cli.BadConfig, "the list does not fit: %w", err).Hint("%s", missingHint(missing))
	case errors.As(err, &be):
		return explainBoard(be)
	case errors.As(err, &op) && op.Op == "listen" && errors.Is(op, syscall.EADDRINUSE): // and so are the next ports
		return cli.Errorf(cli.TryLater, "%w", err).Hint(otherAddress)
	case errors.As(err, &op) && op.Op == "listen" && (errors.Is(op, syscall.EADDRNOTAVAIL) || errors.Is(op, syscall.EACCES) || errors.As(op, &bad)):
		return cli.Errorf(cli.BadConfig, "%w", err).Hint(otherAddress)
	}
	if out := explainStore(err); out != nil {
		return out
	}
	return submit.Explain(err)
}

// explainStore explains errors of the store; nil: it is none.
func explainStore(err error) *cli.Error {
	var known *store.Error
	var newer *store.NewerError
	var shared *store.SharedError
	code := cli.TryLater
	switch {
	case errors.As(err, &newer), errors.Is(err, sqlite.ErrNoLocks):
		code = cli.BadConfig
	case errors.As(err, &shared):
	case !errors.As(err, &known):
		return nil
	case errors.Is(err, sqlite.ErrCorrupt), errors.Is(err, store.ErrState), errors.Is(err, core.ErrArchive):
		code = cli.Failed
	}
	return cli.Errorf(code, "%w", err).Hint("%s", store.Hint(err))
}

func missingHint(m *pipeline.MissingError) string {
	switch {
	case m.Mend != "":
		return m.Mend
	case m.Option != "":
		return fmt.Sprintf("add the option %s to the column %s of the list", safe.Quote(m.Option), safe.Quote(m.Column))
	}
	return fmt.Sprintf("add a column named %s of the type %s to the list, or name the one that is meant in [slack.columns] of otm.toml", safe.Quote(m.Column), m.Type)
}

func explainBoard(e *pipeline.BoardError) *cli.Error {
	switch {
	case e.Credentials:
		out := cli.Errorf(cli.Credentials, "the board refuses the token: %w", e)
		if e.Needed != "" {
			return out.Hint("add the scope %s to the Slack app, install it anew, and keep the new token", e.Needed)
		}
		return out.Hint("otm init --slack --token-stdin   # paste one that is good, then Enter")
	case e.Code == "paid_teams_only" || e.Code == "lists_disabled_user_team":
		return cli.Errorf(cli.BadConfig, "%w", e).Hint("Slack Lists need a paid plan; without one use the embedded board: remove slack.list_id from otm.toml")
	case e.ReadOnly():
		f := explain.New(explain.ListReadOnly)
		return cli.Errorf(cli.BadConfig, "%s: %w", f.Text(time.Time{}), e).Hint("%s", f.Next(time.Time{}))
	case e.Code == "list_not_found", e.Code == "file_not_found":
		return cli.Errorf(cli.BadConfig, "%w", e).Hint("check the list's id, with which its link ends, and that the list is shared with the app: Slack says the same for both")
	case e.Code == slacklist.CodeOtherStore:
		return cli.Errorf(cli.BadConfig, "%w", e).Hint("name another list in otm.toml: each data directory needs its own").
			Hint("otm fsck --repair   # takes the list over: only if the other directory is not used any more")
	case e.Endless:
		return cli.Errorf(cli.TryLater, "%w", e).Hint("delete rows from the list, or tell its operator that paging does not end; then: otm doctor")
	case e.Class == pipeline.Fatal:
		return cli.Errorf(cli.BadConfig, "the board refuses: %w", e).Hint("check [slack] of otm.toml against what the board says")
	case e.Class == pipeline.Refused:
		return cli.Errorf(cli.Failed, "the board refuses: %w", e).Hint("otm status")
	}
	return cli.Errorf(cli.TryLater, "the board is out of reach: %w", e).Hint("otm doctor   # says whether it answers").Hint("otm status")
}

// told is an error as a command tells it.
func told(err error) *cli.Error {
	if e, ok := errors.AsType[*cli.Error](err); ok {
		return e
	}
	return cmp.Or(Explain(err), cli.Errorf(cli.Failed, "%w", err))
}

// exitCode is the code with which a run ends that met err.
func exitCode(err error) int { return told(err).Code }

// ownHint is what a person can do about an error of our own files; "": nothing is known.
func ownHint(err error) string {
	e := cmp.Or(explainStore(err), submit.Explain(err))
	if e == nil || len(e.Hints) == 0 {
		return ""
	}
	return e.Hints[0]
}

// someFailed is how a command ends of whose items some, or all, failed.
func someFailed(failed, all int) *cli.Error {
	if failed == all {
		return cli.Exit(cli.Failed)
	}
	return cli.Exit(cli.Partial)
}
