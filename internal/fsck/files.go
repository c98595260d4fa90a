package fsck

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"otm/core"
	"otm/internal/durable"
	"otm/internal/explain"
	"otm/internal/patience"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/counter"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// inboxes reads what waits.
func (c *check) inboxes() error {
	for _, kind := range inbox.Kinds {
		files, err := c.box.List(kind)
		if err != nil {
			return err
		}
		for _, f := range files {
			if c.Quiet {
				c.found(RuleHalfMade, 0, "", explain.DropWaits, "name", f.Name, "inbox", kind)
			}
			if !f.Regular() || kind != inbox.NewTasks {
				continue
			}
			data, _, err := c.box.Read(f)
			if err := unread(err); err != nil {
				return err
			}
			if d, err := drop.ParseCreate(data); err == nil {
				c.waiting[d.Task.ID] = true
			}
		}
	}
	return nil
}

// unread returns the error of reading a drop, unless it means nothing: the drop
// was settled meanwhile, is no regular file, or may not be read, which the
// injector reports.
func unread(err error) error {
	var refused *fs.PathError
	if !errors.As(err, &refused) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, durable.ErrNoFile) {
		return nil
	}
	return err
}

func (c *check) counterAbove() error {
	used, err := c.counter.UsedIDs()
	if err != nil {
		return err
	}
	used = slices.Concat(used, slices.Collect(maps.Keys(c.tasks)), slices.Collect(maps.Keys(c.board.Bearers)))
	stored, err := c.counter.Stored()
	switch next := pipeline.TaskID(stored); {
	case errors.Is(err, counter.ErrBadCounter):
		c.found(RuleCounter, 0, RaiseCounter, explain.CounterBad, "error", err)
	case err != nil:
		return err
	case counter.Above(next, used...) != next:
		last := counter.Above(next, used...) - 1
		c.found(RuleCounter, last, RaiseCounter, explain.CounterBehind, "next", stored, "last", last)
	}
	return nil
}

// TempFolders are the folders of a data directory in which a crash may leave a
// temporary file.
var TempFolders = []string{
	"", "new-tasks", "task-updates", "processed", "failed", "tasks", "keys",
	"board", "board/page", "secrets", "archive", "backup",
}

// litterAge is the age from which on a temporary file is left over.
const litterAge = time.Hour

func (c *check) litter() error {
	dirs := pipeline.Map(TempFolders, func(name string) string { return filepath.Join(c.Dir, name) })
	for _, a := range c.Agents {
		if a.Workspace != "" {
			dirs = append(dirs, a.Workspace)
		}
	}
	for _, dir := range dirs {
		old, err := patience.Read(dir, patience.Reader, nil, func() ([]string, error) { return durable.Leftovers(dir, litterAge, c.Now) })
		if err := unread(err); err != nil {
			return err
		}
		for _, path := range old {
			c.found(RuleLitter, 0, RemoveFile, explain.Litter, "path", path)
		}
	}
	return nil
}

// settled looks for processed drops that the store does not know.
func (c *check) settled() error {
	names, err := c.box.SettledNames(inbox.ProcessedDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		s, err := c.box.ReadSettled(inbox.ProcessedDir, name)
		if err := unread(err); err != nil {
			return err
		}
		if err != nil || s.Object == nil {
			continue
		}
		id := s.TaskID()
		switch s.Result.Inbox {
		case inbox.NewTasks:
			known := c.tasks[id] != nil || len(c.board.Bearers[id]) > 0 || c.waiting[id]
			if !known && !s.Result.SkippedDuplicate {
				c.undone(RuleDropped, "", id, explain.TaskUndone, s) // it may be one that is over: a person knows
			}
		case inbox.TaskUpdates:
			if err := c.update(id, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// undone notes a processed drop that the store does not know, as it was replaced by an
// older one. It is handled again once its file is moved: the injector skips a drop that is
// in processed/.
func (c *check) undone(rule string, r Repair, id pipeline.TaskID, code explain.Code, s *inbox.Settled) {
	path, to := filepath.Join(c.Dir, inbox.ProcessedDir, s.Name), c.box.Dir(s.Result.Inbox)
	next := "mv " + safe.Quote(path) + " " + safe.Quote(to) + "   # has it handled again"
	c.found(rule, id, r, code, "next", next, "drop", s.Name, "path", path, "to", to)
}

// update looks for a processed update among the commands of the store.
func (c *check) update(id pipeline.TaskID, s *inbox.Settled) error {
	u, err := drop.ParseUpdate(s.Object.Bytes())
	t := c.tasks[id]
	if err != nil || u.ID == "" || t == nil || t.Status.Over() || t.Away() {
		return nil // somebody edited the settled file; the task is missing, which is said; it would change nothing
	}
	_, did, err := c.Store.Did(c.ctx, core.DropCommand(u.ID, id))
	if err == nil && !did {
		c.undone(RuleUpdates, HandleAgain, id, explain.UpdateUnknown, s)
	}
	return err
}
