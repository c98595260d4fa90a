package gatewaytest

import (
	"slices"
	"sync"
)

// seen is what the gateway did, for tests.
type seen struct {
	lock *sync.Mutex // the gateway's mu; guards what follows

	runs     []Run
	requests []Request
	dials    int // upgrades asked for
	pongs    int
	fileErr  error
}

// Runs returns the runs that were executed, in the order in which they began.
func (s *seen) Runs() []Run {
	s.lock.Lock()
	defer s.lock.Unlock()
	return slices.Clone(s.runs)
}

// RunsOf returns the runs that were executed for one idempotency key.
func (s *seen) RunsOf(key string) []Run {
	return slices.DeleteFunc(s.Runs(), func(r Run) bool { return r.Key != key })
}

// Requests returns what was asked after handshakes, in the order of arrival.
func (s *seen) Requests() []Request {
	s.lock.Lock()
	defer s.lock.Unlock()
	return slices.Clone(s.requests)
}

// Asked returns how many requests of method agent came under a key.
func (s *seen) Asked(key string) int {
	n := 0
	for _, r := range s.Requests() {
		if r.Method == "agent" && r.Key == key {
			n++
		}
	}
	return n
}

// Pongs returns how many of the gateway's pings were answered.
func (s *seen) Pongs() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.pongs
}

// Dials returns how many upgrades were asked for.
func (s *seen) Dials() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.dials
}
