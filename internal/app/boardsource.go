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
	"otm/pipeline"
	"otm/slacklist"
)

// boardSource is the board that is configured. An embedded board may be
// started later than we, and again at another port, so where it is is looked
// up for each batch.
type boardSource struct {
	home *Home
	log  *slog.Logger

	mu     sync.Mutex // guards what follows
	client *slacklist.Client
	at     slacklist.Options // what client was made for
}

func (h *Home) board(log *slog.Logger) *boardSource { return &boardSource{home: h, log: log} }

// Begin implements pipeline.Board. The error matches errNoBoard where there is
// none, and is a *tokenError where its token cannot be had.
func (b *boardSource) Begin(ctx context.Context) (pipeline.Batch, error) {
	client, err := b.connect()
	if err != nil {
		return nil, err
	}
	batch, err := client.Begin(ctx)
	if err != nil {
		return nil, err
	}
	r := &raising{Batch: batch, source: b}
	r.raise(ctx)
	return r, nil
}

// raising is a batch that keeps the counter above every id that a walk shows,
// whoever makes the walk.
type raising struct {
	pipeline.Batch
	source *boardSource
}

// Refresh implements pipeline.Batch.
func (r *raising) Refresh(ctx context.Context, maxAge time.Duration) error {
	err := r.Batch.Refresh(ctx, maxAge)
	if err == nil {
		r.raise(ctx)
	}
	return err
}

func (r *raising) raise(ctx context.Context) {
	if err := r.source.home.Store.RaiseAbove(ctx, r.Batch); err != nil {
		r.source.log.Warn("counter not raised above the ids on the board", "err", err) // the next walk does it
	}
}

func (b *boardSource) connect() (*slacklist.Client, error) {
	where, err := b.home.whichBoard()
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client == nil || b.at.URL != where.URL || b.at.ListID != where.ListID || b.at.Token != where.Token || b.at.Budget != where.Budget {
		b.at = where
		where.Log = b.log
		b.client = slacklist.New(where)
	}
	return b.client, nil
}

// whichBoard says where the board is: the configured list, else the embedded
// board, if it answers.
func (h *Home) whichBoard() (slacklist.Options, error) {
	o := h.listOptions()
	if o.ListID != "" {
		token, err := h.Config.SlackToken(h.Getenv)
		if err == nil && token == "" {
			err = errors.New("none is set")
		}
		if err != nil {
			return o, &tokenError{err}
		}
		o.Token = token
		return o, nil
	}
	return h.embeddedBoard(o)
}

// snapshot is the board as it was last read.
func (h *Home) snapshot() (*slacklist.Snapshot, error) {
	return slacklist.ReadSnapshot(h.Dir, h.Config.Slack.Budget, h.Now())
}

// listOptions is what the configuration says of the list.
func (h *Home) listOptions() slacklist.Options {
	c := h.Config
	return slacklist.Options{
		Dir: h.Dir, URL: c.Slack.URL, ListID: c.Slack.ListID, Budget: c.Slack.Budget,
		Columns: c.Slack.Columns, SettleAfter: c.Times.SettleAfter, Now: h.Now,
	}
}

func (h *Home) embeddedBoard(o slacklist.Options) (slacklist.Options, error) {
	endpoint, err := board.ReadEndpoint(h.boardDir())
	if errors.Is(err, fs.ErrNotExist) {
		return o, h.noBoard()
	}
	if err != nil {
		return o, h.oddAddress(err)
	}
	if err := config.CheckURL(endpoint.URL, "http", "https"); err != nil {
		return o, h.oddAddress(fmt.Errorf("%q: %w", filepath.Join(h.boardDir(), "endpoint.json"), err))
	}
	if !answers(endpoint.URL) {
		return o, h.noBoard()
	}
	if o.Token, err = board.ReadToken(h.boardDir()); err != nil {
		return o, cli.Errorf(cli.Credentials, "token of the embedded board: %w", err).Hint("%s   # the board makes one when it starts", h.startCommand())
	}
	o.URL, o.ListID, o.OpenAssignees = endpoint.URL, endpoint.ListID, true
	o.Called = map[string]string{board.HumanUser: human}
	h.embeddedBudget(&o, endpoint)
	return o, nil
}

// oddAddress says that a file which tells where the board or its page is says
// nothing of use. That it could not be read stays as it is.
func (h *Home) oddAddress(err error) error {
	var file *fs.PathError
	if err == nil || errors.As(err, &file) {
		return err
	}
	return cli.Errorf(cli.TryLater, "the address of the board: %w", err).Hint("%s   # writes it anew when it starts", h.startCommand())
}

// noBoard is errNoBoard with what starts one here.
func (h *Home) noBoard() error {
	return cli.Errorf(cli.TryLater, "%w", errNoBoard).Hint("%s", h.startCommand()).Hint("otm board")
}

// embeddedBudget sets the budget for the embedded board: none, unless it has
// limits or the configuration says otherwise.
func (h *Home) embeddedBudget(o *slacklist.Options, endpoint board.Endpoint) {
	if h.Config.Slack.BudgetSet {
		return
	}
	o.Budget = 0
	if endpoint.Limits != "" {
		o.Budget = config.DefaultSlackBudget
	}
}

// answers tells whether somebody listens there: a board that was killed leaves
// its endpoint file behind.
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
