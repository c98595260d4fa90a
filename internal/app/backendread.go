package app

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"otm/core"
	"otm/internal/view"
	"otm/internal/why"
	"otm/pipeline"
	"otm/slacklist"
)

// sharedSnapshot is the board as it was last read, for many readers: its file is read once.
type sharedSnapshot struct {
	mu    sync.Mutex
	stamp string // of the file; "": it was not read
	last  *slacklist.Snapshot
}

func (s *sharedSnapshot) read(h *Home) (*slacklist.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, _ := os.Stat(filepath.Join(h.boardDir(), "snapshot.json")) // absent: the board was not read yet
	stamp := stampOf(info)
	if s.stamp == stamp {
		return s.last, nil
	}
	snap, err := slacklist.ReadSnapshot(h.Dir)
	if err == nil {
		s.stamp, s.last = stamp, snap
	}
	return snap, err
}

// stampOf names a version of a file.
func stampOf(info fs.FileInfo) string {
	if info == nil {
		return "none"
	}
	return fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
}

// View loads the directory, see loadView.
func (b *Backend) View(ctx context.Context, countOnly bool) (*view.View, error) {
	snap, err := b.board.read(b.Home)
	if err != nil {
		return nil, err
	}
	v, err := loadView(ctx, b.Home, snap, countOnly)
	if err == nil {
		v.IDs() // it reads the live tasks at once: a process that stays has them in memory
	}
	return v, err
}

// Tasks returns at most limit tasks after an id, in the order of ids. status and agent select,
// where they are given. Without a status, tasks that are over are left out unless all is set.
// more reports whether others follow.
func (b *Backend) Tasks(ctx context.Context, status pipeline.Status, agent string, all bool, after pipeline.TaskID, limit int) (cards []view.Card, more bool, err error) {
	s, err := b.Home.OpenStore(ctx)
	if err != nil {
		return nil, false, err
	}
	tasks, err := s.Tasks(ctx, core.Filter{Live: !all && !status.Over()})
	cards = []view.Card{}
	for _, t := range tasks {
		switch {
		case t.ID <= after, agent != "" && !core.SameAgent(t.Agent, agent), status != "" && t.Status != status, status == "" && !all && t.Status.Over():
			continue
		case len(cards) == limit:
			return cards, true, nil
		}
		cards = append(cards, view.CardOf(t, b.Home.Config.Types))
	}
	return cards, false, err
}

// Task returns a task as otm show has it.
func (b *Backend) Task(ctx context.Context, id pipeline.TaskID) (*Shown, error) {
	v, err := b.View(ctx, false)
	if err != nil {
		return nil, err
	}
	s, t, err := shownOf(v, id)
	switch {
	case err != nil:
		return nil, err
	case t.Row == nil && t.State == nil && s.Why.Stage == why.IsUnknown:
		return nil, core.ErrNoTask
	}
	if s.Task == nil && t.State != nil {
		s.Task = new(t.Card())
	}
	return &s, nil
}
