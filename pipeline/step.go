package pipeline

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// DefaultStep is the step of a task that was created without any: without a
// step, nobody could see that the task is complete.
const DefaultStep = "Confirm that task has been done"

// Limits of what a task holds, in characters (code points) and steps.
const (
	MaxBody   = 20000 // of a task, in bytes
	MaxText   = 500   // title, step, project, reason
	MaxResult = 4000  // result
	MaxSteps  = 50    // steps of one task
)

// Step is one part of a task.
type Step struct {
	Title string `json:"title"`
	Done  bool   `json:"done,omitempty"`
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
	titles := Map(steps, func(s Step) string { return FoldTitle(s.Title) })
	near := Nearest(FoldTitle(reported), titles)
	if near == "" {
		return -1
	}
	return slices.Index(titles, near)
}

// Nearest returns the known word that a mistyped word most likely stands for: one
// letter wrong, missing, added or swapped with its neighbour for every three
// letters, two at most. It returns "" if no known word is that near, or if two are
// equally near.
func Nearest(word string, known []string) string {
	want, nearest := []rune(strings.ToLower(word)), ""
	best, tie := min(len(want)/3, 2)+1, false
	for _, k := range known {
		if n := utf8.RuneCountInString(k); max(n-len(want), len(want)-n) > best {
			continue // so far in any case
		}
		switch d := distance(want, []rune(strings.ToLower(k))); {
		case d < best:
			nearest, best, tie = k, d, false
		case d == best:
			tie = true
		}
	}
	if tie {
		return ""
	}
	return nearest
}

// distance is the number of letters to change, add, remove or swap with their
// neighbour in order to turn a into b (optimal string alignment).
func distance(a, b []rune) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}

// Find returns the first element that is what is looked for; nil: there is none.
func Find[T any](all []T, is func(*T) bool) *T {
	for i := range all {
		if is(&all[i]) {
			return &all[i]
		}
	}
	return nil
}

// Filter returns the elements that are to be kept.
func Filter[T any](all []T, keep func(T) bool) (kept []T) {
	for _, v := range all {
		if keep(v) {
			kept = append(kept, v)
		}
	}
	return kept
}

// Map returns what f makes of each element.
func Map[T, U any](all []T, f func(T) U) []U {
	made := make([]U, len(all))
	for i, v := range all {
		made[i] = f(v)
	}
	return made
}

// Texts returns the words of a closed list as text.
func Texts[T ~string](all []T) []string { return Map(all, func(v T) string { return string(v) }) }
