package board

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"otm/internal/durable"
)

// Files in Options.Dir.
const (
	rowsFile     = "rows.jsonl"
	tokenFile    = "token"
	endpointFile = "endpoint.json"
)

// TokenPrefix begins the token that Open makes.
const TokenPrefix = "xoxb-otm-"

// leftoverAge is when a temporary file is taken for a crashed writer's: others
// write in the directory too.
const leftoverAge = time.Hour

// A Server is an open board. Its methods may be called from any goroutine.
type Server struct {
	opts       Options
	log        *slog.Logger
	now        func() time.Time
	listID     string
	token      string
	identities []keyholder
	methods    map[string]*method
	limiter    *limiter
	quirks     atomic.Pointer[Quirks]
	chat       chat
	jobs       jobs
	notifier   notifier
	store      *store
	dirLock    *durable.File
	handler    http.Handler

	mu       sync.Mutex // guards what follows
	listener net.Listener
	endpoint Endpoint
	closed   bool
}

// Open opens the board in o.Dir, recovering from a crash, or makes a new one
// with the default list and a token. The caller must Close it. The error
// matches ErrInUse or ErrCorrupt where they say.
func Open(o Options) (*Server, error) {
	if o.Dir == "" {
		return nil, errors.New("open board: no directory")
	}
	s := &Server{opts: o, log: o.Log, now: o.Now, methods: apiMethods()}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.limiter = newLimiter(o.Limits, s.now)
	s.quirks.Store(&o.Quirks)
	if err := s.open(); err != nil {
		if s.dirLock != nil {
			unlockDir(s.dirLock)
		}
		return nil, fmt.Errorf("open board: %w", err)
	}
	s.handler = s.routes()
	return s, nil
}

func (s *Server) open() (err error) {
	dir := s.opts.Dir
	if err := durable.Mkdir(dir); err != nil {
		return err
	}
	if s.dirLock, err = lockDir(dir); err != nil {
		return err
	}
	if _, err := durable.RemoveLeftovers(dir, leftoverAge, s.now()); err != nil {
		return err
	}
	// Whoever ran before us is gone: we have the lock.
	if err := removeEndpoint(dir); err != nil {
		return err
	}
	if s.token, err = loadToken(filepath.Join(dir, tokenFile), s.log); err != nil {
		return err
	}
	if err := s.setIdentities(); err != nil {
		return err
	}
	st := newState()
	first := func() []*entry { return []*entry{{Lists: []*list{newDefaultList(s.now())}}} }
	j, err := openOrCreateJournal(filepath.Join(dir, rowsFile), st, s.now(), s.log, first)
	if err != nil {
		return err
	}
	l, err := st.defaultList()
	if err != nil {
		j.close()
		return fmt.Errorf("%w: %q: %w", ErrCorrupt, j.path, err)
	}
	s.listID = l.ID
	s.store = newStore(j, st, s.log, s.now, s.notifier.notify)
	return nil
}

func (s *Server) setIdentities() error {
	bot := Identity{Token: s.token, UserID: BotUser}
	seen := make(map[string]bool)
	for _, id := range append([]Identity{bot}, s.opts.Identities...) {
		if id.Token == "" || id.UserID == "" || seen[id.Token] {
			return fmt.Errorf("identity %q needs a user id and a token of its own", id.UserID)
		}
		seen[id.Token] = true
		s.identities = append(s.identities, newKeyholder(id))
	}
	return nil
}

// loadToken reads the token, or makes one where there is no file.
func loadToken(path string, log *slog.Logger) (string, error) {
	token, err := readToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		if info, statErr := os.Stat(path); err == nil && statErr == nil && info.Mode().Perm()&0o077 != 0 {
			log.Warn("token file can be read by others", "file", path, "mode", info.Mode().Perm().String())
		}
		return token, err
	}
	token = TokenPrefix + strings.ToLower(rand.Text())
	if err := durable.WriteNew(path, []byte(token+"\n")); err != nil {
		return "", fmt.Errorf("make token: %w", err)
	}
	return token, nil
}

// ReadToken returns the token of the board in dir. The error matches
// fs.ErrNotExist if no board was ever opened there.
func ReadToken(dir string) (string, error) {
	return readToken(filepath.Join(dir, tokenFile))
}

func readToken(path string) (string, error) {
	raw, err := durable.ReadFile(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(raw))
	if token == "" || strings.ContainsAny(token, " \t\r\n\x00") { // NUL bytes are what a power failure leaves, and everybody's guess
		return "", fmt.Errorf("token file %q holds no token: remove it, and the board makes one", path)
	}
	return token, nil
}

// Close ends the board: what waits is written, the endpoint file is removed if
// Listen wrote it, the directory is free. A second Close does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	if s.listener != nil {
		s.listener.Close() // Serve may have closed it
		errs = append(errs, removeEndpoint(s.opts.Dir))
	}
	errs = append(errs, s.store.close(), unlockDir(s.dirLock))
	return errors.Join(errs...)
}

// ListID is the id of the default list.
func (s *Server) ListID() string { return s.listID }

// Token is the bot's token.
func (s *Server) Token() string { return s.token }

// SetQuirks replaces the quirks; calls that have begun keep theirs.
func (s *Server) SetQuirks(q Quirks) { s.quirks.Store(&q) }

func (s *Server) quirksNow() Quirks { return *s.quirks.Load() }

// Changes returns a channel that gets a value after lists or rows have
// changed. Changes that come while one waits are one. The channel is closed
// when ctx ends.
func (s *Server) Changes(ctx context.Context) <-chan struct{} {
	return s.notifier.subscribe(ctx)
}
