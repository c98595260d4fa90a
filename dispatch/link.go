package dispatch

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"time"

	"otm/internal/durable"
)

// Link says whether a resident dispatcher is connected to the gateway. It is
// board/gateway.json. It is stale if the dispatcher's heartbeat is: a killed
// dispatcher leaves it behind.
type Link struct {
	Up     bool      `json:"up"`
	Since  time.Time `json:"since"`            // of the connection, or of its loss
	Reason string    `json:"reason,omitempty"` // a gateway.Reason if the gateway refuses us; "": it cannot be reached
	Error  string    `json:"error,omitempty"`  // why it is not up, for people
	Next   string    `json:"next,omitempty"`   // what a person can do about Reason
	// Outages are when it was not up, the oldest first. What happened before is forgotten.
	Outages []Outage `json:"outages,omitempty"`
}

// Outage is a time in which the gateway could not be reached.
type Outage struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// maxOutages bounds the outages that a link remembers.
const maxOutages = 100

// Turned returns the link after it came up or was lost at a time.
func (l Link) Turned(up bool, now time.Time) Link {
	switch {
	case l.Up == up && !l.Since.IsZero():
		return l
	case up && !l.Since.IsZero():
		l.Outages = append(slices.Clone(l.Outages), Outage{l.Since, now})
		l.Outages = l.Outages[max(0, len(l.Outages)-maxOutages):]
	}
	l.Up, l.Since = up, now
	return l
}

// Away is for how long the gateway could not be reached since a time. No silence is
// measured meanwhile.
func (l *Link) Away(since, now time.Time) (away time.Duration) {
	if l == nil {
		return 0
	}
	within := func(from, to time.Time) {
		if to.After(now) {
			to = now
		}
		away += max(0, to.Sub(later(from, since)))
	}
	for _, o := range l.Outages {
		within(o.From, o.To)
	}
	if !l.Up {
		within(l.Since, now)
	}
	return away
}

// LinkPath is the path of the link in a data directory.
func LinkPath(dir string) string { return filepath.Join(dir, "board", "gateway.json") }

// ReadLink reads the link. The error matches fs.ErrNotExist if no resident
// dispatcher of this directory uses a gateway.
func ReadLink(dir string) (Link, error) {
	var l Link
	data, err := durable.ReadFile(LinkPath(dir))
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	return l, err
}

// WriteLink replaces the link. It is not durable: after a crash the link is stale.
func WriteLink(dir string, l Link) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return durable.ReplaceVolatile(LinkPath(dir), append(data, '\n'))
}
