package app

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"otm/dispatch"
	"otm/heartbeat"
	"otm/internal/install"
	"otm/internal/lock"
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
	rows    map[pipeline.TaskID]*pipeline.Row   // by the id they bear; of several, the first
	bearers map[pipeline.TaskID][]*pipeline.Row // all of them
	byID    map[string]*pipeline.Row
	tops    []*pipeline.Row // those that are no steps
	steps   map[string][]*pipeline.Row
	waiting map[pipeline.TaskID]time.Time // creates in the inbox
	dropped []*drop.Create                // the same
	failed  map[pipeline.TaskID]*inbox.Settled
	updates map[pipeline.TaskID][]time.Time      // updates in the inbox, by when they came
	refused map[pipeline.TaskID][]*inbox.Settled // updates that failed
	beats   map[string]*heartbeat.Beat
	unknown map[string]bool // components whose heartbeat cannot be read
	unread  []error         // why something could not be read: of what is not there, nothing follows
	snap    *slacklist.Snapshot

	agents    map[string]*agentTasks // of those that were asked for
	installed *install.Options       // how otm install has the components run; nil: not at all
	outlooks  dispatch.Outlooks
	owners    map[string]pipeline.TaskID // tasks by their rows, as the records have it; nil: not read yet
}

// situation reads the directory once, and the rows as they were when the board
// was last read. It warns of single files that cannot be read.
func (h *Home) situation() (*situation, error) {
	snap, err := h.snapshot()
	if err != nil {
		return nil, err
	}
	s, err := h.situationOf(snap)
	if err != nil {
		return nil, err
	}
	for _, err := range s.unread {
		h.Warn("%v", err)
	}
	return s, nil
}

func (h *Home) situationOf(snap *slacklist.Snapshot) (*situation, error) {
	s := &situation{home: h, now: h.Now(), snap: snap,
		rows: map[pipeline.TaskID]*pipeline.Row{}, bearers: map[pipeline.TaskID][]*pipeline.Row{}, byID: map[string]*pipeline.Row{}, steps: map[string][]*pipeline.Row{},
		waiting: map[pipeline.TaskID]time.Time{}, failed: map[pipeline.TaskID]*inbox.Settled{},
		updates: map[pipeline.TaskID][]time.Time{}, refused: map[pipeline.TaskID][]*inbox.Settled{},
		beats: map[string]*heartbeat.Beat{}, unknown: map[string]bool{}, agents: map[string]*agentTasks{}, installed: h.installation(),
		outlooks: dispatch.Outlooks{Dir: h.Dir, Agents: h.Config.Agents, Records: h.Store, Now: h.Now(), Times: h.Config.Times}}
	for i := range snap.Rows {
		s.addRow(&snap.Rows[i])
	}
	for _, id := range heartbeat.Components {
		b, err := heartbeat.Read(h.Dir, id)
		switch {
		case err == nil:
			s.beats[id] = b
		case !errors.Is(err, fs.ErrNotExist):
			s.unknown[id] = true
			s.unread = append(s.unread, fmt.Errorf("the heartbeat of %s cannot be read: %w", id, err))
		}
	}
	return s, errors.Join(s.readInboxes(), s.readFailed())
}

func (s *situation) addRow(r *pipeline.Row) {
	s.byID[r.ID] = r
	if r.Parent != "" {
		s.steps[r.Parent] = append(s.steps[r.Parent], r)
		return
	}
	s.tops = append(s.tops, r)
	id := r.Task()
	if id == 0 {
		return
	}
	s.bearers[id] = append(s.bearers[id], r)
	s.rows[id] = s.bearers[id][0]
}

// ownRow is the row of a task; nil where the board has none. The record says
// which it is, as people change the Task ID, and copy it.
func (s *situation) ownRow(id pipeline.TaskID, rec *pipeline.Record) *pipeline.Row {
	if rec != nil && rec.RowID != "" {
		return s.byID[rec.RowID]
	}
	if row := s.rows[id]; row != nil && s.taskOf(row) == id {
		return row
	}
	return nil
}

// otherRow is another row than a task's own that bears its id.
func (s *situation) otherRow(id pipeline.TaskID, own *pipeline.Row) *pipeline.Row {
	for _, row := range s.bearers[id] {
		if row != own {
			return row
		}
	}
	return nil
}

// taskOf is the task whose row this is; 0 where it is none's.
func (s *situation) taskOf(row *pipeline.Row) pipeline.TaskID {
	id := row.Task()
	rec, err := s.home.Store.Load(id)
	if id != 0 && err == nil && rec.RowID == row.ID {
		return id
	}
	if owner := s.owner(row); owner != 0 {
		return owner
	}
	if (err != nil || rec.RowID == "") && s.rows[id] == row {
		return id // it is all that is known of it
	}
	return 0
}

// owner is the task whose record names a row. It reads all records: rows whose
// Task ID was changed are found by nothing else.
func (s *situation) owner(row *pipeline.Row) pipeline.TaskID {
	if s.owners == nil {
		s.owners = map[string]pipeline.TaskID{}
		ids, _ := s.home.Store.IDs() // of what cannot be read, nothing is known
		for _, id := range ids {
			if rec, err := s.home.Store.Load(id); err == nil && rec.RowID != "" {
				s.owners[rec.RowID] = id
			}
		}
	}
	return s.owners[row.ID]
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
			switch data, _, err := s.home.Box.Read(f); {
			case err == nil:
				s.addDrop(kind, data, f.Info.ModTime())
			case !errors.Is(err, fs.ErrNotExist): // else it was settled meanwhile
				s.unread = append(s.unread, fmt.Errorf("%s/%s cannot be read: %w", kind, f.Name, err))
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
		switch {
		case errors.Is(err, fs.ErrNotExist): // put back meanwhile
			continue
		case err != nil:
			s.unread = append(s.unread, fmt.Errorf("%s/%s cannot be read: %w", inbox.FailedDir, name, err))
			continue
		case f.Object == nil || f.TaskID() == 0:
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

// limited says that a component has to wait with what it needs for its work: to
// read the board, or to make or change rows. "": it has not.
func (s *situation) limited(methods ...string) string {
	for _, l := range s.snap.Limits {
		if slices.Contains(methods, l.Method) {
			return fmt.Sprintf("; the rate limit of %s is reached until %s", l.Method, l.Until.UTC().Format("15:04:05Z"))
		}
	}
	return ""
}

const (
	toRead   = "slackLists.items.list"
	toMake   = "slackLists.items.create"
	toChange = "slackLists.items.update"
)

// injectorTrouble says what keeps the injector from making rows.
func (s *situation) injectorTrouble() string {
	return s.limited(toRead, toMake) + s.rowTrouble(heartbeat.Injector)
}

// dispatcherTrouble says what keeps the dispatcher from taking up rows.
func (s *situation) dispatcherTrouble() string {
	return s.limited(toRead, toMake, toChange) + s.rowTrouble(heartbeat.Dispatcher)
}

func (s *situation) injectorMend() string { return s.rowMend(heartbeat.Injector) }

func (s *situation) dispatcherMend() string { return s.rowMend(heartbeat.Dispatcher) }

// rowTrouble is trouble for a component that has to make a row.
func (s *situation) rowTrouble(id string) string {
	if s.isFull() {
		return fmt.Sprintf("; the list is full (%d of %d rows)", s.snap.Count, s.snap.Limit) + s.trouble(id)
	}
	return s.trouble(id)
}

// rowMend is mend for a component that has to make a row.
func (s *situation) rowMend(id string) string {
	if s.isFull() || strings.Contains(s.trouble(id), "the list is full") { // not every board says how many it holds
		return "otm archive --older-than 7d"
	}
	return s.mend(id)
}

func (s *situation) isFull() bool { return s.snap.Limit > 0 && s.snap.Count >= s.snap.Limit }

// trouble says that a component is stale or in trouble; "" where it is well.
func (s *situation) trouble(id string) string {
	b := s.beats[id]
	switch state := judge(id, b, s.now, s.installed); {
	case s.unknown[id]:
		return "; whether " + id + " runs is not known"
	case b == nil:
		return "; " + id + " has never run here"
	case state == heartbeat.Yellow, state == heartbeat.Red:
		return fmt.Sprintf("; %s has not run since %s", id, s.ago(b.LastRun))
	case !s.stays(id):
		return fmt.Sprintf("; %s ran %s and does not run any more", id, s.ago(b.LastRun))
	case b.Result != heartbeat.Success:
		return fmt.Sprintf("; %s said %s: %s", id, s.ago(b.LastRun), b.Details)
	}
	return ""
}

// stays tells whether something keeps a component running that ran of late. If
// none of its processes is one that stays, timers may start it: that is taken
// for true unless the last to run was one that was to stay, or otm install
// made it one.
func (s *situation) stays(id string) bool {
	if s.home.residents().running(id) {
		return true
	}
	if s.installed != nil {
		return s.installed.Timers
	}
	b := s.beats[id]
	return b == nil || b.PID == 0 || b.PID != lock.LastHolder(s.home.residents().path(id))
}

// mend is what to do about a component that does not run; "" where it does.
func (s *situation) mend(id string) string {
	if s.unknown[id] {
		return "otm doctor"
	}
	switch judge(id, s.beats[id], s.now, s.installed) {
	case heartbeat.NotInstalled, heartbeat.Red, heartbeat.Yellow:
		return startBy(s.installed, s.home.Dir, s.home.Getenv)
	}
	switch b := s.beats[id]; {
	case !s.stays(id):
		return startBy(s.installed, s.home.Dir, s.home.Getenv)
	case b != nil && b.Result != heartbeat.Success:
		return "otm doctor"
	}
	return ""
}

func (s *situation) ago(t time.Time) string { return age(s.now.Sub(t)) + " ago" }
