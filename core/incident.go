package core

import (
	"cmp"
	"slices"
	"time"

	"otm/pipeline"
)

// Found is something that is wrong now.
type Found struct {
	// Key identifies the incident. It never comes from a sentence.
	Key      string            `json:"key"`
	Kind     string            `json:"kind"`            // in plain words, such as "gateway away"
	Err      string            `json:"err,omitempty"`   // its code in the specification, such as ERR-01; "": it is ours
	Severity int               `json:"severity"`        // 0: worth noting, 1: warning, 2: failure
	Task     pipeline.TaskID   `json:"task,omitzero"`   // 0: it concerns no single one
	About    string            `json:"about,omitempty"` // the agent, the component or the sink; "": none
	Code     string            `json:"code"`            // of the finding, with its arguments
	Args     map[string]string `json:"args,omitempty"`
}

// Incident is something wrong, from when it was found until it is over. If it comes back within
// [IncidentAgain], it is the same incident.
type Incident struct {
	ID       int64     `json:"id"`
	Found              // the worst that was found since it was opened
	FirstAt  time.Time `json:"firstAt"`           // when it was opened for the first time
	OpenedAt time.Time `json:"openedAt"`          // since when it stands, or stood
	ClosedAt time.Time `json:"closedAt,omitzero"` // zero: it stands
	Count    int       `json:"count"`             // how often it was opened
	Acted    int       `json:"acted,omitempty"`   // how often OTM acted on it
	Cause    string    `json:"cause,omitempty"`   // in a person's words
	CauseBy  string    `json:"causeBy,omitempty"`
}

// IncidentAgain is how soon after its end a condition has to be back to be the same incident.
const IncidentAgain = time.Hour

// of is the incident as its events name it.
func (i *Incident) of() OfIncident { return OfIncident{i.ID, i.Found} }

// Open reports whether the incident stands.
func (i *Incident) Open() bool { return i.ClosedAt.IsZero() }

// Hold is how long the condition has to be away before the incident is closed. It doubles
// each time that the condition comes back, so that one that comes and goes stays open.
func (i *Incident) Hold() time.Duration {
	if i.Count < 2 {
		return 0
	}
	return min(time.Minute<<min(i.Count-1, 6), IncidentAgain)
}

// IncidentFilter selects incidents. The zero value selects all.
type IncidentFilter struct {
	IDs   []int64   // nil: all
	Open  bool      // those that stand
	Since time.Time // those that stood at this time or later
}

// OfIncident is what each event about an incident has: which one, and what was found.
type OfIncident struct {
	Incident int64 `json:"incident"`
	Found
}

// about returns itself, for events that embed it.
func (o OfIncident) about() OfIncident { return o }

// IncidentOpened says that something was found wrong.
type IncidentOpened struct {
	OfIncident
	Since time.Time `json:"since"`           // when it was first seen
	Again bool      `json:"again,omitempty"` // it had been closed
}

// IncidentCorrected says that an incident became worse, that OTM acted on it, or that a person
// named its cause.
type IncidentCorrected struct {
	OfIncident
	Was   int    `json:"was"`             // the severity before
	Did   string `json:"did,omitempty"`   // what OTM did
	Cause string `json:"cause,omitempty"` // what led to it
}

// IncidentClosed says that a condition holds no more.
type IncidentClosed struct{ OfIncident }

// DayEnded says that a day is over, and that incidents came up in it. Several days count as
// one if nobody looked in between.
type DayEnded struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"` // the midnight at its end
}

// Watch opens, updates and closes incidents. It changes nothing where another process was
// first.
type Watch struct {
	Found []Seen
	Gone  []Incident // as they were when their conditions were looked for, and not found
	Acted []Act
}

// Seen is something that is wrong, and since when that is known.
type Seen struct {
	Found
	Since time.Time
}

// Act is an action of OTM on an incident.
type Act struct {
	Incident int64
	Did      string
}

func (w Watch) decide(d *decision) error {
	for _, f := range w.Found {
		found(d, &f)
	}
	for _, a := range w.Acted {
		if i := d.State.Incidents[a.Incident]; i != nil && i.Open() {
			emitIncident(d, i, IncidentCorrected{OfIncident: i.of(), Was: i.Severity, Did: a.Did})
		}
	}
	for _, was := range w.Gone {
		if i := d.State.Incidents[was.ID]; i != nil && i.Open() && i.Count == was.Count {
			emitIncident(d, i, IncidentClosed{i.of()})
		}
	}
	return nil
}

// found opens an incident, or notes that it became worse.
func found(d *decision, f *Seen) {
	var last *Incident
	for _, i := range d.State.Incidents {
		if i.Key == f.Key && (last == nil || last.ID < i.ID) {
			last = i
		}
	}
	switch {
	case last == nil || !last.Open() && d.At.Sub(last.ClosedAt).Abs() > IncidentAgain:
		i := &Incident{ID: d.State.LastIncident + 1, Found: f.Found}
		emitIncident(d, i, IncidentOpened{OfIncident: OfIncident{i.ID, f.Found}, Since: f.Since.UTC()})
	case !last.Open():
		emitIncident(d, last, IncidentOpened{OfIncident: OfIncident{last.ID, f.Found}, Since: f.Since.UTC(), Again: true})
	case last.Severity < f.Severity:
		emitIncident(d, last, IncidentCorrected{OfIncident: OfIncident{last.ID, f.Found}, Was: last.Severity})
	}
}

// emitIncident notes that something happened to an incident.
func emitIncident(d *decision, i *Incident, data Data) {
	agent := d.Agent
	d.Agent = i.Args["agent"]
	d.emitOn(i.Task, d.By, d.At, data)
	d.Agent = agent
}

// TagIncident notes the cause of an incident.
type TagIncident struct {
	ID    int64
	Cause string
}

func (t TagIncident) decide(d *decision) error {
	i := d.State.Incidents[t.ID]
	if i == nil {
		return ErrNoIncident
	}
	if i.Cause != t.Cause {
		emitIncident(d, i, IncidentCorrected{OfIncident: i.of(), Was: i.Severity, Cause: t.Cause})
	}
	return nil
}

// EndDay notes that a day is over. The id of its command names the day.
type EndDay struct{ DayEnded }

func (e EndDay) decide(d *decision) error {
	d.emitOn(0, d.By, d.At, e.DayEnded)
	return nil
}

// IncidentsOf reports whether the decision of an action needs incidents: those that are open or
// ended less than [IncidentAgain] ago, and the one of an id.
func IncidentsOf(a Action) (id int64, needs bool) {
	switch a := a.(type) {
	case Watch:
		return 0, true
	case TagIncident:
		return a.ID, true
	}
	return 0, false
}

// IncidentOf is the incident that an event is about; 0: it is about none.
func (e *Event) IncidentOf() int64 {
	o, _ := e.ofIncident()
	return o.Incident
}

// ofIncident reports whether an event is about an incident, and returns which one.
func (e *Event) ofIncident() (OfIncident, bool) {
	data, is := e.Data.(interface{ about() OfIncident })
	if !is {
		return OfIncident{}, false
	}
	return data.about(), true
}

// applyIncident is the effect of an event about an incident. It replaces the incident in the
// map, and leaves the old one as it is.
func applyIncident(s *State, e *Event) {
	if s.Incidents == nil {
		s.Incidents = map[int64]*Incident{}
	}
	id := e.IncidentOf()
	i := &Incident{ID: id, FirstAt: e.At}
	if was := s.Incidents[id]; was != nil {
		*i = *was
	}
	s.Incidents[id], s.LastIncident = i, max(s.LastIncident, id)
	switch data := e.Data.(type) {
	case IncidentOpened:
		i.Found, i.OpenedAt, i.ClosedAt = data.Found, data.Since, time.Time{}
		i.Count++
	case IncidentCorrected:
		i.Found = data.Found
		if data.Did != "" {
			i.Acted++
		}
		if data.Cause != "" {
			i.Cause, i.CauseBy = data.Cause, e.By.Name
		}
	case IncidentClosed:
		i.ClosedAt = e.At
	}
}

// SortIncidents puts those that stand first, then the latest.
func SortIncidents(all []*Incident) {
	slices.SortFunc(all, func(a, b *Incident) int {
		if a.Open() != b.Open() {
			if a.Open() {
				return -1
			}
			return 1
		}
		return cmp.Or(b.OpenedAt.Compare(a.OpenedAt), cmp.Compare(b.ID, a.ID))
	})
}
