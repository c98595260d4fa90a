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
	where, err := b.home.boards().find()
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

// boardFinder finds the board of a data directory: the configured list, else the
// embedded board if it answers.
type boardFinder struct{ home *Home }

func (h *Home) boards() boardFinder { return boardFinder{h} }

// find returns the client options of the board.
func (f boardFinder) find() (slacklist.Options, error) {
	o := f.configured()
	if o.ListID == "" {
		return f.embedded(o)
	}
	token, err := f.home.Config.SlackToken(f.home.Getenv)
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

// configured is the part of the options that otm.toml sets.
func (f boardFinder) configured() slacklist.Options {
	c := f.home.Config
	return slacklist.Options{
		Dir: f.home.Dir, URL: c.Slack.URL, ListID: c.Slack.ListID, Budget: c.Slack.Budget,
		Columns: c.Slack.Columns, SettleAfter: c.Times.SettleAfter, Now: f.home.Now,
	}
}

func (f boardFinder) embedded(o slacklist.Options) (slacklist.Options, error) {
	dir := f.home.boardDir()
	endpoint, err := board.ReadEndpoint(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return o, f.absent()
	}
	if err != nil {
		return o, f.badAddress(err)
	}
	if err := config.CheckURL(endpoint.URL, "http", "https"); err != nil {
		return o, f.badAddress(fmt.Errorf("%q: %w", filepath.Join(dir, "endpoint.json"), err))
	}
	// In a copied directory the file leads to the board of the other one.
	if _, held := lock.Holder(board.LockPath(dir)); !held || !answers(endpoint.URL) {
		return o, f.absent()
	}
	if o.Token, err = board.ReadToken(dir); err != nil {
		return o, cli.Errorf(cli.Credentials, "token of the embedded board: %w", err).Hint("%s   # the board makes a token when it starts", f.home.startCommand())
	}
	o.URL, o.ListID, o.OpenAssignees, o.Consistent = endpoint.URL, endpoint.ListID, true, true
	o.Called = map[string]string{board.HumanUser: human}
	f.embeddedBudget(&o, endpoint)
	return o, nil
}

// badAddress explains an address file of the board or its page whose content is
// unusable. A file that cannot be read keeps its error.
func (f boardFinder) badAddress(err error) error {
	var file *fs.PathError
	if err == nil || errors.As(err, &file) {
		return err
	}
	return cli.Errorf(cli.TryLater, "the address of the board: %w", err).Hint("%s   # writes a new one when it starts", f.home.startCommand())
}

// absent is errNoBoard with the command that starts a board here.
func (f boardFinder) absent() error {
	return cli.Errorf(cli.TryLater, "%w", errNoBoard).Hint("%s", f.home.startCommand()).Hint("otm board")
}

// embeddedBudget sets the budget of calls to the embedded board: unlimited,
// unless the board has limits or otm.toml sets a budget.
func (f boardFinder) embeddedBudget(o *slacklist.Options, endpoint board.Endpoint) {
	if f.home.Config.Slack.BudgetSet {
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
	conn, err := net.DialTimeout("tcp", u.Host, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
