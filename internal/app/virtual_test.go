package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/core"
	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/submit"
	"otm/pipeline"
	"otm/pipeline/inbox"
	"otm/slacklist"
)

// virtual is a data directory whose board is far away, with the injector, the
// dispatcher and the completion detector as otm up runs them, in virtual time.
// What they hint to each other by events of the file system goes by channels,
// as time stands still in a bubble while anybody waits for the kernel.
type virtual struct {
	*testing.T
	h     *Home
	far   *farSlack
	board *boardSource
	hints map[string]chan struct{} // by component
	heed  func() bool              // whether the injector wants to know of changes of the board
}

// epoch is when virtual time begins: before today, so that no file seems to be
// old which was made just now.
var epoch = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// newVirtual is to be called in a bubble.
func newVirtual(t *testing.T, rowLimit int, agents ...string) *virtual {
	t.Helper()
	time.Sleep(time.Until(epoch))
	root := t.TempDir()
	v := &virtual{T: t, far: newFarSlack(t, root, rowLimit, agents), hints: map[string]chan struct{}{}}
	dir := filepath.Join(root, "data")
	if _, err := Init(dir); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("[slack]\nlist_id = %q\napi_url = \"http://127.0.0.1:9/api/\"\n", v.far.ListID())
	for _, name := range agents {
		ws := filepath.Join(root, name)
		if err := os.Mkdir(ws, 0o700); err != nil {
			t.Fatal(err)
		}
		config += fmt.Sprintf("[agents.%s]\nworkspace = %q\ntrigger = \"none\"\n", name, ws)
	}
	put(t, filepath.Join(dir, "otm.toml"), config)
	var err error
	if v.h, err = OpenHome(v.streams(io.Discard, io.Discard, dir), ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.h.Close() })
	v.board = v.h.board(slog.New(slog.DiscardHandler))
	return v
}

func (v *virtual) streams(out, err io.Writer, dir string) cli.Streams {
	env := map[string]string{"OTM_DIR": dir, "SLACK_BOT_TOKEN": v.far.Token()}
	return cli.Streams{Out: out, Err: err, In: strings.NewReader(""), Getenv: func(name string) string { return env[name] }}
}

// up runs the components until stop is called.
func (v *virtual) up() (stop func()) {
	ctx, cancel := context.WithCancel(v.Context())
	log := slog.New(slog.DiscardHandler)
	var loops sync.WaitGroup
	var stops []func()
	for _, k := range kinds {
		c, err := newComponent(ctx, v.h, v.board, log, k, DefaultEvery, true)
		if err != nil {
			v.Fatal(err)
		}
		if stops = append(stops, c.stop); c.heed != nil {
			v.heed = c.heed
		}
		hints := make(chan struct{}, 1)
		v.hints[c.id], c.events, c.hints = hints, hints, boardHints(v.h.boardDir())
		loops.Go(func() {
			if err := c.Resident(ctx); err != nil {
				v.Error(err)
			}
		})
	}
	loops.Go(func() { v.tellOfChanges(ctx, heartbeat.Injector) })
	return func() {
		cancel()
		loops.Wait()
		for _, stop := range stops {
			stop()
		}
	}
}

// tellOfChanges does what the watchers of board/changed do. There is nothing to
// see but within the time of a batch after a call.
func (v *virtual) tellOfChanges(ctx context.Context, injector string) {
	const look = 200 * time.Millisecond
	var seen time.Time
	for looks := 0; ; looks-- {
		if looks == 0 {
			select {
			case <-ctx.Done():
				return
			case <-v.far.called:
			}
			looks = int((slacklist.BatchTime + 5*time.Second) / look)
		}
		time.Sleep(look)
		select {
		case <-v.far.called:
			looks = int((slacklist.BatchTime + 5*time.Second) / look)
		default:
		}
		info, err := os.Stat(filepath.Join(v.h.boardDir(), "changed"))
		if err != nil || info.ModTime().Equal(seen) {
			continue
		}
		seen = info.ModTime()
		for id, hints := range v.hints {
			if id != injector || v.heed() {
				nudge(hints)
			}
		}
	}
}

func nudge(hints chan<- struct{}) {
	select {
	case hints <- struct{}{}:
	default:
	}
}

// create is otm-create; it returns the ids.
func (v *virtual) create(args ...string) []pipeline.TaskID {
	var ids []pipeline.TaskID
	for word := range strings.FieldsSeq(v.submit("otm-create", inbox.NewTasks, args...)) {
		id, err := pipeline.ParseTaskID(word)
		if err != nil {
			v.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// update is otm-update.
func (v *virtual) update(id pipeline.TaskID, args ...string) {
	v.submit("otm-update", inbox.TaskUpdates, append([]string{"--task-id", id.String()}, args...)...)
}

// submit drops something at this moment of virtual time.
func (v *virtual) submit(name string, kind inbox.Kind, args ...string) string {
	var out, said bytes.Buffer
	make := submit.Create
	if kind == inbox.TaskUpdates {
		make = submit.Update
	}
	c := make(name, "", v.streams(&out, &said, v.h.Dir), args)
	c.SetArgs(args)
	c.SilenceUsage, c.SilenceErrors = true, true
	if err := c.ExecuteContext(v.Context()); err != nil {
		v.Errorf("%s %q: %v %s", name, args, err, &said)
	}
	v.backdate(v.h.Box.Dir(kind))
	nudge(v.hints["otm-injector"])
	return out.String()
}

// backdate gives the files that have just come the time that it is here.
func (v *virtual) backdate(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		v.Fatal(err)
	}
	now := time.Now()
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().After(now) {
			os.Chtimes(filepath.Join(dir, e.Name()), now, now) // where it has gone already, there is nothing to date
		}
	}
}

// stored is a task as the store has it; nil where it has none yet.
func (v *virtual) stored(id pipeline.TaskID) *core.Task {
	s, err := v.h.OpenStore(v.Context())
	if err != nil {
		v.Fatal(err)
	}
	t, err := s.Task(v.Context(), id)
	if err != nil && !errors.Is(err, core.ErrNoTask) {
		v.Fatal(err)
	}
	return t
}

// statusOf is the status of a task; "" where there is none yet.
func (v *virtual) statusOf(id pipeline.TaskID) pipeline.Status {
	t := v.stored(id)
	if t == nil {
		return ""
	}
	return t.Status
}

// events is what happened to a task.
func (v *virtual) events(id pipeline.TaskID) []core.Event {
	s, err := v.h.OpenStore(v.Context())
	if err != nil {
		v.Fatal(err)
	}
	events, err := s.Events(v.Context(), core.EventFilter{Task: id, Archived: true})
	if err != nil {
		v.Fatal(err)
	}
	return events
}
