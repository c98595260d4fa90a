package slacklist

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"otm/internal/lock"
	"otm/pipeline"
)

// Defaults of Options.
const (
	DefaultSettleAfter = 15 * time.Second
	DefaultLockWait    = 60 * time.Second
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
	// processes of the directory together allow themselves. 0: no limit but
	// what the board refuses.
	Budget float64
	// Columns are the names or ids of the columns; fields that are missing
	// have the default name.
	Columns map[pipeline.Field]string
	// OpenAssignees says that the board takes an assignee that is no option
	// yet, as the embedded board does.
	OpenAssignees bool
	// Called is what users are called in histories, by their ids; who is not in
	// it, is called by the id.
	Called map[string]string
	// SettleAfter is how long a walk may lag behind a write. If zero,
	// DefaultSettleAfter.
	SettleAfter time.Duration
	// LockWait is how long Begin waits. If zero, DefaultLockWait.
	LockWait time.Duration

	// As is a person in whose name rows are updated; if nil, whom Token names.
	As *Person

	Log *slog.Logger     // if nil, nothing is logged
	Now func() time.Time // if nil, time.Now
}

// Person is somebody whose edits OTM carries to the board.
type Person struct {
	Token string // for items.update alone
	User  string // the user whom the token names
}

// Client reads and writes one list. It is safe for use by several goroutines.
type Client struct {
	opts    Options
	columns map[pipeline.Field]string
	api     *slack.Client
	updates *slack.Client // as whom rows are updated
	now     func() time.Time
	sleep   func(context.Context, time.Duration) error
	log     *slog.Logger

	// turn holds a token from Begin to End, in front of locks/board: within
	// the process, batches take turns in the order in which they came. It
	// guards what follows.
	turn  chan struct{}
	store store
	pause time.Time // until when other processes may take the board first
}

// New returns a client. Nothing is called yet.
func New(o Options) *Client {
	if o.SettleAfter == 0 {
		o.SettleAfter = DefaultSettleAfter
	}
	if o.LockWait == 0 {
		o.LockWait = DefaultLockWait
	}
	c := &Client{
		opts: o, columns: DefaultColumns(), now: o.Now, sleep: sleep, log: o.Log,
		turn: make(chan struct{}, 1), store: store{dir: filepath.Join(o.Dir, "board")},
	}
	maps.Copy(c.columns, o.Columns)
	if c.now == nil {
		c.now = time.Now
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	// Without the slash, slack-go joins path and method into one word.
	base := strings.TrimSuffix(o.URL, "/") + "/"
	w := newWire(o.Token)
	c.api = slack.New(o.Token, slack.OptionAPIURL(base), slack.OptionHTTPClient(w))
	if c.updates = c.api; o.As != nil {
		c.updates = slack.New(o.As.Token, slack.OptionAPIURL(base), slack.OptionHTTPClient(w.with(o.As.Token)))
	}
	return c
}

// sleep waits, and returns the cause if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// courtesy is how long the board is left to other processes after a batch that
// lasted its time. They take a moment to wake when the lock comes free, so
// without it, whoever has much to do would never let them in.
const courtesy = 20 * time.Millisecond

// Begin takes locks/board and begins a batch. The caller must call End. The
// error is a *lock.HeldError if another process keeps the lock.
func (c *Client) Begin(ctx context.Context) (pipeline.Batch, error) {
	s, err := c.begin(ctx)
	if err != nil {
		return nil, err // not a nil *Session in an interface
	}
	return s, nil
}

func (c *Client) begin(ctx context.Context) (*Session, error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s, err := c.open(ctx)
	if err != nil {
		<-c.turn
	}
	return s, err
}

func (c *Client) open(ctx context.Context) (*Session, error) {
	if wait := c.pause.Sub(c.now()); wait > 0 && wait <= courtesy {
		if err := c.sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
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
	return &Session{c: c, lock: l, deadline: c.now().Add(BatchTime), snap: snap}, nil
}

// board names what the snapshot is of, and as whom it was read: with another
// token, our own edits would be taken for a person's. Four bytes of its hash
// tell tokens apart and give nothing of them away.
func (c *Client) board() string {
	hash := sha256.Sum256([]byte(c.opts.Token))
	return fmt.Sprintf("%s %s %x", c.opts.URL, c.opts.ListID, hash[:4])
}

// pageSize is how many rows a page holds, the most that Slack allows.
const pageSize = 1000

// page is one page of the list, cut but not decoded.
type page struct {
	items  []byte // a JSON array
	list   []byte // the list object; nil where the board ignored that we asked for it
	cursor string // of the next page; "" after the last
}

// listPage reads one page of the list.
func (c *Client) listPage(ctx context.Context, cursor string) (*page, error) {
	body, err := c.do(ctx, "slackLists.items.list", func(ctx context.Context) error {
		options := []slack.GetListItemsOption{slack.GetListItemsOptionLimit(pageSize), slack.GetListItemsOptionIncludeList(true)}
		if cursor != "" {
			options = append(options, slack.GetListItemsOptionCursor(cursor))
		}
		_, err := c.api.GetListItemsContext(ctx, c.opts.ListID, options...)
		return err
	})
	if err != nil {
		return nil, err
	}
	var p page
	eachMember(body, func(key, value []byte) {
		switch string(key) {
		case "items":
			p.items = value
		case "list":
			if value[0] == '{' {
				p.list = value
			}
		case "response_metadata":
			p.cursor = looseString(member(value, "next_cursor"))
		}
	})
	return &p, nil
}

// fileInfo reads the list object without a row.
func (c *Client) fileInfo(ctx context.Context) ([]byte, error) {
	body, err := c.do(ctx, "files.info", func(ctx context.Context) error {
		_, _, _, err := c.api.GetFileInfoContext(ctx, c.opts.ListID, 0, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	return member(body, "file"), nil
}

// self asks as whom the token writes.
func (c *Client) self(ctx context.Context) (string, error) {
	body, err := c.do(ctx, "auth.test", func(ctx context.Context) error {
		_, err := c.api.AuthTestContext(ctx)
		return err
	})
	if err != nil {
		return "", err
	}
	return looseString(member(body, "user_id")), nil
}

// createItem makes a row and returns the item as the board answered it.
func (c *Client) createItem(ctx context.Context, parent string, fields []slack.ListItemField) ([]byte, error) {
	body, err := c.do(ctx, "slackLists.items.create", func(ctx context.Context) error {
		options := []slack.CreateListItemOption{slack.CreateListItemOptionInitialFields(fields)}
		if parent != "" {
			options = append(options, slack.CreateListItemOptionParentItemID(parent))
		}
		_, err := c.api.CreateListItemContext(ctx, c.opts.ListID, options...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return member(body, "item"), nil
}

// updateCells writes cells, at most 100 of them.
func (c *Client) updateCells(ctx context.Context, cells []slack.ListItemCell) error {
	_, err := c.do(ctx, "slackLists.items.update", func(ctx context.Context) error {
		return c.updates.UpdateListItemsContext(ctx, c.opts.ListID, cells)
	})
	return err
}
