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
//
// The [Audit] mirrors the events of each task in a thread of a Slack channel.
package notify

import (
	"context"
	"errors"
	"slices"
	"time"

	"otm/core"
	"otm/internal/explain"
	"otm/internal/incident"
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
	Place
	Outlet Outlet
	What   []Kind
	Types  pipeline.Types
	Person func(name string) bool // reports whether a name is a person's
	Quiet  func(time.Time) bool   // reports whether a time lies in the quiet hours

	sent time.Time // when the last message was taken
}

const (
	// gather is how long news of tasks wait for others, and the least time between two
	// messages. It keeps to the limits of chats: one message a second, and 20 a minute.
	gather = 5 * time.Second
	// maxItems bounds the items of a message; the newest are kept.
	maxItems = 50
)

// Run tells until ctx ends.
func (n *Notifier) Run(ctx context.Context) error { return n.run(ctx, n.Once) }

// Once looks for news and tells them, if it is time. It begins with what happens after its
// first call in a directory.
func (n *Notifier) Once(ctx context.Context) error {
	now := n.Now()
	if ready, err := n.ready(ctx); err != nil || !ready || within(n.sent, gather, now) {
		return err
	}
	if n.Quiet(now) {
		loud, err := n.Store.Events(ctx, core.EventFilter{After: n.state.Seq, Types: incidents, Limit: 1})
		if err != nil {
			return n.unread(ctx, err)
		}
		if len(loud) == 0 {
			return nil
		}
	}
	next := *n.state
	items, err := n.news(ctx, &next)
	if err != nil {
		return n.unread(ctx, err)
	}
	next.readAgain()
	if next.Lost != "" {
		items, next.Lost = append(items, problem(Item{At: now.UTC(), Next: "otm events --since 24h"}, next.Lost)), ""
	}
	if len(items) == 0 {
		if f := next.Failing; f != nil && f.Next == "" {
			next.Failing = nil // what was not taken is no news any more
		}
		return n.keep(&next)
	}
	urgent := slices.ContainsFunc(items, func(i Item) bool { return i.Kind == Problem })
	if !urgent && (n.Quiet(now) || within(items[0].At, gather, now)) {
		return nil // they are found again
	}
	switch err := n.Outlet.Tell(ctx, message(items)); {
	case err != nil && ctx.Err() != nil:
		return err // a stop is no failure
	case err != nil:
		return errors.Join(err, n.failed(err, false))
	}
	n.sent, next.Failing = now, nil
	return n.keep(&next)
}

// within reports whether a time is so short ago. One that is ahead comes from before the
// clock was set back, and is not.
func within(at time.Time, d time.Duration, now time.Time) bool {
	return !at.After(now) && now.Before(at.Add(d))
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
				same := func(o Item) bool {
					return item.Kind != Retry && item.Kind != Mention && o.Kind == item.Kind && o.Task == item.Task
				}
				items = append(slices.DeleteFunc(items, same), *item) // of what came and went, the last
			}
		}
		if len(events) < atOnce {
			return items, n.follow(ctx, s)
		}
	}
}

// incidents are the types of events about incidents.
var incidents = []string{"IncidentOpened", "IncidentCorrected", "IncidentClosed"}

// incident adds the event of an incident to the news. An incident that was opened and closed
// since the last message is no news, and neither is one that was closed and opened again.
func (n *Notifier) incident(items []Item, e *core.Event) []Item {
	var f core.Found
	told, over := false, false
	switch data := e.Data.(type) {
	case core.IncidentOpened:
		f = data.Found
	case core.IncidentCorrected:
		if f, told = data.Found, data.Was > 0; data.Was == f.Severity {
			return items // it is no worse
		}
	case core.IncidentClosed:
		f, told, over = data.Found, true, true
	}
	if f.Severity == 0 || f.Code == string(explain.NotifyOff) || f.Args["outlet"] == n.Name || !slices.Contains(n.What, Problem) {
		return items
	}
	item := Item{
		At: e.At, Task: f.Task, Agent: f.Args["agent"], Code: explain.Code(f.Code), Err: f.Err,
		Over: over, Incident: e.IncidentOf(), Update: e.Seq, told: told,
	}
	if i := slices.IndexFunc(items, func(o Item) bool { return o.Incident == item.Incident }); i >= 0 {
		was := items[i]
		items = slices.Delete(items, i, i+1)
		if over != was.Over && was.told == was.Over {
			return items
		}
		item.told = was.told
	}
	finding := incident.Finding(&f)
	if over {
		return append(items, problem(item, "over: "+safe.Escape(explain.Fact(&finding, n.Now()))))
	}
	says := explain.Tell(finding, n.Now())
	item.Next, item.Or = safe.Escape(says.Hint), safe.Escape(says.Or)
	return append(items, problem(item, safe.Escape(says.Text)))
}
