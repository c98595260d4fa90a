// Package notify tells people what needs them: tasks that are blocked, failed, or to be
// reviewed, and what is wrong with agents and components.
//
// News are events of the store, read in their order. Of an incident people are told once
// when it is opened, once when it becomes worse, and once when it is over.
//
// Each outlet has a notifier of its own, with a file in the data directory that says what
// the outlet was told. An outlet that takes nothing holds up no other one. A crash between
// the telling and the file repeats one message; nothing is left out. While an outlet does
// not take messages, they become one.
package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"otm/core"
	"otm/internal/durable"
	"otm/internal/safe"
	"otm/pipeline"
)

// Outlet takes messages to people. An error means that the message is told again later. It
// may be a *Refused.
type Outlet interface {
	Tell(ctx context.Context, m Message) error
}

// Refused says more about why an outlet did not take a message.
type Refused struct {
	Err   error
	After time.Duration // as the outlet asks: not before; 0: it does not ask
	Next  string        // what a person has to do before it works again; "": it may pass by itself
}

func (e *Refused) Error() string { return e.Err.Error() }
func (e *Refused) Unwrap() error { return e.Err }

// Notifier tells an outlet what happens. It is for one goroutine.
type Notifier struct {
	Name   string // of the outlet
	Store  core.Reader
	Outlet Outlet
	What   []Kind
	Types  pipeline.Types
	Path   string               // of the file that says what was told
	Off    func() bool          // reports whether nobody is to be told anything now
	Quiet  func(time.Time) bool // reports whether a time lies in the quiet hours
	Now    func() time.Time
	Log    *slog.Logger

	state *State
	sent  time.Time // when the last message was taken
}

const (
	lookEvery = time.Second
	// gather is how long news of tasks wait for others, and the least time between two
	// messages. It keeps to the limits of chats: one message a second, and 20 a minute.
	gather = 5 * time.Second
	// maxItems bounds the items of a message; the newest are kept.
	maxItems = 50
	// longestPause is the longest pause after a message that was not taken.
	longestPause = 10 * time.Minute
	// personPause is the pause where only a person can help. A start ends it.
	personPause = time.Hour
	// longestAsked is the longest pause that an outlet may ask for.
	longestAsked = 24 * time.Hour
	// retold is how far back the news are told again if it is not known what was told.
	retold = 24 * time.Hour
)

// State is what an outlet was told.
type State struct {
	Seq  int64  `json:"seq"`            // of the last event that was told, or is of no interest
	Lost string `json:"lost,omitempty"` // says what is not known any more; "": it is told
	// Failing is since when messages are not taken, and why; nil: they are.
	Failing *Failing `json:"failing,omitempty"`
}

// Failing says that messages are not taken.
type Failing struct {
	Since time.Time `json:"since"`
	Last  time.Time `json:"last"`
	Until time.Time `json:"until"` // the next try
	Tries int       `json:"tries"`
	Error string    `json:"error"`
	Next  string    `json:"next,omitempty"` // see Refused
}

// Read reads what was told; nil: nothing ever was.
func Read(path string) (*State, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &State{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Run tells until ctx ends.
func (n *Notifier) Run(ctx context.Context) error {
	for {
		if err := n.Once(ctx); err != nil && ctx.Err() == nil {
			n.Log.Warn("people were not told", "outlet", n.Name, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookEvery):
		}
	}
}

// Once looks for news and tells them, if it is time. It begins with what happens after its
// first call in a directory.
func (n *Notifier) Once(ctx context.Context) error {
	if n.state == nil {
		if err := n.begin(ctx); err != nil {
			return err
		}
	}
	now := n.Now()
	if f := n.state.Failing; n.Off() || within(n.sent, gather, now) || f != nil && now.Before(f.Until) && !f.Last.After(now) {
		return nil
	}
	next := *n.state
	items, err := n.news(ctx, &next)
	if err != nil {
		return err
	}
	if next.Lost != "" {
		items, next.Lost = append(items, problem(Item{At: now.UTC(), Next: "otm events --since 24h"}, next.Lost)), ""
	}
	if len(items) == 0 {
		return n.keep(&next)
	}
	urgent := slices.ContainsFunc(items, func(i Item) bool { return i.Kind == Problem })
	if !urgent && (n.Quiet(now) || within(items[0].At, gather, now)) {
		return nil // they are found again
	}
	if err := n.Outlet.Tell(ctx, message(items)); err != nil {
		return errors.Join(err, n.failed(err))
	}
	n.sent, next.Failing = now, nil
	return n.keep(&next)
}

// within reports whether a time is so short ago. One that is ahead comes from before the
// clock was set back, and is not.
func within(at time.Time, d time.Duration, now time.Time) bool {
	return !at.After(now) && now.Before(at.Add(d))
}

// begin reads what was told. In a new directory nothing of the past is.
func (n *Notifier) begin(ctx context.Context) error {
	s, damaged := Read(n.Path)
	if damaged == nil && s != nil {
		if s.Failing != nil && s.Failing.Next != "" {
			s.Failing.Until = time.Time{} // a person may have helped
		}
		n.state = s
		return nil
	}
	last, err := n.Store.LastEvent(ctx)
	if err != nil {
		return err
	}
	s = &State{Seq: last}
	if damaged != nil {
		recent, err := n.Store.Events(ctx, core.EventFilter{Since: n.Now().Add(-retold), Limit: 1})
		if err != nil {
			return err
		}
		if len(recent) > 0 {
			s.Seq = recent[0].Seq - 1
		}
		s.Lost = safe.Escape(fmt.Sprintf("what you were told is not known any more (%v): the last day is told again, and what is older may be missing", damaged))
	}
	return n.keep(s)
}

// keep keeps what was told.
func (n *Notifier) keep(s *State) error {
	old, _ := json.Marshal(n.state)
	data, err := json.Marshal(s)
	if err != nil || string(old) == string(data) {
		return err
	}
	n.state = s
	return durable.Replace(n.Path, append(data, '\n'))
}

// failed notes that a message was not taken.
func (n *Notifier) failed(why error) error {
	s, now := *n.state, n.Now().UTC()
	f := Failing{Since: now, Last: now, Tries: 1, Error: safe.Escape(why.Error())}
	if s.Failing != nil {
		f.Since, f.Tries = s.Failing.Since, s.Failing.Tries+1
	}
	wait := min(10*time.Second<<min(f.Tries-1, 8), longestPause)
	if r := (*Refused)(nil); errors.As(why, &r) {
		f.Next = safe.Escape(r.Next)
		switch {
		case r.After > 0:
			wait = min(r.After, longestAsked)
		case r.Next != "":
			wait = personPause
		}
	}
	f.Until = now.Add(wait)
	s.Failing = &f
	return n.keep(&s)
}

// atOnce bounds the events that are read together.
const atOnce = 1000

// news are the events since the last message that people are to hear of.
func (n *Notifier) news(ctx context.Context, s *State) (items []Item, err error) {
	for {
		events, err := n.Store.Events(ctx, core.EventFilter{After: s.Seq, Limit: atOnce})
		if err != nil {
			return nil, err
		}
		for i := range events {
			s.Seq = events[i].Seq
			if events[i].IncidentOf() != 0 {
				items = n.incident(items, &events[i])
				continue
			}
			item, err := n.item(ctx, &events[i])
			if err != nil {
				return nil, err
			}
			if item != nil && slices.Contains(n.What, item.Kind) {
				same := func(o Item) bool { return item.Kind != Retry && o.Kind == item.Kind && o.Task == item.Task }
				items = append(slices.DeleteFunc(items, same), *item) // of what came and went, the last
			}
		}
		if len(events) < atOnce {
			return items, n.follow(ctx, s)
		}
	}
}

// follow takes up the numbers of another store: one that was lost begins anew, a backup goes
// on where it was made.
func (n *Notifier) follow(ctx context.Context, s *State) error {
	last, err := n.Store.LastEvent(ctx)
	if err == nil && last < s.Seq {
		n.Log.Warn("the store is another one than before; people are told what happens from now on")
		s.Seq = last
	}
	return err
}
