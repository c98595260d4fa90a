package app

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"otm/core/store"
	"otm/internal/board"
	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/internal/crash/crashtest"
	"otm/internal/lock"
	"otm/internal/page"
	"otm/pipeline/inbox"
	"otm/slacklist"
)

// pageOf is the page of a Slack List without its server, so that nothing else looks.
func pageOf(h *Home) *pageSource { return newPageSource(h, slog.New(slog.DiscardHandler)) }

// newReviewed is newBusy whose task with two steps waits for a person.
func newReviewed(t *testing.T) (p *patient, row, step string) {
	t.Helper()
	p = newBusy(t)
	p.must("otm-injector", "--once") // what waits does not, as it would contradict some of what is done
	task := stateOf(t, p.h, 2)
	p.edit(task.RowID, boardtest.SelectCell(p.b.Column(t, "Status", "select"), "agent_done"))
	p.look()
	return p, task.RowID, task.Steps[0].RowID
}

var mended = regexp.MustCompile(`T-\d+ Mended`)

// TestPageEditsWhereTheDiskFails: wherever in this package's code the disk refuses
// what a person does, he is told, and whether the board has it; done again, it comes
// to where it would have come.
func TestPageEditsWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]func(row, step string) page.Action{
		"edit": func(row, _ string) page.Action {
			return page.Action{Do: "edit", Row: row, Status: "cancelled", Priority: "high"}
		},
		"send back": func(row, _ string) page.Action { return page.Action{Do: "rework", Row: row, Reason: "tests"} },
		"tick":      func(_, step string) page.Action { return page.Action{Do: "tick", Row: step, Done: true} },
		"retry":     func(string, string) page.Action { return page.Action{Do: "retry", Name: "bad.json"} },
		"renumber":  func(string, string) page.Action { return page.Action{Do: "retry", Name: "bad.json", NewID: true} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, row, step := newReviewed(t)
			if _, err := pageOf(whole.h).Do(t.Context(), action(row, step)); err != nil {
				t.Fatal(err)
			}
			outcome := func(p *patient) string { return mended.ReplaceAllString(p.outcome(), "Mended") } // under which new id, is no matter
			want := outcome(whole)
			crashtest.EachOwnPlace(t, syscall.EIO, "otm/internal/app", func(refuse crashtest.Refuse) {
				p, row, step := newReviewed(t)
				a := action(row, step)
				o := slacklist.Options{Dir: p.h.Dir, URL: p.b.URL, ListID: p.b.ListID, Token: p.b.Token}
				at := func() string {
					r, s := rowOf(t, o, row), rowOf(t, o, step)
					return fmt.Sprint(r.Status, r.Priority, r.Reason, s.StepDone())
				}
				was := at()
				refused, err := refuse(p.h.Dir, func() error {
					_, err := pageOf(p.h).Do(t.Context(), a)
					return err
				})
				changed := at() != was
				told := err != nil && strings.Contains(err.Error(), syscall.EIO.Error())
				// Whose a lock is, is for people; marks are marks, a snapshot is made anew, what
				// explained a drop that was put back is nobody's, and the next look raises the counter.
				silent := refused.Of("write", "/locks/") || refused.Of("read", "/next-task-id") || refused.Of("stat", "/board/") || refused.Of("remove", ".error.json")
				if told != refused.Came() && !silent {
					t.Errorf("refused %q: %v", refused, err)
				}
				if err != nil && changed != strings.Contains(err.Error(), "stands on the board") {
					t.Errorf("refused %q: changed %t: %v", refused, changed, err)
				}
				stored := err != nil && strings.Contains(err.Error(), "it is done, and the board may not show it yet")
				var no *page.Refusal
				if _, again := pageOf(p.h).Do(t.Context(), a); again != nil && !(errors.As(again, &no) && (changed || stored || a.Do == "retry")) {
					t.Errorf("refused %q, again: %v", refused, again)
				}
				if got := outcome(p); got != want {
					t.Errorf("refused %q: %v: it comes to\n%s\nwant\n%s", refused, err, got, want)
				}
			})
		})
	}
}

// TestPageCreateWhereTheDiskFails: whoever is refused a new task has none, unless all
// that failed was to keep its name for ever, and the next one gets an id of its own.
func TestPageCreateWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	crashtest.EachOwnPlace(t, syscall.EIO, "otm/internal/app", func(refuse crashtest.Refuse) {
		h, _ := slackHome(t)
		a := page.Action{Do: "create", Title: "new", Agent: "devdas"}
		refused, err := refuse(h.Dir, func() error {
			_, err := pageOf(h).Do(t.Context(), a)
			return err
		})
		refused.Told(t, err, refused.Of("write", "/locks/")) // whose a lock is, is for people
		named := refused.Of("renamed", "/new-tasks/") || refused.Of("sync directory", "/new-tasks")
		files, listed := h.Box.List(inbox.NewTasks)
		if listed != nil || (len(files) == 1) != (err == nil || named) {
			t.Errorf("refused %q: %v; %d files, %v", refused, err, len(files), listed)
		}
		answer, err := pageOf(h).Do(t.Context(), a)
		if again, listed := h.Box.List(inbox.NewTasks); err != nil || answer.ID == "" || listed != nil || len(again) != len(files)+1 {
			t.Errorf("refused %q, again: %v; %d files, %v", refused, err, len(again), listed)
		}
	})
}

// TestPageShowsWhereTheDiskFails: what cannot be read is told, and never shown as
// nothing.
func TestPageShowsWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	p, row, _ := newReviewed(t)
	typed := p.b.Create(t, "", boardtest.TextCell(p.b.Column(t, "Title", "text"), "typed"))
	over := stateOf(t, p.h, 1)
	p.edit(over.RowID, boardtest.TextCell(p.b.Column(t, "Task ID", "text"), ""))
	p.look()
	whole, err := pageOf(p.h).State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, show := range map[string]func(*pageSource) error{
		"a task":               func(s *pageSource) error { _, err := s.Detail(t.Context(), row); return err },
		"a typed row":          func(s *pageSource) error { _, err := s.Detail(t.Context(), typed); return err },
		"a row without its id": func(s *pageSource) error { _, err := s.Detail(t.Context(), over.RowID); return err },
		"the board": func(s *pageSource) error {
			state, err := s.State(t.Context())
			if err == nil && (len(state.Tasks) != len(whole.Tasks) || !maps.Equal(state.Inbox, whole.Inbox)) {
				t.Errorf("it shows %+v", state)
			}
			return err
		},
	} {
		crashtest.EachOwnPlace(t, syscall.EIO, "otm/internal/app otm/internal/view otm/internal/why", func(refuse crashtest.Refuse) {
			refused, err := refuse(p.h.Dir, func() error { return show(pageOf(p.h)) })
			// What is said of others is said without what cannot be read: heartbeats, who runs, drops that may
			// have been settled meanwhile.
			silent := refused.Of("read", "-state.json") || refused.Of("read", "/new-tasks/") || refused.Of("read", "/failed/") || refused.Of("read", "/locks/")
			refused.Told(t, err, silent)
		})
	}
}

// TestPageDetailOdd: where the store does not have the task, all but the history is
// shown; where the store is damaged, that is told, and its file named. A step has no
// details of its own.
func TestPageDetailOdd(t *testing.T) {
	t.Parallel()
	p, row, step := newReviewed(t)
	path := filepath.Join(p.h.Dir, store.FileName)
	if _, err := pageOf(p.h).Detail(t.Context(), step); !errors.Is(err, errGone) {
		t.Errorf("a step: %v", err)
	}
	emptyStore(t, p.h)
	if d, err := pageOf(p.h).Detail(t.Context(), row); err != nil || d.Why == "" || len(d.History) > 0 {
		t.Errorf("no task: %+v, %v", d, err)
	}
	emptyStore(t, p.h)
	put(t, path, strings.Repeat("garbage ", 1000))
	if d, err := pageOf(p.h).Detail(t.Context(), row); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a damaged store: %+v, %v", d, err)
	}
}

// TestLinkWhereThePageIsOdd: where the file that tells where the page is says nothing
// of use, or nobody is there, otm board --link tells what starts one.
func TestLinkWhereThePageIsOdd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, says string }{
		"empty":      {"", "unexpected end of JSON input"},
		"cut":        {`{"url":"http://127.0.`, "unexpected end of JSON input"},
		"NUL":        {"\x00\x00\x00\x00", "invalid character"},
		"other type": {`{"page":7,"url":7}`, "cannot unmarshal number"},
		"no address": {`{}`, "no page is running"},
		"no URL":     {`{"page":":","url":":"}`, "no page is running"},
		"gone":       {"gone", "no page is running"},
		"dead":       {`{"page":"http://127.0.0.1:1/","url":"http://127.0.0.1:1/"}`, "no page is running"},
	} {
		slack, _ := slackHome(t)
		embedded := newHome(t, "")
		for path, h := range map[string]*Home{newPageDoor(slack).path(): slack, filepath.Join(embedded.boardDir(), "endpoint.json"): embedded} {
			if put(t, path, c.text); c.text == "gone" {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			err := newPageDoor(h).print(h.Out)
			var e *cli.Error
			if !errors.As(err, &e) || e.Code != cli.TryLater || !strings.Contains(e.Error(), c.says) || len(e.Hints) == 0 || !strings.HasPrefix(e.Hints[0], "otm up") {
				t.Errorf("%s: %s: %v, %+v", name, path, err, e)
			}
			if c.says != "no page is running" && !strings.Contains(err.Error(), path) {
				t.Errorf("%s: it does not name %s: %v", name, path, err)
			}
			// That it may not be read is another matter.
			crashtest.Below(t, path, func(string, string) error { return syscall.EACCES })
			if err := newPageDoor(h).print(h.Out); !errors.Is(err, fs.ErrPermission) || Explain(err) == nil || !strings.HasPrefix(Explain(err).Hints[0], "ls -ld ") {
				t.Errorf("%s: it may not be read: %v", name, err)
			}
		}
	}
}

// TestLinkWhereTheDiskFails: a link that cannot be kept is not printed.
func TestLinkWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	var out bytes.Buffer
	h.Out = &out
	v := visit(t, h, board.Options{})
	crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
		out.Reset()
		refused, err := refuse(newPageDoor(h).dir(), func() error { return newPageDoor(h).print(h.Out) })
		refused.Told(t, err, false)
		if err != nil && (out.Len() > 0 || !strings.Contains(err.Error(), "make a link")) {
			t.Errorf("refused %q: %v, printed %q", refused, err, &out)
		}
	})
	_, code, _ := strings.Cut(strings.TrimSpace(out.String()), "#code=")
	if status, body := v.post("/page/session", map[string]string{"code": code}); status != http.StatusOK {
		t.Errorf("the last link: status %d, %s", status, body)
	}
	h.Out = &fullAfter{}
	if err := newPageDoor(h).print(h.Out); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a link that could not be printed: %v", err)
	}
}

// TestEmbeddedBoardOdd: whatever is wrong with the files that tell where the embedded
// board is and what opens it, each run says so, with what mends it.
func TestEmbeddedBoardOdd(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	there := fmt.Sprintf(`{"url":"http://%s/api/","listId":"F0123456789"}`, listener.Addr())
	const gone, starts = "gone", "otm up"
	for name, c := range map[string]struct {
		endpoint, token string
		code            int
		says, hint      string
	}{
		"fine":              {endpoint: there, token: "xoxb-1"},
		"no board":          {gone, "xoxb-1", cli.TryLater, "no embedded board is running", starts},
		"empty address":     {"", "xoxb-1", cli.TryLater, "unexpected end of JSON input", starts},
		"cut address":       {there[:20], "xoxb-1", cli.TryLater, "unexpected end of JSON input", starts},
		"address of a file": {`{"url":"file:///etc/passwd"}`, "xoxb-1", cli.TryLater, "the address of the board: ", starts},
		"nobody there":      {`{"url":"http://127.0.0.1:1/api/"}`, "xoxb-1", cli.TryLater, "no embedded board is running", "otm board"}, // something holds its lock: otm up is refused
		"no token":          {there, gone, cli.Credentials, "token of the embedded board", starts},
		"empty token":       {there, "", cli.Credentials, "holds no token: remove it", starts},
		"NUL token":         {there, "\x00\x00", cli.Credentials, "holds no token: remove it", starts},
	} {
		h := newHome(t, "")
		for file, text := range map[string]string{"endpoint.json": c.endpoint, "token": c.token} {
			if text != gone {
				put(t, filepath.Join(h.boardDir(), file), text)
			}
		}
		if c.endpoint != gone {
			if _, err := findBoard(h); name == "fine" && !errors.Is(err, errNoBoard) {
				t.Errorf("the board of another directory, of which this one is a copy: %v", err)
			}
			runs, err := lock.AcquireIn(t.Context(), h.boardDir(), board.LockPath(h.boardDir()), 0)
			if err != nil {
				t.Fatal(err)
			}
			defer runs.Release()
		}
		_, err := findBoard(h)
		if c.code == cli.OK {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var e *cli.Error
		if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(e.Error(), c.says) || len(e.Hints) == 0 || !strings.HasPrefix(e.Hints[0], c.hint) {
			t.Errorf("%s: %v, %+v", name, err, e)
		}
		if _, err := h.board(nil).Begin(t.Context()); exitCode(err) != c.code {
			t.Errorf("%s: a run ends with %v", name, err)
		}
	}
	// That it may not be read is another matter.
	h := newHome(t, "")
	crashtest.Below(t, h.boardDir(), func(string, string) error { return syscall.EACCES })
	if _, err := findBoard(h); !errors.Is(err, fs.ErrPermission) || exitCode(err) != cli.Failed {
		t.Errorf("an address that may not be read: %v", err)
	}
}
