package slacklist

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"sync"
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
	// SettleAfter is how long a walk may lag behind a write. If zero,
	// DefaultSettleAfter.
	SettleAfter time.Duration
	// LockWait is how long Begin waits. If zero, DefaultLockWait.
	LockWait time.Duration

	Log *slog.Logger     // if nil, nothing is logged
	Now func() time.Time // if nil, time.Now
}

// Client reads and writes one list. It is safe for use by several goroutines.
type Client struct {
	opts    Options
	columns map[pipeline.Field]string
	api     *slack.Client
	now     func() time.Time
	log     *slog.Logger

	mu    sync.Mutex // held from Begin to End, in front of locks/board: guards store
	store store
}

// New returns a client. Nothing is called yet.
func New(o Options) *Client {
	if o.SettleAfter == 0 {
		o.SettleAfter = DefaultSettleAfter
	}
	if o.LockWait == 0 {
		o.LockWait = DefaultLockWait
	}
	c := &Client{opts: o, columns: DefaultColumns(), now: o.Now, log: o.Log, store: store{dir: filepath.Join(o.Dir, "board")}}
	maps.Copy(c.columns, o.Columns)
	if c.now == nil {
		c.now = time.Now
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	// Without the slash, slack-go joins path and method into one word.
	base := strings.TrimSuffix(o.URL, "/") + "/"
	c.api = slack.New(o.Token, slack.OptionAPIURL(base), slack.OptionHTTPClient(newWire()))
	return c
}

// Begin takes locks/board and begins a batch. The caller must call End. The
// error is a *lock.HeldError if another process keeps the lock.
func (c *Client) Begin(ctx context.Context) (pipeline.Batch, error) {
	c.mu.Lock()
	l, err := lock.Acquire(ctx, filepath.Join(c.opts.Dir, "locks", "board"), c.opts.LockWait)
	if err != nil {
		c.mu.Unlock()
		return nil, err
	}
	s := &Session{c: c, lock: l, deadline: time.Now().Add(BatchTime)}
	if err := s.open(); err != nil {
		l.Release()
		c.mu.Unlock()
		return nil, err
	}
	return s, nil
}

// board names what the snapshot is of.
func (c *Client) board() string { return c.opts.URL + " " + c.opts.ListID }

// listPage reads one page of the list.
func (c *Client) listPage(ctx context.Context, cursor string) (*page, error) {
	body, err := c.do(ctx, "slackLists.items.list", func(ctx context.Context) error {
		options := []slack.GetListItemsOption{slack.GetListItemsOptionLimit(1000), slack.GetListItemsOptionIncludeList(true)}
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
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, unsure("slackLists.items.list", "page of rows", err)
	}
	return &p, nil
}

type page struct {
	Items    []json.RawMessage `json:"items"`
	List     json.RawMessage   `json:"list"`
	Metadata struct {
		NextCursor string `json:"next_cursor"`
	} `json:"response_metadata"`
}

// fileInfo reads the list object without a row.
func (c *Client) fileInfo(ctx context.Context) (json.RawMessage, error) {
	body, err := c.do(ctx, "files.info", func(ctx context.Context) error {
		_, _, _, err := c.api.GetFileInfoContext(ctx, c.opts.ListID, 0, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	var answer struct {
		File json.RawMessage `json:"file"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, unsure("files.info", "", err)
	}
	return answer.File, nil
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
	var answer struct {
		UserID string `json:"user_id"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", unsure("auth.test", "", err)
	}
	return answer.UserID, nil
}

// createItem makes a row and returns the item as the board answered it.
func (c *Client) createItem(ctx context.Context, parent string, fields []slack.ListItemField) (json.RawMessage, error) {
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
	var answer struct {
		Item json.RawMessage `json:"item"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || len(answer.Item) == 0 {
		return nil, unsure("slackLists.items.create", "the answer has no item", err)
	}
	return answer.Item, nil
}

// updateCells writes cells, at most 100 of them.
func (c *Client) updateCells(ctx context.Context, cells []slack.ListItemCell) error {
	_, err := c.do(ctx, "slackLists.items.update", func(ctx context.Context) error {
		return c.api.UpdateListItemsContext(ctx, c.opts.ListID, cells)
	})
	return err
}
