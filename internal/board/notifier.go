package board

import (
	"context"
	"sync"
)

// A notifier tells subscribers that something changed, not what. The zero
// value works.
type notifier struct {
	mu   sync.Mutex // guards subs, and the channels in it against use after close
	subs map[chan struct{}]struct{}
}

func (n *notifier) subscribe(ctx context.Context) <-chan struct{} {
	ch := make(chan struct{}, 1)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.subs == nil {
		n.subs = make(map[chan struct{}]struct{})
	}
	n.subs[ch] = struct{}{}
	context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.subs, ch)
		close(ch)
	})
	return ch
}

// notify never blocks: a subscriber that has not taken the last value still has
// it.
func (n *notifier) notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for ch := range n.subs {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
