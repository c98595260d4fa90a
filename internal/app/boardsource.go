package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"otm/internal/board"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/lock"
	"otm/pipeline"
	"otm/slacklist"
)

// boardSource is the configured board. The embedded board may start later than
// we do, and at another port, so each batch looks for it again.
type boardSource struct {
	home *Home
	log  *slog.Logger

	mu     sync.Mutex // guards what follows
	client *slacklist.Client
	at     slacklist.Options // what client was made for
}

func (h *Home) board(log *slog.Logger) *boardSource {
	return &boardSource{home: h, log: log}
}

// Begin implements pipeline.Board. The error matches errNoBoard if there is no
// board, and is a *tokenError if its token cannot be read.
func (b *boardSource) Begin(ctx context.Context) (pipeline.Batch, error) {
	client, err := b.connect()
	if err != nil {
		return nil, err
	}
	return client.Begin(ctx)
}

func (b *boardSource) connect() (*slacklist.Client, error) {
	where, err := findBoard(b.home)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client == nil || b.at.URL != where.URL || b.at.ListID != where.ListID || b.at.Token != where.Token || b.at.Budget != where.Budget {
		b.at = where
		where.Log = b.log
		if !where.Consistent { // the embedded board is this directory's own
			where.Store, where.TakeOver = b.home.stores.id, b.home.stores.moved
		}
		b.client = slacklist.New(where)
	}
	return b.client, nil
}

// findBoard returns the client options of the board of a data directory: the configured
// list, else the embedded board if it answers.
func findBoard(h *Home) (slacklist.Options, error) {
	o := configuredBoard(h)
	if o.ListID == "" {
		return embeddedBoard(h, o)
	}
	token, err := h.Config.Slack.ReadToken(h.Getenv)
	if err == nil && token == "" {
		err = errors.New("none is set")
	}
	if err != nil {
		return o, &tokenError{err}
	}
	o.Token = token
	return o, nil
}

// snapshot is the board as it was last read.
func (h *Home) snapshot() (*slacklist.Snapshot, error) {
	return slacklist.ReadSnapshot(h.Dir)
}

// configuredBoard is the part of the options that otm.toml sets.
func configuredBoard(h *Home) slacklist.Options {
	c := h.Config
	return slacklist.Options{
		Dir: h.Dir, URL: c.Slack.URL, ListID: c.Slack.ListID, Budget: c.Slack.Budget,
		Columns: c.Slack.Columns, SettleAfter: c.Times.SettleAfter, Now: h.Now,
	}
}

func embeddedBoard(h *Home, o slacklist.Options) (slacklist.Options, error) {
	dir := h.boardDir()
	endpoint, err := board.ReadEndpoint(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return o, absentBoard(h)
	}
	if err != nil {
		return o, badAddress(h, err)
	}
	if err := config.CheckURL(endpoint.URL, "http", "https"); err != nil {
		return o, badAddress(h, fmt.Errorf("%q: %w", filepath.Join(dir, "endpoint.json"), err))
	}
	// In a copied directory the file leads to the board of the other one.
	if _, held := lock.Holder(board.LockPath(dir)); !held || !answers(endpoint.URL) {
		return o, absentBoard(h)
	}
	if o.Token, err = board.ReadToken(dir); err != nil {
		return o, cli.Errorf(cli.Credentials, "token of the embedded board: %w", err).Hint("%s   # the board makes a token when it starts", h.runner().Start)
	}
	o.URL, o.ListID, o.OpenAssignees, o.Consistent = endpoint.URL, endpoint.ListID, true, true
	o.Called = map[string]string{board.HumanUser: human}
	embeddedBudget(h, &o, endpoint)
	return o, nil
}

// badAddress explains an address file of the board or its page whose content is
// unusable. A file that cannot be read keeps its error.
func badAddress(h *Home, err error) error {
	var file *fs.PathError
	if err == nil || errors.As(err, &file) {
		return err
	}
	return cli.Errorf(cli.TryLater, "the address of the board: %w", err).Hint("%s   # writes a new one when it starts", h.runner().Start)
}

// absentBoard is errNoBoard with the command that starts a board here.
func absentBoard(h *Home) error {
	e := cli.Errorf(cli.TryLater, "%w", errNoBoard)
	alone := "otm board" + dirFlag(h.Dir, h.Getenv)
	if start := h.startOf("otm board"); start != alone {
		e.Hint("%s", start)
	}
	return e.Hint("%s", alone)
}

// embeddedBudget sets the budget of calls to the embedded board: unlimited,
// unless the board has limits or otm.toml sets a budget.
func embeddedBudget(h *Home, o *slacklist.Options, endpoint board.Endpoint) {
	if h.Config.Slack.BudgetSet {
		return
	}
	o.Budget = 0
	if endpoint.Limits != "" {
		o.Budget = config.DefaultSlackBudget
	}
}

// answers reports whether a server listens there: a killed board leaves its
// endpoint file behind.
func answers(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	conn, err := net.DialTimeout("tcp", u.Host, 5*time.Second) // a busy machine answers late; where nobody listens, it is refused at once
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
