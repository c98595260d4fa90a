package pipeline

import (
	"slices"
	"strconv"
)

// DefaultStep is the step of a task that was created without any: without a
// step, nobody could see that the task is complete.
const DefaultStep = "Confirm that task has been done"

// Limits of what a task holds, in characters (code points) and steps.
const (
	MaxText   = 500  // title, step, project, reason
	MaxResult = 4000 // result
	MaxSteps  = 50   // steps of one task
)

// Step is one part of a task.
type Step struct {
	Title string
	Done  bool
}

// FindStep returns the index of the step that a report means, or -1. The title
// matches exactly; else folded; else a whole number is the step's place,
// beginning at 1. Of several steps with the same title the first open one is
// meant, and if none is open, the first.
func FindStep(steps []Step, reported string) int {
	if i := firstOpen(steps, func(s Step) bool { return s.Title == reported }); i >= 0 {
		return i
	}
	folded := FoldTitle(reported)
	if i := firstOpen(steps, func(s Step) bool { return FoldTitle(s.Title) == folded }); i >= 0 {
		return i
	}
	if n, err := strconv.Atoi(folded); err == nil && n >= 1 && n <= len(steps) {
		return n - 1
	}
	return -1
}

func firstOpen(steps []Step, match func(Step) bool) int {
	if i := slices.IndexFunc(steps, func(s Step) bool { return match(s) && !s.Done }); i >= 0 {
		return i
	}
	return slices.IndexFunc(steps, match)
}

// NearestStep returns the index of the step whose title looks most like the
// reported one, for messages; -1 if there are no steps.
func NearestStep(steps []Step, reported string) int {
	best, bestDistance := -1, 0
	want := []rune(FoldTitle(reported))
	for i, s := range steps {
		if d := distance(want, []rune(FoldTitle(s.Title))); best < 0 || d < bestDistance {
			best, bestDistance = i, d
		}
	}
	return best
}

// distance is the Levenshtein distance of two titles.
func distance(a, b []rune) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, ra := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j, rb := range b {
			change := diagonal
			if ra != rb {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
