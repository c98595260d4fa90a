package pipeline

import (
	"slices"
	"strings"
	"testing"
)

func TestParseStatus(t *testing.T) {
	t.Parallel()
	for _, s := range Statuses {
		for _, label := range []string{string(s), strings.ToUpper(string(s)), strings.ReplaceAll(string(s), "_", " "), " " + strings.ReplaceAll(string(s), "_", "-")} {
			if got, ok := ParseStatus(label); got != s || !ok {
				t.Errorf("ParseStatus(%q) = %q, %v; want %q", label, got, ok, s)
			}
		}
	}
	for _, label := range []string{"", " ", "completed", "agentdone", "in progress now", "new\x00"} {
		if got, ok := ParseStatus(label); ok {
			t.Errorf("ParseStatus(%q) = %q, want it refused", label, got)
		}
	}
}

// TestStatusKinds lists for every state what it counts as.
func TestStatusKinds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status                     Status
		active, finished, stepDone bool
	}{
		{New, false, false, false},
		{Assigned, true, false, false},
		{Pending, false, false, false},
		{InProgress, true, false, false},
		{Blocked, true, false, false},
		{AgentDone, false, true, true},
		{Done, false, true, true},
		{Rejected, false, true, false},
		{Failed, false, true, false},
		{Cancelled, false, true, false},
		{Dormant, false, false, false},
		{Archived, false, true, false},
		{"", false, false, false},
		{"unheard_of", false, false, false},
	}
	seen := 0
	for _, tt := range tests {
		if slices.Contains(Statuses, tt.status) {
			seen++
		}
		if got := tt.status.Active(); got != tt.active {
			t.Errorf("%q.Active() = %v, want %v", tt.status, got, tt.active)
		}
		if got := tt.status.Finished(); got != tt.finished {
			t.Errorf("%q.Finished() = %v, want %v", tt.status, got, tt.finished)
		}
		if got := tt.status.StepDone(); got != tt.stepDone {
			t.Errorf("%q.StepDone() = %v, want %v", tt.status, got, tt.stepDone)
		}
	}
	if seen != len(Statuses) {
		t.Errorf("the table has %d of the %d states", seen, len(Statuses))
	}
}

func TestWhoSets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status Status
		want   string
	}{
		{New, "somebody sends it back"}, {Assigned, "the dispatcher sets assigned"}, {Done, "after review"},
		{Pending, "OTM sets pending"}, {Dormant, "a person sets dormant"}, {Rejected, "a reviewing agent sets rejected"},
		{Cancelled, "a reviewing agent sets cancelled"}, {Archived, "a person sets archived"},
	} {
		if got := WhoSets(tt.status); !strings.Contains(got, tt.want) {
			t.Errorf("WhoSets(%q) = %q, want it to say %q", tt.status, got, tt.want)
		}
	}
}
