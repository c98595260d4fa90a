package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"otm/heartbeat"
	"otm/internal/board"
	"otm/internal/cli"
	"otm/internal/daemon"
	"otm/internal/durable"
	"otm/internal/loopback"
	"otm/internal/page"
	"otm/pipeline/inbox"
	"otm/pipeline/inbox/watch"
	"otm/slacklist"
)

// runningPage is the page in this process, with the embedded board unless a
// Slack List is configured.
type runningPage struct {
	address string // without a code
	run     []func(context.Context) error
	ends    []func() error // what close does, in reverse order
	log     *slog.Logger
}

// serve answers until ctx ends.
func (p *runningPage) serve(ctx context.Context) error {
	g := daemon.NewGroup(ctx)
	for _, run := range p.run {
		g.Go(run)
	}
	return g.Wait()
}

func (p *runningPage) close() error {
	var errs []error
	for _, end := range slices.Backward(p.ends) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// ended closes a page after serve has returned err. It returns err, or else
// the error of closing.
func (p *runningPage) ended(err error) error {
	if closing := p.close(); err == nil {
		return closing
	}
	return err
}

// openPage opens the page: that of the embedded board, which then listens, or that of the
// Slack List. It takes the lock of the one process that serves the page. If it fails,
// nothing stays open.
func openPage(ctx context.Context, h *Home, o board.Options, embedded bool) (*runningPage, error) {
	l, err := takeResident(ctx, h, heartbeat.Board)
	if err != nil {
		return nil, err
	}
	p := &runningPage{ends: []func() error{l.Release}}
	log, closeLog, err := h.logger(heartbeat.Board)
	if err == nil {
		p.log = log
		p.ends = append(p.ends, func() error { closeLog(); return nil })
		if embedded {
			err = openBoardPage(h, p, o)
		} else {
			err = openSlackPage(h, p)
		}
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func openBoardPage(h *Home, p *runningPage, o board.Options) error {
	source := newPageSource(h, p.log)
	pages := newPages(h, source, p.log)
	person := board.Identity{Token: "xoxp-otm-" + strings.ToLower(rand.Text()), UserID: board.HumanUser, Unlimited: true}
	o.Dir, o.Log, o.Now = h.boardDir(), p.log, h.Now
	o.Identities, o.OwnAgent, o.Page = []board.Identity{person}, slacklist.UserAgent, withAPI(h, p.log, pages.Handler())
	for _, a := range h.Agents() {
		o.Assignees = append(o.Assignees, a.Label)
	}
	o.OnPeopleEdit = func() {
		if err := slacklist.TouchEdited(h.Dir); err != nil {
			p.log.Warn("edit not announced", "err", err)
		}
	}
	server, err := board.Open(o)
	if err != nil {
		return err
	}
	p.ends = append(p.ends, server.Close)
	endpoint, err := server.Listen()
	if err != nil {
		return err
	}
	p.address = endpoint.Page
	warnOfPort(h.Streams, o.Listen, p.address)
	source.connect(person, endpoint)
	files := watchForPage(h)
	p.run = append(p.run, server.Serve, files.Run,
		func(ctx context.Context) error { return pages.Run(ctx, server.Changes(), files.Changed()) })
	return nil
}

// connect lets the page read the embedded board as it is now.
func (s *pageSource) connect(person board.Identity, endpoint board.Endpoint) {
	o := configuredBoard(s.home)
	o.URL, o.ListID, o.OpenAssignees, o.Consistent, o.Log = endpoint.URL, endpoint.ListID, true, true, s.log
	embeddedBudget(s.home, &o, endpoint)
	o.Token = person.Token
	s.look = slacklist.New(o).Look
}

// openSlackPage opens the page of a Slack List: it shows the snapshot that all
// components share, and writes through the client.
func openSlackPage(h *Home, p *runningPage) error {
	door := newPageDoor(h)
	p.ends = append(p.ends, func() error { return board.RemoveEndpoint(door.path()) })
	if err := durable.Mkdir(h.boardDir()); err != nil {
		return err
	}
	pages := newPages(h, newPageSource(h, p.log), p.log)
	listener, err := loopback.Bind(cmp.Or(h.Config.Board.Listen, board.DefaultListen))
	if err != nil {
		return err
	}
	p.address = "http://" + listener.Addr().String() + "/"
	warnOfPort(h.Streams, h.Config.Board.Listen, p.address)
	at := board.Endpoint{Page: p.address, PID: os.Getpid()}
	if err := at.Write(door.path()); err != nil {
		listener.Close()
		return err
	}
	p.log.Info("page listens", "url", p.address)
	files := watchForPage(h, h.boardDir())
	p.run = append(p.run, files.Run,
		func(ctx context.Context) error {
			return loopback.Serve(ctx, listener, withAPI(h, p.log, pages.Handler()), p.log)
		},
		func(ctx context.Context) error { return pages.Run(ctx, files.Changed()) })
	return nil
}

// withAPI serves the HTTP API beside the page, if this program has one.
func withAPI(h *Home, log *slog.Logger, pages http.Handler) http.Handler {
	if NewAPI == nil {
		return pages
	}
	api := NewAPI(NewBackend(h, log))
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	mux.Handle("/api/otm/", api)
	mux.Handle("/metrics", api)
	return mux
}

func newPages(h *Home, source page.Source, log *slog.Logger) *page.Server {
	return page.New(page.Options{Source: source, Dir: newPageDoor(h).dir(), Log: log, Now: h.Now})
}

// warnOfPort says that the page is on another port than the one asked for.
func warnOfPort(s cli.Streams, asked, address string) {
	_, port, err := net.SplitHostPort(cmp.Or(asked, board.DefaultListen))
	if err != nil || port == "0" {
		return
	}
	if u, err := url.Parse(address); err == nil && u.Port() != port {
		s.Warn("port %s is taken, so the page is at %s", port, address)
	}
}

// watchForPage watches what the page shows beside the rows: histories, files in
// the inboxes, failed files.
func watchForPage(h *Home, more ...string) *watch.Watcher {
	dirs := append(more, filepath.Join(h.Dir, "tasks"), filepath.Join(h.Dir, inbox.FailedDir))
	for _, kind := range inbox.Kinds {
		dirs = append(dirs, h.Box.Dir(kind))
	}
	return watch.New(func(name string) bool { return name == "changed" || strings.HasSuffix(name, ".json") }, dirs...)
}

// pageDoor knows where the page of a data directory is, and makes links to it.
type pageDoor struct{ home *Home }

func newPageDoor(h *Home) pageDoor { return pageDoor{h} }

// dir is the folder of the unused codes.
func (d pageDoor) dir() string { return filepath.Join(d.home.boardDir(), "page") }

// link adds a new code to the page's address.
func (d pageDoor) link(address string) (string, error) {
	code, err := page.NewLink(d.dir(), d.home.Now())
	if err != nil {
		return "", fmt.Errorf("make a link: %w", err)
	}
	return address + "#code=" + code, nil
}

// print prints a new link to the page that another process serves.
func (d pageDoor) print(out io.Writer) error {
	address, err := d.address()
	if err != nil {
		return err
	}
	if address == "" || !answers(address) {
		return cli.Errorf(cli.TryLater, "no page is running").Hint("otm up")
	}
	link, err := d.link(address)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, link)
	return err
}

// address is where the page should be; "" if none was started.
func (d pageDoor) address() (string, error) {
	path := board.EndpointPath(d.home.boardDir())
	if d.home.Config.Slack.ListID != "" {
		path = d.path()
	}
	endpoint, err := board.ReadEndpointAt(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return endpoint.Page, badAddress(d.home, err)
}

// path is the file that says where the page of a Slack List is.
func (d pageDoor) path() string { return filepath.Join(d.home.boardDir(), "page.json") }
