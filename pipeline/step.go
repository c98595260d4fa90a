package pipeline

import (
	"slices"
	"strconv"
	"strings"
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

// NearestStep returns the index of the step of whose title the reported one may
// be a misspelling, for messages; -1 if there is none. A number has no nearest
// one: an agent that takes the hint would tick what it did not do.
func NearestStep(steps []Step, reported string) int {
	if _, err := strconv.ParseFloat(strings.TrimSpace(reported), 64); err == nil {
		return -1
	}
	titles := make([]string, len(steps))
	for i, s := range steps {
		titles[i] = FoldTitle(s.Title)
	}
	near := Nearest(FoldTitle(reported), titles)
	if near == "" {
		return -1
	}
	return slices.Index(titles, near)
}

// Nearest returns the word that the given one may be a misspelling of, by at
// most one edit for each three characters; "" if there is none.
func Nearest(given string, words []string) string {
	want, near := []rune(given), ""
	nearest := len(want)/3 + 1
	for _, word := range words {
		if d := distance(want, []rune(word)); d < nearest {
			near, nearest = word, d
		}
	}
	return near
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
