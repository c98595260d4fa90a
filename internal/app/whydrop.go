package app

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"otm/heartbeat"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/history"
	"otm/pipeline/inbox"
)

// recordless is for an id of which there is neither a record nor, unless its create
// waits, a row.
func (s *situation) recordless(id pipeline.TaskID) (reason, error) {
	if since, ok := s.waiting[id]; ok {
		return at(inInbox, since, "in the inbox since "+s.ago(since)+s.injectorTrouble(), s.injectorMend()), nil
	}
	if f := s.failed[id]; f != nil {
		return s.whyFailed(f), nil
	}
	e, err := s.inHistory(id)
	switch {
	case err != nil:
		return reason{}, err
	case e != nil:
		return s.archived(id, e.ArchivedAt), nil
	}
	r, err := s.nowhere(id)
	if err == nil && len(s.unread) > 0 {
		r.Sentence += "; but " + s.unread[0].Error()
	}
	return r, err
}

// nowhere is for an id that stands nowhere.
func (s *situation) nowhere(id pipeline.TaskID) (reason, error) {
	drops, err := s.home.Store.Drops()
	if err != nil {
		return reason{}, err
	}
	if _, settled := drops[id]; settled {
		return at(isLost, time.Time{}, "its create took effect, and neither its record nor its row is there any more", "otm fsck"), nil
	}
	issued, err := s.home.Store.Issued(id)
	switch {
	case err != nil:
		return reason{}, err
	case issued:
		return at(isUnknown, time.Time{}, "was never given to a task, as far as is known: an otm-create took it and was stopped before it printed it, or the ids jumped over it, as somebody used a higher one", ""), nil
	}
	return at(isUnknown, time.Time{}, "was never issued", "otm list"), nil
}

// inHistory is the last time a task was archived; nil where it was not.
func (s *situation) inHistory(id pipeline.TaskID) (last *history.Entry, err error) {
	for e, err := range history.Read(s.home.Dir) {
		switch {
		case errors.Is(err, history.ErrNoEntry): // it says nothing
		case err != nil:
			return nil, err
		case e.TaskID == id:
			last = e
		}
	}
	return last, nil
}

func (s *situation) archived(id pipeline.TaskID, when time.Time) reason {
	return at(isOver, when, "archived "+s.ago(when), "otm history "+id.String())
}

// whyFailed is for a create that failed.
func (s *situation) whyFailed(f *inbox.Settled) reason {
	next := s.retry(f)
	if f.Result.Class == inbox.Conflict {
		next += " --new-id"
	}
	return at(inFailed, f.Result.At, fmt.Sprintf("failed (%s): %s", f.Result.Class, f.Result.Error), next)
}

// retry is how to bring a failed drop in again. What is wrong in itself has to
// be mended before.
func (s *situation) retry(f *inbox.Settled) string {
	retry := "otm retry " + safe.Quote(f.Name)
	if f.Result.Class == inbox.Invalid {
		return "mend " + safe.Quote(filepath.Join(s.home.Dir, inbox.FailedDir, f.Name)) + ", then: " + retry
	}
	return retry
}

// comingOnBoard is for a task that does not stand on the board completely.
func (s *situation) comingOnBoard(rec *pipeline.Record) reason {
	if rec.DropID == "" { // typed, and its row is not shown
		return at(toBoard, rec.CreatedAt, "typed on the board, and not taken up completely"+s.dispatcherTrouble(), s.dispatcherMend())
	}
	_, waits := s.waiting[rec.TaskID]
	if f := s.failed[rec.TaskID]; f != nil && (!waits || f.Result.At.After(lastEvent(rec))) {
		return s.whyFailed(f)
	}
	if !waits {
		return s.halfMade(rec)
	}
	sentence := "its row could not be made yet"
	switch {
	case rec.RowID != "":
		sentence = onBoard(rec)
	case rec.RowAskedAt != nil:
		sentence = fmt.Sprintf("its row was asked for %s and no answer came; it is looked for on the board before it is made again", s.ago(*rec.RowAskedAt))
	}
	return at(toBoard, rec.CreatedAt, sentence+s.injectorTrouble(), s.injectorMend())
}

// halfMade is for a task that nothing brings on the board any more.
func (s *situation) halfMade(rec *pipeline.Record) reason {
	sentence := "its row was never made"
	if rec.RowID != "" {
		sentence = onBoard(rec)
	}
	return at(toBoard, rec.CreatedAt, sentence+", and no drop of it waits in the inbox any more: nothing goes on with it", "create it again with otm-create")
}

func onBoard(rec *pipeline.Record) string {
	made := 0
	for _, step := range rec.Steps {
		if step.RowID != "" {
			made++
		}
	}
	return fmt.Sprintf("%d of its %d steps stand on the board", made, len(rec.Steps))
}

// withUpdates adds what is to be said of the updates of a task that did not
// reach the board. rec is nil where there is none.
func (s *situation) withUpdates(r reason, id pipeline.TaskID, rec *pipeline.Record) reason {
	if r.Stage == isOver {
		return r
	}
	if waiting := s.updates[id]; len(waiting) > 0 {
		r = s.withWaiting(r, waiting)
	}
	if failed := s.refused[id]; len(failed) > 0 {
		r = s.withFailed(r, failed[len(failed)-1], rec)
	}
	return r
}

func (s *situation) withWaiting(r reason, waiting []time.Time) reason {
	since := slices.MinFunc(waiting, time.Time.Compare)
	wait := "an update of it waits"
	if n := len(waiting); n > 1 {
		wait = fmt.Sprintf("%d updates of it wait", n)
	}
	r.Sentence += fmt.Sprintf("; %s in the inbox since %s%s", wait, s.ago(since), s.limited(toRead, toChange)+s.trouble(heartbeat.Injector))
	r.Next = cmp.Or(s.mend(heartbeat.Injector), r.Next)
	usual, _ := s.home.usual(inInbox)
	r.late = r.late || s.now.Sub(since) > usual
	return r
}

func (s *situation) withFailed(r reason, f *inbox.Settled, rec *pipeline.Record) reason {
	r.Sentence += fmt.Sprintf("; an update of it failed %s (%s): %s", s.ago(f.Result.At), f.Result.Class, f.Result.Error)
	retry := s.retry(f) + ", or remove it from " + safe.Quote(filepath.Join(s.home.Dir, inbox.FailedDir))
	if r.Next != "" {
		retry = r.Next + "; for the update: " + retry
	}
	r.Next = retry
	r.late = r.late || rec == nil || !heardAfter(rec, f.Result.At)
	return r
}

// heardAfter tells whether an agent said something about a task after a time
// that did not fail.
func heardAfter(rec *pipeline.Record, t time.Time) bool {
	return slices.ContainsFunc(rec.History, func(e pipeline.Event) bool {
		_, ok := e.Agent()
		return ok && e.What != pipeline.EventUpdateFailed && e.At.After(t)
	})
}
