package view

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// Create is a new task that waits in the inbox.
type Create struct {
	*drop.Create
	At time.Time // when it was delivered
}

// Inbox counts what waits, readable or not, and what failed.
type Inbox struct {
	Creates []Create // new tasks that wait, in the order of their names
	Unread  []error  // files that could not be read: nothing follows from what they may hold
	Waiting map[inbox.Kind]int
	Oldest  time.Time // when the oldest that waits was delivered; zero: nothing waits
	Failed  []string  // the names of the files in failed/, in their order

	dir           string
	updates       map[pipeline.TaskID][]time.Time // when the waiting updates came, see waiting
	counted       bool                            // the inboxes were counted, and not read
	failedCreates map[pipeline.TaskID]*inbox.Settled
	failedUpdates map[pipeline.TaskID][]*inbox.Settled
}

// Failure is a file in failed/.
type Failure struct {
	Name string
	inbox.Settled
	Err error // why it could not be read
}

// readFiles reads the inboxes and failed/. The error is one of reading a folder.
func readFiles(dir string, countOnly bool) (Inbox, error) {
	in := Inbox{
		dir: dir, counted: countOnly, Waiting: map[inbox.Kind]int{}, updates: map[pipeline.TaskID][]time.Time{},
		failedCreates: map[pipeline.TaskID]*inbox.Settled{}, failedUpdates: map[pipeline.TaskID][]*inbox.Settled{},
	}
	return in, errors.Join(in.readInboxes(countOnly), in.readFailed(countOnly))
}

func (in *Inbox) readInboxes(countOnly bool) error {
	box := inbox.Open(in.dir)
	for _, kind := range inbox.Kinds {
		files, err := box.List(kind)
		if err != nil {
			return err
		}
		in.Waiting[kind] = len(files)
		for _, f := range files {
			at := f.Info.ModTime()
			if in.Oldest.IsZero() || at.Before(in.Oldest) {
				in.Oldest = at
			}
			if !f.Regular() || countOnly {
				continue
			}
			switch data, _, err := box.Read(f); {
			case err == nil:
				in.addDrop(kind, data, at)
			case !errors.Is(err, fs.ErrNotExist): // else it was settled meanwhile
				in.Unread = append(in.Unread, fmt.Errorf("%s/%s cannot be read: %w", kind, f.Name, err))
			}
		}
	}
	return nil
}

// waiting returns when the waiting updates of a task came. Where the inboxes were only counted,
// it reads them. What cannot be read then is no update of the task.
func (in *Inbox) waiting(id pipeline.TaskID) []time.Time {
	if in.counted && in.Waiting[inbox.TaskUpdates] > 0 {
		read := Inbox{dir: in.dir, Waiting: map[inbox.Kind]int{}, updates: in.updates}
		read.readInboxes(false)
		in.counted = false
	}
	return in.updates[id]
}

// addDrop notes a drop that waits. One that cannot be parsed is the injector's
// to judge.
func (in *Inbox) addDrop(kind inbox.Kind, data []byte, at time.Time) {
	if kind == inbox.TaskUpdates {
		if u, err := drop.ParseUpdate(data); err == nil {
			in.updates[u.TaskID] = append(in.updates[u.TaskID], at)
		}
		return
	}
	if c, err := drop.ParseCreate(data); err == nil {
		in.Creates = append(in.Creates, Create{c, at})
	}
}

func (in *Inbox) readFailed(countOnly bool) (err error) {
	if in.Failed, err = inbox.Open(in.dir).SettledNames(inbox.FailedDir); err != nil || countOnly {
		return err
	}
	for _, f := range in.failures(in.Failed) {
		switch id := f.TaskID(); {
		case f.Err != nil:
			in.Unread = append(in.Unread, fmt.Errorf("%s/%s cannot be read: %w", inbox.FailedDir, f.Name, f.Err))
		case f.Object == nil || id == 0:
		case f.Result.Inbox == inbox.NewTasks:
			in.failedCreates[id] = &f.Settled
		case f.Result.Inbox == inbox.TaskUpdates:
			in.failedUpdates[id] = append(in.failedUpdates[id], &f.Settled)
		}
	}
	return nil
}

// failures reads files in failed/, without those that somebody put back
// meanwhile.
func (in *Inbox) failures(names []string) []Failure {
	var failed []Failure
	box := inbox.Open(in.dir)
	for _, name := range names {
		switch f, err := box.ReadSettled(inbox.FailedDir, name); {
		case err == nil:
			failed = append(failed, Failure{Name: name, Settled: *f})
		case !errors.Is(err, fs.ErrNotExist):
			failed = append(failed, Failure{Name: name, Err: err})
		}
	}
	return failed
}

// Failures reads the files that failed last, at most n of them, the newest
// first.
func (in *Inbox) Failures(n int) []Failure {
	failed := in.failures(in.Failed[max(0, len(in.Failed)-n):])
	slices.Reverse(failed)
	return failed
}

// Count counts the files in the inboxes.
func (in *Inbox) Count() int {
	n := 0
	for _, waiting := range in.Waiting {
		n += waiting
	}
	return n
}
