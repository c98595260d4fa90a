package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"otm/heartbeat"
	"otm/internal/board"
	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/internal/crash/crashtest"
	"otm/internal/daemon"
	"otm/internal/durable"
)

// quietAddress is one that nobody has, and that no system gives out by itself.
func quietAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 10_000+rand.N(20_000)))
		if err == nil {
			l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("every address is taken")
	return ""
}

// listenAt has the page of a directory listen at an address.
func listenAt(t *testing.T, h *Home, address string) *Home {
	t.Helper()
	config := content(t, filepath.Join(h.Dir, "otm.toml"))
	return reopenHome(t, h.Dir, strings.Replace(config, "127.0.0.1:0", address, 1))
}

// stopping ends a context with the first word that is written.
type stopping struct {
	bytes.Buffer
	stop context.CancelCauseFunc
}

func (s *stopping) Write(p []byte) (int, error) {
	s.stop(daemon.ErrStop)
	return s.Buffer.Write(p)
}

// stay runs a command as its main does, until it prints or ends by itself.
func stay(t *testing.T, dir string, argv ...string) (code int, out, said string) {
	t.Helper()
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	o, e := &stopping{stop: stop}, &bytes.Buffer{}
	env := map[string]string{"OTM_DIR": dir, "HOME": filepath.Dir(dir)}
	s := cli.Streams{In: strings.NewReader(""), Out: o, Err: e, Getenv: func(name string) string { return env[name] }}
	code = cli.Run(ctx, commandNamed(argv[0], s, argv[1:]), argv[1:], s, Explain)
	return code, o.String(), e.String()
}

// traces is what a page and the components left behind that should have ended.
func traces(t *testing.T, h *Home) (left []string) {
	t.Helper()
	for _, id := range append([]string{heartbeat.Board}, heartbeat.Components...) {
		if isResident(h, id) {
			left = append(left, "the lock of "+id)
		}
	}
	if address := "http://" + h.Config.Board.Listen + "/"; answers(address) {
		left = append(left, "a listener")
	}
	err := filepath.WalkDir(h.Dir, func(path string, d fs.DirEntry, err error) error {
		temp := strings.HasPrefix(d.Name(), durable.TempPrefix) && !strings.Contains(d.Name(), "probe") // those are cleared away later
		if err == nil && (temp || path == newPageDoor(h).path() || d.Name() == "endpoint.json") {
			left = append(left, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// TestPageStartsWhereTheDiskFails: wherever in this package's code the disk refuses
// what stays, from its start to its end, that is told, nothing of it is left, and it
// starts the next time at the same address.
func TestPageStartsWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	slack := boardtest.Start(t)
	for name, c := range map[string]struct {
		config string
		argv   []string
	}{
		"board":         {"", []string{"otm", "board"}},
		"up":            {"", []string{"otm", "up"}},
		"up with Slack": {fmt.Sprintf("[slack]\nlist_id = %q\napi_url = %q\ntoken_file = \"secrets/slack\"\n", slack.ListID, slack.URL), []string{"otm", "up"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashtest.EachOwnPlace(t, syscall.EIO, "otm/internal/app", func(refuse crashtest.Refuse) {
				h := listenAt(t, newHome(t, c.config), quietAddress(t))
				put(t, filepath.Join(h.Dir, "secrets", "slack"), slack.Token)
				var code int
				var out, said string
				refused, _ := refuse(h.Dir, func() error {
					code, out, said = stay(t, h.Dir, c.argv...)
					return nil
				})
				told, link := strings.Contains(said, syscall.EIO.Error()), strings.HasPrefix(said, "otm: warning: make a link: ")
				// Once it printed where it is, it was told to stop: a run that failed then was
				// given up. Logs are for people, and so is whose a lock is.
				run := out != "" && c.argv[1] == "up" && !link && !refused.Of("stat", "/logs") && !refused.Of("open", ".resident") &&
					!refused.Of("remove", "endpoint.json") && !refused.Of("remove", "page.json")
				atEnd := out != "" && refused.Of("read", "/format") // whether the directory is still there
				silent := run || atEnd || refused.Of("write", ".log") || refused.Of("write", "/locks/")
				if told != refused.Came() && !silent || (code == cli.OK) != (!told || link) || link && strings.Contains(out, "#") {
					t.Errorf("refused %q: exit %d: %s%s", refused, code, out, said)
				}
				if left := traces(t, h); len(left) > 0 && !(refused.Of("remove", left[0]) && told) {
					t.Errorf("refused %q: it left %q", refused, left)
				}
				code, out, said = stay(t, h.Dir, c.argv...)
				if code != cli.OK || !strings.HasPrefix(out, "http://"+h.Config.Board.Listen+"/#code=") || said != "" {
					t.Errorf("refused %q, again: exit %d: %s%s", refused, code, out, said)
				}
			})
		})
	}
}

// TestPageNotAnnounced: a file that tells where the page is, and is not known to stay,
// goes with the listener.
func TestPageNotAnnounced(t *testing.T) {
	t.Parallel()
	slack, _ := slackHome(t)
	for _, h := range []*Home{slack, newHome(t, "")} {
		for _, step := range []string{"renamed", "sync directory"} {
			h.Config.Board.Listen = quietAddress(t)
			named := false
			crashtest.Below(t, h.boardDir(), func(now, path string) error {
				named = named || now == "renamed" && (strings.HasSuffix(path, "endpoint.json") || path == newPageDoor(h).path())
				if !named || now != step {
					return nil
				}
				named = false
				return syscall.EIO
			})
			if p, err := openPage(t.Context(), h, board.Options{Listen: h.Config.Board.Listen}, h.Config.Slack.ListID == ""); p != nil || !errors.Is(err, syscall.EIO) {
				t.Fatalf("%s refused: %v", step, err)
			}
			if left := traces(t, h); len(left) > 0 {
				t.Errorf("%s refused: it left %q", step, left)
			}
		}
	}
}

// TestPageAddress: where the address is taken, the page is at the next one, and says
// so; where none can be had, that is told, and nothing is left.
func TestPageAddress(t *testing.T) {
	t.Parallel()
	slack, _ := slackHome(t)
	for _, h := range []*Home{slack, newHome(t, "")} {
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		h.Config.Board.Listen = taken.Addr().String()
		p, err := openPage(t.Context(), h, board.Options{Listen: h.Config.Board.Listen}, h.Config.Slack.ListID == "")
		if err != nil {
			t.Fatal(err)
		}
		address, err := newPageDoor(h).address()
		if err != nil || address != p.address || !answers(address) || strings.Contains(address, h.Config.Board.Listen) {
			t.Errorf("it is said to be at %q, and is at %q; %v", address, p.address, err)
		}
		stopped, stop := context.WithCancel(t.Context())
		stop()
		if err := p.ended(p.serve(stopped)); err != nil {
			t.Error(err)
		}
		for _, bad := range []string{"127.0.0.1:99999", "nonsense", "192.0.2.1:18780"} {
			h.Config.Board.Listen = bad
			p, err := openPage(t.Context(), h, board.Options{Listen: bad}, h.Config.Slack.ListID == "")
			if p != nil || err == nil || !strings.Contains(err.Error(), bad) {
				t.Errorf("%s: %v", bad, err)
			}
			h.Config.Board.Listen = address
			if left := traces(t, h); len(left) > 0 {
				t.Errorf("%s: it left %q", bad, left)
			}
		}
	}
}

// TestLogNotOpened: what stays and cannot open its log ends, names it, and leaves
// nothing; what runs once needs none.
func TestLogNotOpened(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		log  string
		argv []string
		once bool
	}{
		{heartbeat.Board, []string{"otm", "up"}, false},
		{heartbeat.Injector, []string{"otm", "up"}, false},
		{heartbeat.Dispatcher, []string{"otm", "up"}, false},
		{heartbeat.Detector, []string{"otm", "up"}, false},
		{heartbeat.Board, []string{"otm", "board"}, false},
		{heartbeat.Injector, []string{"otm-injector"}, false},
		{heartbeat.Dispatcher, []string{"otm-dispatcher", "--every", "1m"}, false},
		{heartbeat.Detector, []string{"otm-completion-detector", "--every", "1m"}, false},
		{heartbeat.Injector, []string{"otm-injector", "--once"}, true},
		{heartbeat.Dispatcher, []string{"otm-dispatcher"}, true},
	} {
		h := listenAt(t, newHome(t, ""), quietAddress(t))
		path := filepath.Join(h.LogDir(), c.log+".log")
		put(t, filepath.Join(path, "in its place"), "")
		want := cli.Failed
		if c.once {
			want = cli.TryLater // no board runs
		}
		code, out, said := stay(t, h.Dir, c.argv...)
		if code != want || strings.Contains(said, path) == c.once {
			t.Errorf("%q without %s.log: exit %d: %s%s", c.argv, c.log, code, out, said)
		}
		if left := traces(t, h); len(left) > 0 {
			t.Errorf("%q without %s.log: it left %q", c.argv, c.log, left)
		}
	}
}

// TestResidentsRefuse: what is asked of what stays and cannot be is refused, with a
// command that can be, and nothing is written.
func TestResidentsRefuse(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	for _, c := range []struct {
		dir  string
		argv []string
		code int
		says []string
	}{
		{h.Dir, []string{"otm-injector", "--sweep-every", "1ms"}, cli.Usage, []string{"--sweep-every 1ms: at least 100ms", "hint: --sweep-every 2m0s"}},
		{h.Dir, []string{"otm-dispatcher", "--every", "-1s"}, cli.Usage, []string{"--every -1s: at least 100ms", "hint: --every 2m0s"}},
		{h.Dir, []string{"otm-completion-detector", "--every", "0s"}, cli.Usage, []string{"--every 0s: at least 100ms", "hint: --every 2m0s"}},
		{h.Dir, []string{"otm", "board", "--row-limit", "-1"}, cli.Usage, []string{"--row-limit -1 is negative", "hint: otm board --row-limit 1000"}},
		{h.Dir, []string{"otm", "board", "--limits", "hard"}, cli.Usage, []string{`--limits "hard": only slack is known`, "hint: otm board --limits slack"}},
		{t.TempDir(), []string{"otm", "up"}, cli.NotInit, []string{"hint: otm init"}},
		{t.TempDir(), []string{"otm", "board"}, cli.NotInit, []string{"hint: otm init"}},
		{t.TempDir(), []string{"otm-injector"}, cli.NotInit, []string{"hint: otm init"}},
		{t.TempDir(), []string{"otm-dispatcher"}, cli.NotInit, []string{"hint: otm init"}},
	} {
		before := tree(t, c.dir)
		code, out, said := stay(t, c.dir, c.argv...)
		if code != c.code || out != "" {
			t.Errorf("%q: exit %d: %s%s", c.argv, code, out, said)
		}
		for _, words := range c.says {
			if !strings.Contains(said, words) {
				t.Errorf("%q: %s lacks %q", c.argv, said, words)
			}
		}
		if after := tree(t, c.dir); !slices.Equal(after, before) {
			t.Errorf("%q: it left %q", c.argv, after)
		}
	}
	nowhere := cli.Streams{Getenv: func(string) string { return "" }}
	if _, err := OpenHome(nowhere, ""); exitCode(err) != cli.BadConfig || Explain(err) == nil || !strings.HasPrefix(Explain(err).Hints[0], "export OTM_DIR=") {
		t.Errorf("without a home: %v", err)
	}
}

// tree is what stands below a directory.
func tree(t *testing.T, dir string) (paths []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return paths
}
