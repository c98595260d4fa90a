package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"otm/heartbeat"
	"otm/internal/board"
	"otm/internal/cli"
	"otm/internal/daemon"
	"otm/internal/durable"
	"otm/internal/lock"
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
	close   func() error
}

// serve answers until ctx ends.
func (p *runningPage) serve(ctx context.Context) error {
	g := daemon.NewGroup(ctx)
	for _, run := range p.run {
		g.Go(run)
	}
	return g.Wait()
}

// ended closes a page that was served, and ended with err; where that is nil,
// the error is that of closing.
func (p *runningPage) ended(err error) error {
	if closing := p.close(); err == nil {
		return closing
	}
	return err
}

// openPage opens the page of what is configured.
func (h *Home) openPage(ctx context.Context, o board.Options) (*runningPage, error) {
	if h.Config.Slack.ListID == "" {
		return h.openBoard(ctx, o)
	}
	return h.openSlackPage(ctx)
}

// openBoard opens the embedded board with its page and makes it listen.
func (h *Home) openBoard(ctx context.Context, o board.Options) (p *runningPage, err error) {
	l, log, closeLog, err := h.claimPage(ctx)
	if err != nil {
		return nil, err
	}
	var server *board.Server
	end := func() error {
		var err error
		if server != nil {
			err = server.Close()
		}
		closeLog()
		return errors.Join(err, l.Release())
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	p = &runningPage{close: end}
	source := &pageSource{home: h, live: true, log: log}
	pages, err := h.newPageServer(source, log)
	if err != nil {
		return nil, err
	}
	person := board.Identity{Token: "xoxp-otm-" + strings.ToLower(rand.Text()), UserID: board.HumanUser, Unlimited: true}
	o.Dir, o.Log, o.Now = h.boardDir(), log, h.Now
	o.Identities, o.OwnAgent, o.Page = []board.Identity{person}, slacklist.UserAgent, pages.Handler()
	for _, a := range h.Config.Agents {
		o.Assignees = append(o.Assignees, a.Label)
	}
	o.OnPeopleEdit = func() {
		if err := slacklist.TouchEdited(h.Dir); err != nil {
			log.Warn("edit not announced", "err", err)
		}
	}
	if server, err = board.Open(o); err != nil {
		return nil, err
	}
	endpoint, err := server.Listen()
	if err != nil {
		return nil, err
	}
	h.connectPage(source, server, endpoint, person, log)
	p.address = endpoint.Page
	warnOfPort(h.Streams, o.Listen, p.address)
	files := h.watchForPage()
	p.run = []func(context.Context) error{
		server.Serve,
		files.Run,
		func(ctx context.Context) error { return pages.Run(ctx, server.Changes(ctx), files.Changed()) },
	}
	return p, nil
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

// personWait is how long a person's edit waits for its turn at the board.
const personWait = 20 * time.Second

// connectPage lets the page read the embedded board as it is, and write to it
// as a person.
func (h *Home) connectPage(source *pageSource, server *board.Server, endpoint board.Endpoint, person board.Identity, log *slog.Logger) {
	o := h.boards().configured()
	o.URL, o.ListID, o.OpenAssignees, o.Log = endpoint.URL, endpoint.ListID, true, log
	h.boards().embeddedBudget(&o, endpoint)
	reader := o
	reader.Token = person.Token
	source.look = slacklist.New(reader).Look
	o.Token, o.As, o.LockWait = server.Token(), &slacklist.Person{Token: person.Token, User: person.UserID}, personWait
	source.people = slacklist.New(o)
}

// claimPage takes the lock of the one process that serves the page, and opens
// its log.
func (h *Home) claimPage(ctx context.Context) (*lock.Lock, *slog.Logger, func(), error) {
	l, err := h.residents().take(ctx, heartbeat.Board)
	if err != nil {
		return nil, nil, nil, err
	}
	log, closeLog, err := h.logger(heartbeat.Board, true)
	if err != nil {
		l.Release()
		return nil, nil, nil, err
	}
	return l, log, closeLog, nil
}

func (h *Home) newPageServer(source page.Source, log *slog.Logger) (*page.Server, error) {
	return page.New(page.Options{
		Source: source, Dir: h.pageDir(), Log: log, Now: h.Now,
		Bearer: func() string {
			token, _ := board.ReadToken(h.boardDir()) // none: nobody bears it
			return token
		},
	})
}

// pageDir holds the key of the page's sessions and the unused codes.
func (h *Home) pageDir() string { return filepath.Join(h.boardDir(), "page") }

// openSlackPage opens the page of a Slack List: it shows the snapshot that all
// components share, and writes through the client.
func (h *Home) openSlackPage(ctx context.Context) (p *runningPage, err error) {
	l, log, closeLog, err := h.claimPage(ctx)
	if err != nil {
		return nil, err
	}
	end := func() error {
		closeLog()
		return errors.Join(h.forgetPage(), l.Release())
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	p = &runningPage{close: end}
	if err := durable.Mkdir(h.boardDir()); err != nil {
		return nil, err
	}
	look := func(context.Context) (*slacklist.Snapshot, error) { return h.snapshot() }
	pages, err := h.newPageServer(&pageSource{home: h, look: look, people: h.board(log), log: log}, log)
	if err != nil {
		return nil, err
	}
	listener, err := board.Bind(h.Config.Board.Listen)
	if err != nil {
		return nil, err
	}
	p.address = "http://" + listener.Addr().String() + "/"
	warnOfPort(h.Streams, h.Config.Board.Listen, p.address)
	if err := h.announcePage(p.address); err != nil {
		listener.Close()
		return nil, err
	}
	log.Info("page listens", "url", p.address)
	files := h.watchForPage(h.boardDir())
	p.run = []func(context.Context) error{
		func(ctx context.Context) error { return board.ServeHTTP(ctx, listener, pages.Handler(), log) },
		files.Run,
		func(ctx context.Context) error { return pages.Run(ctx, files.Changed()) },
	}
	return p, nil
}

// watchForPage watches what the page shows beside the rows: histories, what
// waits in the inboxes, what failed.
func (h *Home) watchForPage(more ...string) *watch.Watcher {
	dirs := append(more, filepath.Join(h.Dir, "tasks"), filepath.Join(h.Dir, inbox.FailedDir))
	for _, kind := range inbox.Kinds {
		dirs = append(dirs, h.Box.Dir(kind))
	}
	return watch.New(func(name string) bool { return name == "changed" || strings.HasSuffix(name, ".json") }, dirs...)
}

// announcement is board/page.json: where the page of a Slack List is.
type announcement struct {
	Page string `json:"page"`
	PID  int    `json:"pid"`
}

func (h *Home) announcementPath() string { return filepath.Join(h.boardDir(), "page.json") }

func (h *Home) announcePage(address string) error {
	data, _ := json.Marshal(announcement{Page: address, PID: os.Getpid()}) // never fails
	return durable.Replace(h.announcementPath(), append(data, '\n'))
}

func (h *Home) forgetPage() error {
	err := durable.Remove(h.announcementPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// link adds a new code to the page's address.
func (h *Home) link(address string) (string, error) {
	code, err := page.NewLink(h.pageDir(), h.Now())
	if err != nil {
		return "", fmt.Errorf("make a link: %w", err)
	}
	return address + "#code=" + code, nil
}

// printLink prints a new address for the page that another process serves.
func (h *Home) printLink() error {
	address, err := h.pageAddress()
	if err != nil {
		return err
	}
	if address == "" || !answers(address) {
		return cli.Errorf(cli.TryLater, "no page is running").Hint("otm up")
	}
	link, err := h.link(address)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(h.Out, link)
	return err
}

// pageAddress says where the page should be; "" where none was started.
func (h *Home) pageAddress() (string, error) {
	if h.Config.Slack.ListID == "" {
		endpoint, err := board.ReadEndpoint(h.boardDir())
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return endpoint.Page, h.boards().badAddress(err)
	}
	data, err := durable.ReadFile(h.announcementPath())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var a announcement
	if err := json.Unmarshal(data, &a); err != nil {
		return "", h.boards().badAddress(fmt.Errorf("read %q: %w", h.announcementPath(), err))
	}
	return a.Page, nil
}
