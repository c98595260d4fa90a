package pipeline

import (
	"strings"
	"testing"
)

func TestFindStep(t *testing.T) {
	t.Parallel()
	plain := []Step{{Title: "Create form"}, {Title: "Add validation"}, {Title: "Write docs"}}
	equal := []Step{{Title: "Retry"}, {Title: "Retry"}, {Title: "Retry"}}
	half := []Step{{Title: "Retry", Done: true}, {Title: "Retry"}, {Title: "Retry"}}
	over := []Step{{Title: "Retry", Done: true}, {Title: "Retry", Done: true}}
	numbers := []Step{{Title: "3"}, {Title: "1"}, {Title: "2"}}
	cases := []Step{{Title: "test"}, {Title: "Test"}}
	tests := []struct {
		name     string
		steps    []Step
		reported string
		want     int
	}{
		{"exact", plain, "Add validation", 1},
		{"case", plain, "ADD VALIDATION", 1},
		{"blanks", plain, "  add \t validation\n", 1},
		{"number", plain, "2", 1},
		{"number with blanks", plain, " 3 ", 2},
		{"zero", plain, "0", -1},
		{"one too many", plain, "4", -1},
		{"negative", plain, "-1", -1},
		{"fraction", plain, "1.5", -1},
		{"beyond every int", plain, "99999999999999999999", -1},
		{"unknown", plain, "Create forms", -1},
		{"empty", plain, "", -1},
		{"no steps", nil, "1", -1},
		{"first of equal titles", equal, "Retry", 0},
		{"first open of equal titles", half, "retry", 1},
		{"all of equal titles are done", over, "Retry", 0},
		{"equal titles by number", half, "3", 2},
		{"number of a done step", half, "1", 0},
		{"a title that is a number wins over the place", numbers, "1", 1},
		{"a title that is another number", numbers, "3", 0},
		{"exact wins over folded", cases, "Test", 1},
		{"folded takes the first", cases, "TEST", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := FindStep(tt.steps, tt.reported); got != tt.want {
				t.Errorf("FindStep(%v, %q) = %d, want %d", tt.steps, tt.reported, got, tt.want)
			}
		})
	}
}

// TestFindStepTicksEqualTitlesInOrder reports one title three times.
func TestFindStepTicksEqualTitlesInOrder(t *testing.T) {
	t.Parallel()
	steps := []Step{{Title: "Retry"}, {Title: "other"}, {Title: "retry "}, {Title: "RETRY"}}
	for _, want := range []int{0, 2, 3, 0} {
		got := FindStep(steps, "rEtry")
		if got != want {
			t.Fatalf("FindStep(%v) = %d, want %d", steps, got, want)
		}
		steps[got].Done = true
	}
}

func TestNearestStep(t *testing.T) {
	t.Parallel()
	steps := []Step{{Title: "Create login form"}, {Title: "Add validation"}, {Title: "日本語"}}
	tests := []struct {
		name     string
		steps    []Step
		reported string
		want     int
	}{
		{"a letter is missing", steps, "Create logn form", 0},
		{"other case", steps, "ADD VALIDATIONS", 1},
		{"characters, not bytes", steps, "日本誤", 2},
		// C47: an agent that obeys a hint must not tick what it did not do.
		{"C47 nothing alike", steps, "zzz", -1},
		{"C47 all", steps, "all", -1},
		{"C47 a number that no step has", steps, "4", -1},
		{"C47 a number, whatever the titles are", []Step{{Title: "Step 3"}, {Title: "2"}}, " 3 ", -1},
		{"C47 a fraction", []Step{{Title: "1.4"}}, "1.5", -1},
		{"no steps", nil, "x", -1},
		{"equally far is no guess", []Step{{Title: "abcd"}, {Title: "abce"}}, "abcf", -1},
		{"hostile lengths", []Step{{Title: strings.Repeat("a", MaxText)}, {Title: "b"}}, strings.Repeat("a", MaxText-1), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := NearestStep(tt.steps, tt.reported); got != tt.want {
				t.Errorf("NearestStep(%q) = %d, want %d", tt.reported, got, tt.want)
			}
		})
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0},
		{"kitten", "sitting", 3}, {"ab", "ba", 1}, {"é", "e", 1},
	} {
		if got := distance([]rune(tt.a), []rune(tt.b)); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
