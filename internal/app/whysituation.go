package app

import (
	"errors"
	"fmt"
	"time"

	"otm/heartbeat"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/slacklist"
)

// situation is what is known when a reason is looked for; it serves many
// tasks.
type situation struct {
	home    *Home
	now     time.Time
	rows    map[pipeline.TaskID]*pipeline.Row
	byID    map[string]*pipeline.Row
	typed   []*pipeline.Row // rows of tasks without an id
	steps   map[string][]*pipeline.Row
	waiting map[pipeline.TaskID]time.Time // creates in the inbox
	dropped []*drop.Create                // the same
	failed  map[pipeline.TaskID]*inbox.Settled
	updates map[pipeline.TaskID][]time.Time      // updates in the inbox, by when they came
	refused map[pipeline.TaskID][]*inbox.Settled // updates that failed
	beats   map[string]*heartbeat.Beat
	snap    *slacklist.Snapshot
}

// situation reads the directory once, and the rows as they were when the board
// was last read.
func (h *Home) situation() (*situation, error) {
	snap, err := slacklist.ReadSnapshot(h.Dir, h.Now())
	if err != nil {
		return nil, err
	}
	return h.situationOf(snap)
}

func (h *Home) situationOf(snap *slacklist.Snapshot) (*situation, error) {
	s := &situation{home: h, now: h.Now(), snap: snap,
		rows: map[pipeline.TaskID]*pipeline.Row{}, byID: map[string]*pipeline.Row{}, steps: map[string][]*pipeline.Row{},
		waiting: map[pipeline.TaskID]time.Time{}, failed: map[pipeline.TaskID]*inbox.Settled{},
		updates: map[pipeline.TaskID][]time.Time{}, refused: map[pipeline.TaskID][]*inbox.Settled{},
		beats: map[string]*heartbeat.Beat{}}
	for i := range snap.Rows {
		s.addRow(&snap.Rows[i])
	}
	for _, id := range heartbeat.Components {
		if b, err := heartbeat.Read(h.Dir, id); err == nil {
			s.beats[id] = b
		}
	}
	return s, errors.Join(s.readInboxes(), s.readFailed())
}

func (s *situation) addRow(r *pipeline.Row) {
	s.byID[r.ID] = r
	switch id := r.Task(); {
	case r.Parent != "":
		s.steps[r.Parent] = append(s.steps[r.Parent], r)
	case id == 0:
		s.typed = append(s.typed, r)
	case s.rows[id] == nil:
		s.rows[id] = r
	}
}

func (s *situation) readInboxes() error {
	for _, kind := range inbox.Kinds {
		files, err := s.home.Box.List(kind)
		if err != nil {
			return err
		}
		for _, f := range files {
			if !f.Regular() {
				continue
			}
			if data, _, err := s.home.Box.Read(f); err == nil { // else it was settled meanwhile
				s.addDrop(kind, data, f.Info.ModTime())
			}
		}
	}
	return nil
}

func (s *situation) addDrop(kind inbox.Kind, data []byte, since time.Time) {
	if kind == inbox.TaskUpdates {
		if u, err := drop.ParseUpdate(data); err == nil {
			s.updates[u.TaskID] = append(s.updates[u.TaskID], since)
		}
		return
	}
	if c, err := drop.ParseCreate(data); err == nil {
		s.waiting[c.Task.ID] = since
		s.dropped = append(s.dropped, c)
	}
}

func (s *situation) readFailed() error {
	names, err := s.home.Box.SettledNames(inbox.FailedDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		f, err := s.home.Box.ReadSettled(inbox.FailedDir, name)
		if err != nil || f.Object == nil || f.TaskID() == 0 {
			continue
		}
		switch f.Result.Inbox {
		case inbox.NewTasks:
			s.failed[f.TaskID()] = f
		case inbox.TaskUpdates:
			s.refused[f.TaskID()] = append(s.refused[f.TaskID()], f)
		}
	}
	return nil
}

// recordsOf are the records of the tasks that the board gives to an agent.
func (s *situation) recordsOf(agent *pipeline.Agent) []*pipeline.Record {
	var records []*pipeline.Record
	for id, row := range s.rows {
		if a := s.home.Config.Agents.Assigned(row.Assignee); a == nil || a.Name != agent.Name {
			continue
		}
		if rec, err := s.home.Store.Load(id); err == nil && rec.RowID == row.ID {
			records = append(records, rec)
		}
	}
	return records
}

// injectorTrouble says what keeps the injector.
func (s *situation) injectorTrouble() string {
	for _, l := range s.snap.Limits {
		if l.Method == "slackLists.items.create" || l.Method == "slackLists.items.list" {
			return fmt.Sprintf("; the board has limited %s until %s", l.Method, l.Until.UTC().Format("15:04:05Z"))
		}
	}
	return s.trouble(heartbeat.Injector)
}

// trouble says that a component is stale or in trouble; "" where it is well.
func (s *situation) trouble(id string) string {
	b := s.beats[id]
	switch state := heartbeat.Judge(b, s.now); {
	case b == nil:
		return "; " + id + " has never run here"
	case state == heartbeat.Yellow, state == heartbeat.Red:
		return fmt.Sprintf("; %s has not run since %s", id, s.ago(b.LastRun))
	case b.Result != heartbeat.Success:
		return "; " + id + " says: " + b.Details
	}
	return ""
}

// mend is what to do about a component that does not run; "" where it does.
func (s *situation) mend(id string) string {
	switch heartbeat.Judge(s.beats[id], s.now) {
	case heartbeat.NotInstalled, heartbeat.Red, heartbeat.Yellow:
		return "otm up"
	}
	return ""
}

func (s *situation) ago(t time.Time) string { return age(s.now.Sub(t)) + " ago" }
