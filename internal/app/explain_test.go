package app

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"otm/core/store"
	"otm/heartbeat"
	"otm/internal/board"
	"otm/internal/cli"
	"otm/internal/sqlite"
	"otm/pipeline"
)

// TestExplain: each error of the board, of its list and of who else runs ends a
// command with its code, keeps what was wrong, and says what to do.
func TestExplain(t *testing.T) {
	t.Parallel()
	slack := func(e pipeline.BoardError) error { e.Method = "slackLists.items.list"; return &e }
	_, listen := net.Listen("tcp", "127.0.0.1:99999")
	noListen := func(errno syscall.Errno) error {
		return &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", errno)}
	}
	for name, c := range map[string]struct {
		err   error
		code  int
		says  string
		hints []string // how they begin
	}{
		"no token":             {&tokenError{io.ErrUnexpectedEOF}, cli.Credentials, "token of the board: unexpected EOF", []string{"otm init --slack --token-stdin "}},
		"token refused":        {slack(pipeline.BoardError{Code: "invalid_auth", Class: pipeline.Fatal, Credentials: true}), cli.Credentials, "refuses the token: slackLists.items.list: invalid_auth", []string{"otm init --slack --token-stdin "}},
		"scope":                {slack(pipeline.BoardError{Code: "missing_scope", Class: pipeline.Fatal, Credentials: true, Needed: "lists:write"}), cli.Credentials, "missing_scope", []string{"add the scope lists:write to the Slack app"}},
		"no plan":              {slack(pipeline.BoardError{Code: "paid_teams_only", Class: pipeline.Fatal}), cli.BadConfig, "paid_teams_only", []string{"Slack Lists need a paid plan; without one use the embedded board"}},
		"lists switched off":   {slack(pipeline.BoardError{Code: "lists_disabled_user_team", Class: pipeline.Fatal}), cli.BadConfig, "lists_disabled_user_team", []string{"Slack Lists need a paid plan"}},
		"no list":              {slack(pipeline.BoardError{Code: "list_not_found", Class: pipeline.Fatal}), cli.BadConfig, "list_not_found", []string{"check the list's id"}},
		"no file":              {slack(pipeline.BoardError{Code: "file_not_found", Class: pipeline.Fatal}), cli.BadConfig, "file_not_found", []string{"check the list's id"}},
		"fatal":                {slack(pipeline.BoardError{Code: "team_access_not_granted", Class: pipeline.Fatal}), cli.BadConfig, "the board refuses: slackLists.items.list: team_access_not_granted", []string{"check [slack] of otm.toml"}},
		"refused":              {slack(pipeline.BoardError{Code: "invalid_option_id", Class: pipeline.Refused}), cli.Failed, "the board refuses: ", []string{"otm status"}},
		"out of reach":         {slack(pipeline.BoardError{Err: syscall.ECONNREFUSED}), cli.TryLater, "the board is out of reach: ", []string{"otm doctor ", "otm status"}},
		"wrapped":              {fmt.Errorf("walk: %w", slack(pipeline.BoardError{Code: "internal_error"})), cli.TryLater, "the board is out of reach: ", []string{"otm doctor ", "otm status"}},
		"no option":            {&pipeline.MissingError{Column: "Who is it", Option: "dev das", Problem: "is missing"}, cli.BadConfig, "the list does not fit: option", []string{"add the option 'dev das' to the column 'Who is it' of the list"}},
		"no column":            {&pipeline.MissingError{Column: "Reason", Type: "text", Problem: "is missing"}, cli.BadConfig, "the list does not fit: column", []string{"add a column named Reason of the type text to the list"}},
		"two columns":          {&pipeline.MissingError{Column: "Reason", Problem: "twice", Mend: "name one by its id"}, cli.BadConfig, "the list does not fit: column", []string{"name one by its id"}},
		"resident":             {&residentError{id: heartbeat.Injector, pid: 7}, cli.Locked, "otm-injector is running already, as process 7", []string{"otm status"}},
		"resident, unknown":    {&residentError{id: heartbeat.Injector}, cli.Locked, "otm-injector is running already", []string{"otm status"}},
		"a page":               {&residentError{id: heartbeat.Board, pid: 7}, cli.Locked, "otm-board is running already, as process 7", []string{"otm status", "otm board --link "}},
		"a board in its place": {fmt.Errorf("open board: %w", board.ErrInUse), cli.Locked, "open board: ", []string{"otm status", "otm board --link "}},
		"no address":           {listen, cli.BadConfig, "listen tcp", []string{"name another address with listen in [board] of otm.toml"}},
		"no free address":      {noListen(syscall.EADDRINUSE), cli.TryLater, "listen: bind", []string{"name another address with listen in [board] of otm.toml"}},
		"a port of root's":     {noListen(syscall.EACCES), cli.BadConfig, "listen: bind", []string{"name another address with listen in [board] of otm.toml"}},
		"no descriptors":       {noListen(syscall.EMFILE), cli.Failed, "", nil},
		"no address, a board":  {fmt.Errorf("open board: %w", listen), cli.BadConfig, "listen tcp", []string{"name another address with listen in [board] of otm.toml"}},
		"newer schema":         {fmt.Errorf("open: %w", &store.NewerError{Name: "otm.db", Found: 3, Known: 1}), cli.BadConfig, "schema 3", []string{"use the version of otm that last ran here"}},
		"older programs":       {&store.SharedError{Name: "otm.db", Err: io.EOF}, cli.TryLater, "an older schema", []string{"restart otm up"}},
		"busy database":        {&store.Error{Err: sqlite.ErrBusy, Hint: "fuser -v otm.db"}, cli.TryLater, "database is busy", []string{"fuser -v otm.db"}},
		"corrupt database":     {&store.Error{Err: sqlite.ErrCorrupt, Hint: "stop all"}, cli.Failed, "database is corrupt", []string{"stop all"}},
		"nothing is known":     {io.ErrUnexpectedEOF, cli.Failed, "", nil},
		"said already":         {cli.Errorf(cli.Partial, "some"), cli.Partial, "", nil},
	} {
		if got := exitCode(c.err); got != c.code {
			t.Errorf("%s: exit code %d, want %d", name, got, c.code)
		}
		e := Explain(c.err)
		if c.hints == nil {
			if e != nil {
				t.Errorf("%s: it says %v", name, e)
			}
			continue
		}
		if e == nil || e.Code != c.code || !strings.Contains(e.Error(), c.says) || len(e.Hints) != len(c.hints) || !errors.Is(e, errors.Unwrap(c.err)) && errors.Unwrap(c.err) != nil {
			t.Errorf("%s: %v, %+v", name, e, e)
			continue
		}
		for i, want := range c.hints {
			if !strings.HasPrefix(e.Hints[i]+" ", want) {
				t.Errorf("%s: hint %q, want %q", name, e.Hints[i], want)
			}
		}
	}
}
