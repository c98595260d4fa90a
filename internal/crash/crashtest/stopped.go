package crashtest

import (
	"context"
	"sync/atomic"
	"testing"
)

// Stopped is a context that ends at one step of what is done in it.
type Stopped struct {
	context.Context
	stop  context.CancelFunc
	now   func() bool
	place atomic.Value // a string, where it ended
	over  atomic.Bool
}

// NewStopped makes one that ends when now says so.
func NewStopped(t testing.TB, now func() bool) *Stopped {
	s := &Stopped{now: now}
	s.Context, s.stop = context.WithCancel(t.Context())
	t.Cleanup(s.stop)
	return s
}

// Step is a step that is about to be taken. Where the context ends at it, the
// cause is returned, as of a lock that was waited for.
func (s *Stopped) Step(_, place string) error {
	if s.over.Load() || !s.now() {
		return nil
	}
	s.place.Store(place)
	s.stop()
	return context.Cause(s)
}

// Over has nothing end any more, and returns where the context ended; "": nowhere.
func (s *Stopped) Over() string {
	s.over.Store(true)
	place, _ := s.place.Load().(string)
	return place
}
