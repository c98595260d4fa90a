package pipeline

import "testing"

var squad = Agents{
	{Name: "archibald", Label: "Archibald the Great"},
	{Name: "devdas", Label: "Devdas", User: "U0DEV"},
	{Name: "robin", Label: "Robin", User: "U0ROB", Person: true},
}

func TestAgentsNamed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"devdas", "devdas"}, {"DevDas", "devdas"}, {" devdas ", "devdas"},
		{"Archibald the Great", ""}, {"U0DEV", ""}, {"", ""}, {"ghost", ""},
	} {
		if got := nameOf(squad.Named(tt.in)); got != tt.want {
			t.Errorf("Named(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestAgentsAssigned(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"Archibald the Great", "archibald"}, {"archibald-the-great", "archibald"}, {"archibald", "archibald"},
		{"U0DEV", "devdas"}, {"u0dev", ""}, {"U0ROB", "robin"}, {"", ""}, {" - ", ""}, {"ghost", ""},
	} {
		if got := nameOf(squad.Assigned(tt.in)); got != tt.want {
			t.Errorf("Assigned(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestAgentsNearest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		agents   Agents
		in, want string
	}{
		{squad, "devda", "devdas"}, {squad, "ARCHIBLAD", "archibald"}, {nil, "devdas", ""}, {squad, "td", ""}, {squad, "somebody", ""},
	} {
		if got := tt.agents.Nearest(tt.in); got != tt.want {
			t.Errorf("Nearest(%q) among %d = %q, want %q", tt.in, len(tt.agents), got, tt.want)
		}
	}
}

func nameOf(a *Agent) string {
	if a == nil {
		return ""
	}
	return a.Name
}
