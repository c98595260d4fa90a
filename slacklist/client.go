package slacklist

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"otm/internal/lock"
	"otm/pipeline"
)

// BatchTime bounds how long one batch holds locks/board.
const BatchTime = 10 * time.Second

// Options configure a Client.
type Options struct {
	Dir    string // the data directory
	URL    string // of the Web API, such as https://slack.com/api/
	ListID string
	Token  string

	// Budget is the share of Slack's published calls a minute that all
	// processes of the directory together allow themselves. If zero, only the
	// board limits calls.
	Budget float64
	// Columns are the names or ids of the columns; fields that are missing
	// have the default name.
	Columns map[pipeline.Field]string
	// OpenAssignees says that the board takes an assignee that is not an option
	// yet, as the embedded board does.
	OpenAssignees bool
	// Consistent says that a walk shows all writes before it, as those of the
	// embedded board do. Slack's may lack our last ones.
	Consistent bool
	// Called maps the ids of users to the names that histories show. Other
	// users are shown by their ids.
	Called map[string]string
	// SettleAfter is how long a walk may predate a write. If zero, 15 seconds.
	SettleAfter time.Duration
	// LockWait is how long Begin waits for the lock. If zero, a minute.
	LockWait time.Duration

	// Store returns the id of the store that the list shows, and the machine's name for
	// people. The id is "" until the store is open. If nil, who works on the list is not
	// checked.
	Store func() (id, host string)
	// TakeOver says that the list is taken from another store.
	TakeOver bool

	Log *slog.Logger     // if nil, nothing is logged
	Now func() time.Time // if nil, time.Now
}

// Client reads and writes one list. It is safe for use by several goroutines.
type Client struct {
	opts    Options
	columns map[pipeline.Field]string
	api     *api
	sleep   func(context.Context, time.Duration) error

	// turn holds a token from Begin to End, in front of locks/board: within
	// the process, batches run in the order in which they came. It guards what
	// follows.
	turn   chan struct{}
	store  store
	rows   decodedRows
	marked bool // see schemas.owned
}

// New returns a client. Nothing is called yet.
func New(o Options) *Client {
	o.SettleAfter = cmp.Or(o.SettleAfter, 15*time.Second)
	o.LockWait = cmp.Or(o.LockWait, time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Client{
		opts: o, columns: columnNames(o.Columns), api: newAPI(&o), sleep: sleep,
		turn: make(chan struct{}, 1), store: store{dir: filepath.Join(o.Dir, "board")},
	}
}

// sleep waits, and returns the cause if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Begin takes locks/board and begins a batch. The caller must call End. The
// error is a *lock.HeldError if another process keeps the lock.
func (c *Client) Begin(ctx context.Context) (pipeline.Batch, error) {
	s, err := c.begin(ctx)
	if err != nil {
		return nil, err // not a nil *Session in an interface
	}
	return s, nil
}

func (c *Client) begin(ctx context.Context) (s *Session, err error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() {
		if err != nil {
			<-c.turn
		}
	}()
	l, err := lock.Acquire(ctx, filepath.Join(c.opts.Dir, "locks", "board"), c.opts.LockWait)
	if err != nil {
		return nil, err
	}
	snap, err := c.store.load()
	if err != nil {
		l.Release()
		return nil, err
	}
	if snap.Board != c.board() {
		snap = &snapshot{Board: c.board()}
	}
	return newSession(c, l, snap, &c.rows), nil
}

// Look reads all rows as they are now. It takes no lock, counts no call and
// leaves the snapshot alone, so it is for a board on this machine that limits
// nothing, and for callers that only show the rows.
func (c *Client) Look(ctx context.Context) (*Snapshot, error) {
	s := newSession(c, nil, &snapshot{Self: "not asked"}, &decodedRows{})
	if err := s.walk(ctx); err != nil {
		return nil, err
	}
	return s.snap.shown(), nil
}

// board names the list of the snapshot, and the token that read it: with another
// token, our own edits would look like a person's. Four bytes of its hash tell
// tokens apart and give nothing of them away.
func (c *Client) board() string {
	hash := sha256.Sum256([]byte(c.opts.Token))
	return fmt.Sprintf("%s %s %x", c.opts.URL, c.opts.ListID, hash[:4])
}
