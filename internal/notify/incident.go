package notify

import (
	"slices"

	"otm/core"
	"otm/internal/explain"
	"otm/internal/incident"
	"otm/internal/safe"
)

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
