package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"otm/internal/durable"
	"otm/internal/lock"
)

// Who acts: the API's own bot, and the person at the page.
const (
	BotUser   = "U0OTMBOT"
	HumanUser = "U0HUMAN"
)

// leftoverAge is the age at which a temporary file counts as abandoned by a
// crashed writer: other programs write in the directory too.
const leftoverAge = time.Hour

// Options configures Open. Only Dir is required.
type Options struct {
	// Dir holds the board's files. Open makes it if it is missing, but not its
	// parent, so that a mistyped path is an error.
	Dir string

	// Listen is the address for Listen; the host must be 127.0.0.1, localhost
	// or [::1]. If empty, DefaultListen. If the port is taken, the next free
	// one is used.
	Listen string

	// Identities are callers beside the bot, each with a token of its own.
	Identities []Identity

	// Limits turns Slack's rate limits on. If nil, there are none.
	Limits *Limits

	// RowLimit is how many rows, steps counted, the list holds; a create beyond
	// it is answered over_row_maximum. If zero or negative, there is no limit.
	RowLimit int

	// Assignees are the first options of the Assignee column of a list that Open
	// makes. The board adds others when they are sent.
	Assignees []string

	// Log receives the server's log. If nil, nothing is logged.
	Log *slog.Logger

	// Now is the clock. If nil, time.Now.
	Now func() time.Time

	// OnPeopleEdit, if not nil, is called after an edit by anybody but OwnAgent
	// is durable and visible, by the goroutine that made the edit.
	OnPeopleEdit func()

	// OwnAgent is the User-Agent of the client whose edits over the API are not
	// a person's. If empty, no edit over the API counts as a person's.
	OwnAgent string

	// Page, if not nil, is served at "/", below /lists/ and below /page/. It
	// decides itself whom it lets in.
	Page http.Handler
}

// A Server is an open board. Calls of its API may come from any goroutine.
type Server struct {
	opts    Options
	log     *slog.Logger
	token   string
	changes chan struct{} // with room for one value
	store   *store
	dirLock *lock.Lock
	handler http.Handler

	listener net.Listener // nil before Listen
	close    sync.Once
}

// Open opens the board in o.Dir, after a crash too, or makes a new one with
// the default list and a token. The caller must Close it. The error matches
// ErrInUse or ErrCorrupt where they apply.
func Open(o Options) (*Server, error) {
	if o.Dir == "" {
		return nil, errors.New("open board: no directory")
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{opts: o, log: o.Log, changes: make(chan struct{}, 1)}
	if err := s.open(); err != nil {
		if s.dirLock != nil {
			s.dirLock.Release()
		}
		return nil, fmt.Errorf("open board: %w", err)
	}
	return s, nil
}

func (s *Server) open() (err error) {
	o := &s.opts
	if err := durable.Mkdir(o.Dir); err != nil {
		return err
	}
	s.dirLock, err = lock.AcquireIn(context.Background(), o.Dir, LockPath(o.Dir), lock.Moment)
	if _, ok := errors.AsType[*lock.HeldError](err); ok {
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	if err != nil {
		return err
	}
	if _, err := durable.RemoveLeftovers(o.Dir, leftoverAge, o.Now()); err != nil {
		return err
	}
	// We hold the lock, so the board that wrote this endpoint has ended.
	if err := RemoveEndpoint(EndpointPath(o.Dir)); err != nil {
		return err
	}
	if s.token, err = loadToken(o.Dir, s.log); err != nil {
		return err
	}
	who, err := newCallers(append([]Identity{{Token: s.token, UserID: BotUser}}, o.Identities...))
	if err != nil {
		return err
	}
	if s.store, err = openStore(o, s.noteChange); err != nil {
		return err
	}
	s.handler = routes(newAPI(o, who, s.store), o.Page)
	return nil
}

// Close lets running transactions end, removes the endpoint file if Listen wrote it, and
// frees the directory. Serve must have ended. A second Close does nothing.
func (s *Server) Close() (err error) {
	s.close.Do(func() {
		var errs []error
		if s.listener != nil {
			s.listener.Close() // Serve may have closed it
			errs = append(errs, RemoveEndpoint(EndpointPath(s.opts.Dir)))
		}
		err = errors.Join(append(errs, s.store.close(), s.dirLock.Release())...)
	})
	return err
}

// ListID is the id of the default list.
func (s *Server) ListID() string { return s.store.listID }

// Token is the bot's token.
func (s *Server) Token() string { return s.token }

// Handler serves the API under /api/, and the page. It is what Serve serves;
// tests may serve it themselves.
func (s *Server) Handler() http.Handler { return s.handler }

// Changes returns a channel that gets a value after lists or rows have changed, for
// one reader. A value that it has not taken stands for all changes since.
func (s *Server) Changes() <-chan struct{} { return s.changes }

func (s *Server) noteChange() {
	select {
	case s.changes <- struct{}{}:
	default:
	}
}

// Edit runs fn as one transaction in the name of the user and returns when its
// changes are durable and visible. An error of fn undoes them. Edit asks for no
// token and knows no rate limit: it is how the test double plays a person in
// Slack, who can do more than our API. fn may run twice.
func (s *Server) Edit(user string, fn func(*Tx) error) error {
	err := s.store.do(user, fn)
	if err == nil && s.opts.OnPeopleEdit != nil {
		s.opts.OnPeopleEdit()
	}
	return err
}

// View calls fn with a snapshot, in which it must change nothing.
func (s *Server) View(fn func(*Tx) error) error { return s.store.view(fn) }
