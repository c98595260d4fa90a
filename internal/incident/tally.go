package incident

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"otm/core"
	"otm/internal/explain"
)

// Counts count the incidents of one code.
type Counts struct {
	Opened    int `json:"opened"`
	Corrected int `json:"autoCorrected"` // ended after OTM did something about it
	Escalated int `json:"escalated"`     // people were told, where [notify] says how
}

// Tally counts the incidents of one code, or of one kind that has none.
type Tally struct {
	Code   string    `json:"code,omitempty"`
	Kind   string    `json:"kind"`
	First  time.Time `json:"first,omitzero"`
	Last   time.Time `json:"last,omitzero"`
	Total  Counts    `json:"total"`
	Period Counts    `json:"period"` // in the time that was asked for
}

// Name is the code and the kind.
func (t *Tally) Name() string { return strings.TrimSpace(t.Code + " " + t.Kind) }

// counter counts events.
type counter struct {
	from, to time.Time
	tallies  []*Tally
	acted    map[int64]bool // incidents that stand, about which OTM did something
}

// begins are the types of the events that are counted as opened.
var begins = []string{"IncidentOpened", "ReconciliationDrift", "StepRepeated"}

// Tallies counts all incidents by their codes, also those of the specification of which
// there were none. The period is from a time until before another one.
func Tallies(ctx context.Context, store core.Reader, from, to time.Time) ([]*Tally, error) {
	return tallies(ctx, store, from, to, time.Time{})
}

// tallies counts the events since a time; zero: all.
func tallies(ctx context.Context, store core.Reader, from, to, since time.Time) ([]*Tally, error) {
	c := &counter{from: from, to: to, acted: map[int64]bool{}}
	for _, s := range explain.Specified {
		c.tallies = append(c.tallies, &Tally{Code: s.Err, Kind: s.Kind})
	}
	types := append([]string{"IncidentCorrected", "IncidentClosed"}, begins...)
	events, err := store.Events(ctx, core.EventFilter{Types: types, Since: since, Archived: true})
	for i := range events {
		c.count(&events[i])
	}
	return c.tallies, err
}

func (c *counter) count(e *core.Event) {
	switch data := e.Data.(type) {
	case core.IncidentOpened:
		c.add(e, data.Err, data.Kind, Counts{Opened: 1, Escalated: min(data.Severity, 1)})
	case core.IncidentCorrected:
		if data.Did != "" {
			c.acted[data.Incident] = true
		}
		if data.Was == 0 && data.Severity > 0 {
			c.add(e, data.Err, data.Kind, Counts{Escalated: 1})
		}
	case core.IncidentClosed:
		if c.acted[data.Incident] {
			c.add(e, data.Err, data.Kind, Counts{Corrected: 1})
		}
		delete(c.acted, data.Incident)
	case core.ReconciliationDrift:
		c.add(e, e.Code(), "", Counts{Opened: 1, Corrected: 1})
	case core.StepRepeated:
		c.add(e, e.Code(), "", Counts{Opened: 1})
	}
}

func (c *counter) add(e *core.Event, code, kind string, n Counts) {
	i := slices.IndexFunc(c.tallies, func(t *Tally) bool { return t.Code == code && (code != "" || t.Kind == kind) })
	if i < 0 {
		i = len(c.tallies)
		c.tallies = append(c.tallies, &Tally{Code: code, Kind: kind})
	}
	t := c.tallies[i]
	if n.Opened > 0 {
		if t.First.IsZero() {
			t.First = e.At
		}
		t.Last = e.At
	}
	t.Total.add(n)
	if !e.At.Before(c.from) && e.At.Before(c.to) {
		t.Period.add(n)
	}
}

func (c *Counts) add(n Counts) {
	c.Opened += n.Opened
	c.Corrected += n.Corrected
	c.Escalated += n.Escalated
}

// Day counts the incidents of a day, or of several.
type Day struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Codes []*Tally  `json:"codes"` // the most frequent first
	New   []string  `json:"new"`   // those that came up for the first time
	Counts
}

// recentDays is how many days before a day are read first to count it.
const recentDays = 30

// Daily counts the incidents from a time until before another one. It reads older events,
// which are in archives, only where an incident seems to come up for the first time.
func Daily(ctx context.Context, store core.Reader, from, to time.Time) (*Day, error) {
	all, err := tallies(ctx, store, from, to, from.AddDate(0, 0, -recentDays))
	if err != nil {
		return nil, err
	}
	d := newDay(all, from, to)
	if len(d.New) == 0 {
		return d, nil
	}
	if all, err = Tallies(ctx, store, from, to); err != nil {
		return nil, err
	}
	return newDay(all, from, to), nil
}

func newDay(all []*Tally, from, to time.Time) *Day {
	d := &Day{From: from, To: to, New: []string{}}
	for _, t := range all {
		d.add(t.Period)
		if t.Period.Opened > 0 && !t.First.Before(from) {
			d.New = append(d.New, t.Name())
		}
	}
	d.Codes = slices.DeleteFunc(all, func(t *Tally) bool { return t.Period.Opened == 0 })
	slices.SortStableFunc(d.Codes, func(a, b *Tally) int { return cmp.Compare(b.Period.Opened, a.Period.Opened) })
	return d
}

// Text is the day in one line.
func (d *Day) Text() string {
	day, last := d.From.Format(time.DateOnly), d.To.Add(-1).Format(time.DateOnly)
	if last != day {
		day += " to " + last
	}
	if len(d.Codes) == 0 {
		return day + ": no incident"
	}
	var codes []string
	for _, t := range d.Codes {
		codes = append(codes, fmt.Sprintf("%s: %d", t.Name(), t.Period.Opened))
	}
	text := fmt.Sprintf("%s: %s (%s); OTM put %d right by itself", day, explain.Count(d.Opened, "incident", "incidents"), strings.Join(codes, ", "), d.Corrected)
	if len(d.New) > 0 {
		text += "; for the first time: " + strings.Join(d.New, ", ")
	}
	return text
}

// endDay notes the end of the days before now, once, if incidents came up in them.
func (w *Watcher) endDay(ctx context.Context, now time.Time) error {
	midnight := startOfDay(now)
	if w.day.Equal(midnight) {
		return nil
	}
	from := midnight.AddDate(0, 0, -1)
	last, err := w.Store.Events(ctx, core.EventFilter{Types: []string{"DayEnded"}, Last: true})
	if err == nil && len(last) > 0 { // in days before that one nobody looked
		last, err = w.Store.Events(ctx, core.EventFilter{After: last[0].Seq, Types: begins, Limit: 1})
		if len(last) > 0 {
			from = slices.MinFunc([]time.Time{from, startOfDay(last[0].At.In(now.Location()))}, time.Time.Compare)
		}
	}
	if err != nil {
		return err
	}
	came, err := w.Store.Events(ctx, core.EventFilter{Types: begins, Since: from})
	inDays := func(e core.Event) bool { return e.At.Before(midnight) }
	if err == nil && slices.ContainsFunc(came, inDays) {
		ended := core.DayEnded{From: from.UTC(), To: midnight.UTC()}
		err = w.do(ctx, core.Command{ID: "end of " + midnight.Add(-1).Format(time.DateOnly), Do: core.EndDay{DayEnded: ended}})
	}
	if err == nil {
		w.day = midnight
	}
	return err
}

func startOfDay(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, t.Location())
}
