package fsck

import (
	"path/filepath"

	"otm/core"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// settled looks for processed drops that the store does not know.
func (c *facts) settled() error {
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
			known := c.tasks[id] != nil || len(c.tops[id]) > 0 || c.waiting[id]
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
func (c *facts) undone(rule string, r Repair, id pipeline.TaskID, code explain.Code, s *inbox.Settled) {
	path, to := filepath.Join(c.Dir, inbox.ProcessedDir, s.Name), c.box.Dir(s.Result.Inbox)
	next := "mv " + safe.Quote(path) + " " + safe.Quote(to) + "   # has it handled again"
	c.found(rule, id, r, code, "next", next, "drop", s.Name, "path", path, "to", to)
}

// update looks for a processed update among the commands of the store.
func (c *facts) update(id pipeline.TaskID, s *inbox.Settled) error {
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
