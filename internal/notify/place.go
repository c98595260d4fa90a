package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"otm/core"
	"otm/internal/durable"
	"otm/internal/safe"
)

// Place is where an outlet is in the events of the store. A file keeps it.
type Place struct {
	Name  string // of the outlet
	Store core.Store
	Path  string      // of the file
	Off   func() bool // reports whether nobody is to be told anything now
	Now   func() time.Time
	Log   *slog.Logger

	state *State
}

const (
	lookEvery = time.Second
	// longestPause is the longest pause after a message that was not taken.
	longestPause = 10 * time.Minute
	// personPause is the pause where only a person can help. A start ends it.
	personPause = time.Hour
	// longestAsked is the longest pause that an outlet may ask for.
	longestAsked = 24 * time.Hour
	// retold is how far back the news are told again if the state was lost.
	retold = 24 * time.Hour
)

// State is how far an outlet was told, as its file has it.
type State struct {
	Seq  int64  `json:"seq"`            // of the last event that was told, or is no news
	Lost string `json:"lost,omitempty"` // a warning that the state was lost, for the next message; "": none
	// Until is, of the audit, the last event that may have been told already.
	Until int64 `json:"until,omitempty"`
	// Failing is since when messages are not taken, and why; nil: they are.
	Failing *Failing `json:"failing,omitempty"`
}

// Failing says that messages are not taken.
type Failing struct {
	Since time.Time     `json:"since"`
	Last  time.Time     `json:"last"`
	Wait  time.Duration `json:"wait"` // after Last, to the next try
	Tries int           `json:"tries"`
	Error string        `json:"error"`
	Next  string        `json:"next,omitempty"` // see Refused
	// Unread says that the outlet was not asked: the news could not be read.
	Unread bool `json:"unread,omitempty"`
}

// Read reads the state of an outlet; nil: it has none yet.
func Read(path string) (*State, error) {
	data, err := durable.ReadFile(path)
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

// run calls once again and again until ctx ends.
func (p *Place) run(ctx context.Context, once func(context.Context) error) error {
	for {
		if err := once(ctx); err != nil && ctx.Err() == nil {
			p.Log.Warn("people were not told", "outlet", p.Name, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookEvery):
		}
	}
}

// ready reports whether the outlet may be told something now.
func (p *Place) ready(ctx context.Context) (bool, error) {
	if p.state == nil {
		if err := p.begin(ctx); err != nil {
			return false, err
		}
	}
	f := p.state.Failing
	if f != nil && os.Remove(p.Path+mendedSuffix) == nil {
		s := *p.state
		s.Failing, f = nil, nil
		if err := p.keep(&s); err != nil {
			return false, err
		}
	}
	return !p.Off() && (f == nil || !within(f.Last, f.Wait, p.Now())), nil
}

// begin reads the state. Without one, people are told what happens from now on.
func (p *Place) begin(ctx context.Context) error {
	s, damaged := Read(p.Path)
	if damaged == nil && s != nil {
		if s.Failing != nil && s.Failing.Next != "" {
			s.Failing.Wait = 0 // a person may have helped
		}
		p.state = s
		return nil
	}
	last, err := p.Store.LastEvent(ctx)
	if err != nil {
		return err
	}
	s = &State{Seq: last}
	if damaged != nil {
		recent, err := p.Store.Events(ctx, core.EventFilter{Since: p.Now().Add(-retold), Limit: 1})
		if err != nil {
			return err
		}
		if len(recent) > 0 {
			s.Seq, s.Until = recent[0].Seq-1, last
		}
		s.Lost = safe.Escape(fmt.Sprintf("what you were told is not known any more (%v): the last day is told again, and what is older may be missing", damaged))
	}
	return p.keep(s)
}

// keep writes the state, if it changed.
func (p *Place) keep(s *State) error {
	old, _ := json.Marshal(p.state)
	data, err := json.Marshal(s)
	if err != nil || string(old) == string(data) {
		return err
	}
	p.state = s
	return durable.Replace(p.Path, append(data, '\n'))
}

// unread notes that the news could not be read. A stop is no failure.
func (p *Place) unread(ctx context.Context, why error) error {
	if ctx.Err() != nil {
		return why
	}
	return errors.Join(why, p.failed(fmt.Errorf("the news cannot be read: %w", why), true))
}

// readAgain drops the note that the news could not be read.
func (s *State) readAgain() {
	if s.Failing != nil && s.Failing.Unread {
		s.Failing = nil
	}
}

// mendedSuffix follows the path of a state in the name of the file that says it was mended.
const mendedSuffix = ".mended"

// EndPause notes that an outlet which did not take messages took one: somebody mended it. path
// is that of its state.
func EndPause(path string) error {
	s, err := Read(path)
	if err != nil || s == nil || s.Failing == nil {
		return err
	}
	return durable.Replace(path+mendedSuffix, nil)
}

// failed notes that a message was not taken, or that the news could not be read.
func (p *Place) failed(why error, unread bool) error {
	s, now := *p.state, p.Now().UTC()
	f := Failing{Since: now, Last: now, Tries: 1, Error: safe.Escape(why.Error()), Unread: unread}
	if s.Failing != nil {
		f.Since, f.Tries = s.Failing.Since, s.Failing.Tries+1
	}
	f.Wait = min(10*time.Second<<min(f.Tries-1, 8), longestPause)
	if r, ok := errors.AsType[*Refused](why); ok {
		f.Next = safe.Escape(r.Next)
		switch {
		case r.After > 0:
			f.Wait = min(r.After, longestAsked)
		case r.Next != "":
			f.Wait = personPause
		}
	}
	s.Failing = &f
	return p.keep(&s)
}

// follow takes up the numbers of another store: one that was lost begins anew, a backup goes
// on where it was made.
func (p *Place) follow(ctx context.Context, s *State) error {
	last, err := p.Store.LastEvent(ctx)
	if err == nil && last < s.Seq {
		p.Log.Warn("the store is another one than before; people are told what happens from now on")
		s.Seq, s.Until = last, 0
	}
	return err
}
