package pipeline

import (
	"slices"
	"testing"
)

func TestParsePriority(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		want Priority // "": refused
	}{
		{"critical", Critical}, {"high", High}, {"normal", Normal}, {"low", Low}, {"batchable", Batchable},
		{"medium", Normal}, {"Medium", Normal}, {" HIGH ", High},
		{"", ""}, {"urgent", ""}, {"hi gh", ""},
	} {
		got, ok := ParsePriority(tt.in)
		if ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("ParsePriority(%q) = %q, %v; want %q", tt.in, got, ok, tt.want)
		}
	}
}

func TestPriorityRank(t *testing.T) {
	t.Parallel()
	if !slices.IsSortedFunc(Priorities, func(a, b Priority) int { return a.Rank() - b.Rank() }) {
		t.Errorf("Priorities %v are not in the order of their ranks", Priorities)
	}
	for _, p := range []Priority{"", "urgent", "medium"} {
		if p.Rank() != Normal.Rank() {
			t.Errorf("Rank of the unknown %q = %d, want that of normal, %d", p, p.Rank(), Normal.Rank())
		}
	}
}

func TestParseType(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		want Type
	}{
		{"action", Action}, {"Decision", Decision}, {"review", Review}, {"", ""}, {"Bug fix", "bug_fix"}, {"a/b", ""},
	} {
		got, ok := ParseType(tt.in)
		if ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("ParseType(%q) = %q, %v; want %q", tt.in, got, ok, tt.want)
		}
	}
}

func TestDropIDInName(t *testing.T) {
	t.Parallel()
	const id = "0b0e7a5c-6a0f-4f0e-9b1d-1f2e3d4c5b6a"
	for _, tt := range []struct{ name, want string }{
		{"20260314T082019.000000000Z-" + id + ".json", id},
		{id + ".json", id},
		{"0B0E7A5C-6A0F-4F0E-9B1D-1F2E3D4C5B6A.json", id},
		{id, id},
		{"x-" + id + "-2.json", ""},
		{"task.json", ""},
		{"", ""},
		{"{b0e7a5c-6a0f-4f0e-9b1d-1f2e3d4c5b6a}.json", ""},
	} {
		if got := DropIDInName(tt.name); got != tt.want {
			t.Errorf("DropIDInName(%q) = %q, want %q", tt.name, got, tt.want)
		}
	}
	if a, b := NewDropID(), NewDropID(); a == b || DropIDInName(a+".json") != a {
		t.Errorf("NewDropID gave %q and %q, want two different ids that are found in names", a, b)
	}
}
