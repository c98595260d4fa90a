package app

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"time"

	"otm/internal/durable"
	"otm/internal/explain"
	"otm/internal/patience"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/pipeline"
	"otm/slacklist"
)

// loadView reads the directory. snap is the board; nil: as it was last read. With
// countOnly, files in the inboxes and in failed/ are counted and not read.
func loadView(ctx context.Context, h *Home, snap *slacklist.Snapshot, countOnly bool) (*view.View, error) {
	s, err := h.OpenStore(ctx)
	if err != nil {
		return nil, err
	}
	return view.Load(ctx, viewSources(h, s, snap, countOnly))
}

func viewSources(h *Home, s view.Store, snap *slacklist.Snapshot, countOnly bool) view.Sources {
	agents, unread := h.knownAgents()
	var disk *explain.Finding
	_, err := patience.Read(h.Dir, patience.Reader, nil, func() (bool, error) { return true, durable.Takes(h.Dir) })
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EROFS) { // of one that does not answer, the files in it tell
		disk = new(explain.New(explain.DiskTakesNothing, "error", err, "path", h.Dir, "hint", told(err).Hints[0]))
	}
	return view.Sources{
		Dir: h.Dir, LogDir: h.LogDir(), Agents: agents, AgentsErr: unread, Times: h.Config.Times, Types: h.Config.Types, Runner: h.runner(), Now: h.Now(),
		Store: s, Snapshot: snap, Config: h.configStamp, CountOnly: countOnly, Untold: untold(h), Disk: disk,
	}
}

// lookAround is loadView for a command. fresh reads the board before. Files that cannot
// be read are warned of.
func lookAround(ctx context.Context, h *Home, fresh, countOnly bool) (*view.View, error) {
	if fresh {
		if err := walk(ctx, h); err != nil {
			return nil, err
		}
	}
	v, err := loadView(ctx, h, nil, countOnly)
	if err != nil || countOnly {
		return v, err
	}
	for _, err := range v.Unread {
		h.Warn("%v", err)
	}
	return v, nil
}

// walk reads the board, and takes over what people changed there.
func walk(ctx context.Context, h *Home) error {
	log := h.stderrLog("otm")
	e, err := newEngine(ctx, h, "otm", h.board(log), log)
	if err != nil {
		return err
	}
	return e.Refresh(ctx, 0)
}

// statPatiently is durable.Stat with the deadline of readers.
func statPatiently(path string) (fs.FileInfo, error) {
	return patience.Read(path, patience.Reader, nil, func() (fs.FileInfo, error) { return durable.Stat(path) })
}

// oldBoard is longer than a component that stays leaves the board unread.
const oldBoard = 5 * time.Minute

// noteAge says how old the board is of which follows, if that is worth a line.
func noteAge(h *Home, walk time.Time) {
	switch now := h.Now(); {
	case walk.IsZero():
		h.Note("the board was not read yet; --fresh reads it")
	case now.Sub(walk).Abs() > oldBoard:
		h.Note("the board was read %s; --fresh reads it anew", explain.Ago(walk, now))
	}
}

// noteNothingStays says that no component stays running.
func noteNothingStays(h *Home, v *view.View) {
	switch {
	case v.AnyResident():
	case v.Runner.Installed:
		h.Note("nothing stays running here; to start what was installed, run: %s", v.Runner.Start)
	default:
		h.Note("nothing stays running here; unless timers run the components, start them with: %s", v.Runner.Start)
	}
}

// idOrDash names a task in a table; "-": it has no id yet, as a person typed it, or the drop
// names no task.
func idOrDash(id pipeline.TaskID) string {
	if id == 0 {
		return "-"
	}
	return id.String()
}

// agoOrDash says in a table how long ago something was; "-": it never was.
func agoOrDash(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return explain.Ago(at, now)
}

// short cuts a text to n characters for a table, and escapes it.
func short(s string, n int) string { return safe.Cut(safe.Escape(s), n) }
