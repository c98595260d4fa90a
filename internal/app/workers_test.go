package app

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/internal/board/boardtest"
	"otm/internal/crash/crashtest"
	"otm/internal/logx"
	"otm/pipeline"
	"otm/pipeline/inbox"
)

// TestPruneProcessed: what is older than keep_processed goes, and nothing else, and
// nothing where it is 0; what cannot be removed stays, which is said.
func TestPruneProcessed(t *testing.T) {
	t.Parallel()
	prune := func(h *Home) string {
		var said bytes.Buffer
		pruneProcessed(h, logx.New(&said, slog.LevelInfo))
		return said.String()
	}
	fill := func(keep string) (h *Home, left func() string) {
		h = newHome(t, fmt.Sprintf("[times]\nkeep_processed = %q\n", keep))
		for name, age := range map[string]time.Duration{"old": 48 * time.Hour, "hours": 5 * time.Hour, "young": time.Hour} {
			at := h.Now().Add(-age)
			path := filepath.Join(h.Dir, inbox.ProcessedDir, name+".json")
			put(t, path, fmt.Sprintf(`{"_result":{"at":%q,"inbox":"new-tasks"}}`, at.UTC().Format(time.RFC3339)))
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
		}
		return h, func() string {
			names, err := h.Box.SettledNames(inbox.ProcessedDir)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Join(names, " ")
		}
	}
	for keep, want := range map[string]string{"24h": "hours.json young.json", "0s": "hours.json old.json young.json", "1000h": "hours.json old.json young.json"} {
		h, left := fill(keep)
		if log := prune(h); left() != want || strings.Contains(log, "drops=1") != (keep == "24h") {
			t.Errorf("keep_processed %s: left %q, logged %s", keep, left(), log)
		}
	}
	crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
		h, left := fill("24h")
		log := ""
		refused, _ := refuse(h.Dir, func() error {
			log = prune(h)
			return nil
		})
		// One that cannot be looked at is looked at again in an hour.
		said := refused.Of("read directory", "") || refused.Of("remove", "")
		gone := !strings.Contains(left(), "old.json")
		if strings.Contains(log, "not removed") != said || gone != strings.Contains(log, "drops=1") || !strings.Contains(left(), "young.json") || !gone && !refused.Came() {
			t.Errorf("refused %q: left %q, logged %s", refused, left(), log)
		}
		if prune(h); left() != "hours.json young.json" {
			t.Errorf("refused %q, again: left %q", refused, left())
		}
	})
}

// TestNewIDWhereTheDiskFails: an id that could not be kept is not given out.
func TestNewIDWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	given := map[pipeline.TaskID]bool{}
	crashtest.Each(t, syscall.EIO, func(refuse crashtest.Refuse) {
		var id pipeline.TaskID
		refused, err := refuse(h.Dir, func() (err error) {
			id, err = h.Counter.TakeOne(t.Context())
			return err
		})
		refused.Told(t, err, refused.Of("write", "/locks/") || refused.Of("read", "/next-task-id")) // known from the lock
		if (id == 0) != (err != nil) || given[id] && id != 0 {
			t.Errorf("refused %q: %v, %v", refused, id, err)
		}
		given[id] = true
	})
}

// TestCounterNotRaised: a counter that could not be raised above the ids on the board
// keeps nobody from the board, is said, and is raised with the next look.
func TestCounterNotRaised(t *testing.T) {
	t.Parallel()
	h, b := slackHome(t)
	b.Create(t, "", boardtest.TextCell(b.Column(t, "Title", ""), "far"), boardtest.TextCell(b.Column(t, "Task ID", ""), "T-00041"))
	look := func() (log string) {
		var said bytes.Buffer
		logger := logx.New(&said, slog.LevelWarn)
		e, err := newEngine(t.Context(), h, "otm", h.board(logger), logger)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Refresh(t.Context(), time.Hour); err != nil {
			t.Error(err)
		}
		return said.String()
	}
	broken := true
	crashtest.Below(t, filepath.Join(h.Dir, "locks", "next-task-id"), func(string, string) error {
		if broken {
			return syscall.EIO
		}
		return nil
	})
	if log := look(); !strings.Contains(log, "counter not raised above the ids on the board") {
		t.Errorf("logged %s", log)
	}
	calls := b.Faults.Count("slackLists.items.list")
	broken = false
	if log := look(); log != "" || b.Faults.Count("slackLists.items.list") != calls {
		t.Errorf("the next look: logged %s, %d calls", log, b.Faults.Count("slackLists.items.list")-calls)
	}
	if id, err := h.Counter.TakeOne(t.Context()); err != nil || id != 42 {
		t.Errorf("the next id is %v, %v", id, err)
	}
}
