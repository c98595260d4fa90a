package fsck

import (
	"cmp"
	"path/filepath"
	"slices"

	"otm/internal/explain"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// readFailed notes the creates that failed: their tasks need no row.
func (c *facts) readFailed() error {
	names, err := c.box.SettledNames(inbox.FailedDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		c.failed[name] = name
		s, err := c.box.ReadSettled(inbox.FailedDir, name)
		if err := unread(err); err != nil {
			return err
		}
		if err != nil || s.Object == nil {
			continue
		}
		if d, err := drop.ParseCreate(s.Object.Bytes()); err == nil {
			c.saw(d.Task.ID)
			if d.ID != "" {
				c.failed[d.ID] = name
			}
		}
	}
	return nil
}

// nameIn returns the name of a task's create in processed/ or failed/; "" if it
// is not there.
func nameIn(names map[string]string, rec *pipeline.Record) string {
	if rec.DropID == "" {
		return ""
	}
	return cmp.Or(names[rec.DropID], names[rec.Drop])
}

// settled compares the processed drops with the records.
func (c *check) settled() error {
	names, err := c.box.SettledNames(inbox.ProcessedDir)
	if err != nil {
		return err
	}
	applied := map[pipeline.TaskID][]*inbox.Settled{} // its updates, in the order of their names
	for _, name := range names {
		c.processed[name] = name
		s, err := c.box.ReadSettled(inbox.ProcessedDir, name)
		if err := unread(err); err != nil {
			return err
		}
		if err != nil || s.Object == nil {
			continue
		}
		id := s.TaskID()
		c.saw(id)
		switch s.Result.Inbox {
		case inbox.NewTasks:
			c.processedCreate(id, name, s)
		case inbox.TaskUpdates:
			applied[id] = append(applied[id], s)
		}
	}
	for _, id := range sorted(applied) {
		c.updates(id, applied[id])
	}
	return nil
}

func (c *check) processedCreate(id pipeline.TaskID, name string, s *inbox.Settled) {
	if d, err := drop.ParseCreate(s.Object.Bytes()); err == nil && d.ID != "" && !s.Result.SkippedDuplicate {
		c.processed[d.ID] = name
		rec := c.records[id]
		if other := c.creates[id]; other != "" && other != d.ID {
			stranger := name
			if rec != nil && rec.DropID == d.ID {
				stranger = c.processed[other]
			}
			c.found(RuleMerged, id, "", explain.TasksMerged, "one", c.processed[other], "other", name, "next", c.again(stranger))
		}
		if c.creates[id] = d.ID; rec != nil && rec.DropID == d.ID {
			c.asked[id] = d
		}
	}
	known := c.records[id] != nil || c.unread[id] != nil || len(c.tops[id]) > 0 || c.archived[id] != nil || c.historyUnread || c.waiting[id]
	if !known && !s.Result.SkippedDuplicate {
		c.found(RuleDropped, id, "", explain.TaskUndone, "next", c.again(name))
	}
}

// again is the command by which a person has a processed create handled once
// more. It moves the file: the injector skips a drop that is in processed/.
func (c *facts) again(name string) string {
	return "mv " + safe.Quote(filepath.Join(c.Dir, inbox.ProcessedDir, name)) + " " + safe.Quote(c.box.Dir(inbox.NewTasks)) + "   # has it made again"
}

// updates compares the processed updates of a task with its record.
func (c *check) updates(id pipeline.TaskID, settled []*inbox.Settled) {
	rec := c.records[id]
	if rec == nil {
		return
	}
	if rebuilt(rec) {
		return // updates from before the loss are unknown
	}
	known := map[string]bool{}
	for _, u := range rec.Updates {
		known[u.Drop] = true
	}
	if len(rec.Updates) >= pipeline.KeptUpdates { // older ones are forgotten
		return
	}
	for _, s := range settled {
		if !known[s.Name] && !c.knowsDrop(rec, s) {
			c.found(RuleUpdates, id, "", explain.UpdateUnknown, "drop", s.Name, "next", c.remake(rec))
		}
	}
}

// updatesTwice looks for updates that a record has twice. It does not check their
// order: the file named first may be delivered last.
func (c *check) updatesTwice() error {
	for _, id := range sorted(c.records) {
		seen := map[string]string{}
		for _, u := range c.records[id].Updates {
			if other, twice := seen[u.ID]; twice {
				c.found(RuleUpdates, id, "", explain.UpdateTwice, "id", u.ID, "one", other, "other", u.Drop, "next", c.remake(c.records[id]))
			}
			seen[u.ID] = u.Drop
		}
	}
	return nil
}

// rebuilt reports whether a record was lost and made anew from the board.
func rebuilt(rec *pipeline.Record) bool {
	return slices.ContainsFunc(rec.History, func(e pipeline.Event) bool { return e.What == pipeline.EventRebuilt })
}

// knowsDrop reports whether the record has an update by its id.
func (c *facts) knowsDrop(rec *pipeline.Record, s *inbox.Settled) bool {
	u, err := drop.ParseUpdate(s.Object.Bytes())
	if err != nil {
		return true // somebody edited the settled file
	}
	_, known := rec.AppliedAs(u.ID)
	return known
}
