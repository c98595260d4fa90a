package app

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"otm/heartbeat"
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
	for _, id := range append([]string{boardID}, heartbeat.Components...) {
		if h.isResident(id) {
			left = append(left, "the lock of "+id)
		}
	}
	if address := "http://" + h.Config.Board.Listen + "/"; answers(address) {
		left = append(left, "a listener")
	}
	err := filepath.WalkDir(h.Dir, func(path string, d fs.DirEntry, err error) error {
		temp := strings.HasPrefix(d.Name(), durable.TempPrefix) && !strings.Contains(d.Name(), "probe") // those are cleared away later
		if err == nil && (temp || path == h.announcementPath() || d.Name() == "endpoint.json") {
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
			crashtest.EachPlace(t, syscall.EIO, "otm/internal/app", func(refuse crashtest.Refuse) {
				h := listenAt(t, newHome(t, c.config), quietAddress(t))
				put(t, filepath.Join(h.Dir, "secrets", "slack"), slack.Token)
				var code int
				var out, said string
				refused, _ := refuse(h.Dir, func() error {
					code, out, said = stay(t, h.Dir, c.argv...)
					return nil
				})
				told, link := strings.Contains(said, syscall.EIO.Error()), refused.Of("stat", "/board/page")
				// Once it printed where it is, it was told to stop: a run that failed then was
				// given up. Logs are for people.
				run := out != "" && c.argv[1] == "up" && !refused.Of("stat", "/logs") && !refused.Of("open", ".resident") && !link && !refused.Of("remove", "/board/")
				if told != refused.Came() && !run && !refused.Of("write", ".log") || (code == cli.OK) != (!told || link) {
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
