// Package incident opens an incident when a finding holds, closes it when the finding holds no
// more, and counts incidents. It judges nothing itself: findings come from internal/view.
package incident

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"otm/core"
	"otm/internal/explain"
)

// Watcher opens and closes incidents. It is for one goroutine. Several may watch one
// directory: the store takes each change once.
type Watcher struct {
	Store core.Store
	// Find returns all that is wrong now, and what is worth noting. After an error nothing
	// is opened or closed.
	Find  func(context.Context) ([]explain.Finding, error)
	By    core.Actor
	Now   func() time.Time
	Log   *slog.Logger
	Every time.Duration // between two looks; zero: LookEvery
	Beat  func()        // called when a look was made; nil: nothing is

	seen    map[string]time.Time // since when a finding without an incident holds, by key
	gone    map[int64]time.Time  // since when the condition of an incident that stands is away
	settles bool                 // a finding, or the end of one, does not count yet
	looked  time.Time            // zero: never
	until   time.Time            // nothing is judged before this time
	begun   bool
	events  int64     // the last event that was looked at for what OTM did
	day     time.Time // the midnight up to which the days were ended
}

const (
	// LookEvery is the time between two looks at what is wrong.
	LookEvery = time.Minute
	// settled is how long a finding has to hold, or to be away, before that counts.
	settled = 5 * time.Second
	// After a jump of the clock, such as when a laptop slept, heartbeats look stale. Programs
	// have graceAfterJump to beat again.
	jump           = 5 * time.Minute
	graceAfterJump = 3 * time.Minute
)

// Run looks until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	w.Every = cmp.Or(w.Every, LookEvery)
	for {
		if err := w.Look(ctx); err != nil && ctx.Err() == nil {
			w.Log.Warn("incidents were not looked for", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(w.pause()):
		}
	}
}

// pause is the time until the next look. It is short while something has to settle.
func (w *Watcher) pause() time.Duration {
	if w.settles {
		return min(w.Every, settled)
	}
	return w.Every
}

// Look looks once.
func (w *Watcher) Look(ctx context.Context) error {
	now := w.Now().Round(0) // by the wall clock: the monotonic one knows no jump and no sleep
	if !w.looked.IsZero() && now.Sub(w.looked).Abs() > jump {
		w.until = now.Add(graceAfterJump)
	}
	w.looked = now
	if now.Before(w.until) && w.until.Sub(now) <= graceAfterJump {
		w.beat()
		return nil
	}
	found, err := w.Find(ctx)
	if err != nil {
		return err
	}
	stand, err := w.Store.Incidents(ctx, core.IncidentFilter{Open: true})
	if err != nil {
		return err
	}
	watch := w.compare(Worst(found), stand, now)
	if watch.Acted, err = w.acted(ctx, stand); err != nil {
		return err
	}
	if len(watch.Found)+len(watch.Gone)+len(watch.Acted) > 0 {
		if err := w.do(ctx, core.Command{Do: watch}); err != nil {
			return err
		}
	}
	w.beat()
	if err := w.endDay(ctx, now); err != nil && ctx.Err() == nil { // the next look tries again
		w.Log.Warn("the end of the day was not noted", "err", err)
	}
	return nil
}

func (w *Watcher) beat() {
	if w.Beat != nil {
		w.Beat()
	}
}

func (w *Watcher) do(ctx context.Context, c core.Command) error {
	c.At, c.By = w.looked, w.By
	_, err := core.DoOne(ctx, w.Store, c)
	return err
}

// Of returns a finding in the form of the engine.
func Of(f *explain.Finding) core.Found {
	c := f.Condition()
	return core.Found{
		Key: f.Key(), Kind: c.Kind, Err: c.Err, Severity: f.Level().Severity(), Task: f.Task, About: f.About(), Code: string(f.Code), Args: f.Args,
	}
}

// Finding returns the finding of an incident, which has words for people.
func Finding(f *core.Found) explain.Finding {
	return explain.Finding{Code: explain.Code(f.Code), Task: f.Task, Args: f.Args}
}

// Worst returns the worst finding of each key.
func Worst(found []explain.Finding) map[string]core.Found {
	all := map[string]core.Found{}
	for i := range found {
		f := Of(&found[i])
		if was, ok := all[f.Key]; !ok || was.Severity < f.Severity {
			all[f.Key] = f
		}
	}
	return all
}

// compare returns the incidents to open and to close.
func (w *Watcher) compare(found map[string]core.Found, stand []*core.Incident, now time.Time) (watch core.Watch) {
	open := map[string]*core.Incident{}
	for _, i := range stand {
		open[i.Key] = i
	}
	seen, gone := map[string]time.Time{}, map[int64]time.Time{}
	w.settles = false
	for _, key := range slices.Sorted(maps.Keys(found)) {
		f := found[key]
		since := earlier(w.seen[key], now)
		switch i := open[key]; {
		case i != nil && i.Severity < f.Severity, i == nil && now.Sub(since) >= settled:
			watch.Found = append(watch.Found, core.Seen{Found: f, Since: since})
		case i == nil:
			w.settles = true
		}
		seen[key] = since
	}
	for _, i := range stand {
		if _, holds := found[i.Key]; holds {
			continue
		}
		since := earlier(w.gone[i.ID], now)
		if now.Sub(since) >= max(settled, i.Hold()) {
			watch.Gone = append(watch.Gone, *i)
		}
		w.settles = w.settles || now.Sub(since) < settled
		gone[i.ID] = since
	}
	w.seen, w.gone = seen, gone
	return watch
}

// earlier is a time that was noted; now, if none was, or the clock was set back since.
func earlier(noted, now time.Time) time.Time {
	if noted.IsZero() || noted.After(now) {
		return now
	}
	return noted
}

// acted lists the incidents whose agents OTM has woken since the last look.
func (w *Watcher) acted(ctx context.Context, stand []*core.Incident) (acts []core.Act, err error) {
	last, err := w.Store.LastEvent(ctx)
	if err != nil || !w.begun || last < w.events || len(stand) == 0 {
		w.events, w.begun = last, err == nil
		return nil, err
	}
	events, err := w.Store.Events(ctx, core.EventFilter{After: w.events, Types: []string{"Notified"}})
	if err != nil {
		return nil, err
	}
	w.events = last
	for _, e := range events {
		w.events = max(last, e.Seq)
		for _, i := range stand {
			if e.Data.(core.Notified).First && i.Err != "" && core.SameAgent(i.Args["agent"], e.Agent) {
				acts = append(acts, core.Act{Incident: i.ID, Did: "woken again"})
			}
		}
	}
	return acts, nil
}
