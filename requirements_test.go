package otm_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const requirements = "docs/requirements.tsv"

// specifications are the letters of the specifications, in order, and how many
// requirements each has.
var specifications = []struct {
	letter string
	count  int
}{{"A", 225}, {"B", 117}, {"C", 160}, {"D", 66}, {"E", 181}}

// comingIssues name what is still to come. A requirement that is met later says by which.
var comingIssues = []string{"workplace", "decisions", "several nodes"}

// shownByTests matches the last field of a requirement that is met: packages and a pattern
// of tests, and more of them after a comma.
var shownByTests = regexp.MustCompile(`^((?:\./\S* )+)((?:Test|Fuzz)\S*)$`)

// TestRequirements checks that every requirement has one answer, and that what is met is
// shown by tests that exist.
func TestRequirements(t *testing.T) {
	text, err := os.ReadFile(requirements)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range requirementProblems(t, string(text)) {
		t.Errorf("%s: %s", requirements, problem)
	}
}

// requirementProblems says what is wrong with the answers.
func requirementProblems(t *testing.T, text string) (problems []string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	next := 0
	for _, s := range specifications {
		for n := 1; n <= s.count; n++ {
			id := fmt.Sprintf("%s-%02d", s.letter, n)
			if next == len(lines) {
				return append(problems, id+" and all after it are missing")
			}
			is, rest, _ := strings.Cut(lines[next], "\t")
			next++
			if is != id {
				return append(problems, fmt.Sprintf("line %d is about %q, want %s: every id stands there once, in order", next, is, id))
			}
			for _, problem := range answerProblems(t, rest) {
				problems = append(problems, fmt.Sprintf("line %d, %s: %s", next, id, problem))
			}
		}
	}
	if next < len(lines) {
		problems = append(problems, fmt.Sprintf("line %d is one too many: %q", next+1, lines[next]))
	}
	return problems
}

// answerProblems says what is wrong with a line after its id.
func answerProblems(t *testing.T, text string) []string {
	t.Helper()
	fields := strings.Split(text, "\t")
	if len(fields) != 2 || strings.TrimSpace(fields[1]) != fields[1] || fields[1] == "" {
		return []string{"it needs an answer, and a test or a reason"}
	}
	answer, why := fields[0], fields[1]
	switch answer {
	case "met":
		var problems []string
		for part := range strings.SplitSeq(why, ", ") {
			m := shownByTests.FindStringSubmatch(part)
			if m == nil {
				return append(problems, fmt.Sprintf("%q names no test: write ./package TestName", part))
			}
			problems = append(problems, missingTests(t, strings.Fields(m[1]), namesIn(m[2]))...)
		}
		return problems
	case "later":
		issue, _, _ := strings.Cut(why, ":")
		if !slices.Contains(comingIssues, issue) {
			return []string{fmt.Sprintf("%q comes with none of: %s", issue, strings.Join(comingIssues, ", "))}
		}
	case "otherwise", "not taken":
		if !strings.HasSuffix(why, ".") {
			return []string{"its reason is a sentence"}
		}
	default:
		return []string{fmt.Sprintf("the answer %q is not met, otherwise, later or not taken", answer)}
	}
	return nil
}

// Each thing that can be wrong with the file is found.
func TestRequirementProblems(t *testing.T) {
	data, err := os.ReadFile(requirements)
	if err != nil {
		t.Fatal(err)
	}
	good := string(data)
	line := func(id string) string { return regexp.MustCompile("(?m)^" + id + "\t.*\n").FindString(good) }
	change := func(id, to string) string { return strings.Replace(good, line(id), to, 1) }
	for name, tt := range map[string]struct{ text, want string }{
		"the first is missing": {change("A-01", ""), `line 1 is about "A-02", want A-01`},
		"one is missing":       {change("C-17", ""), `is about "C-18", want C-17`},
		"the last is missing":  {change("E-181", ""), "E-181 and all after it are missing"},
		"one twice":            {change("B-20", line("B-20")+line("B-20")), `is about "B-20", want B-21`},
		"one too many":         {good + "E-182\tnot taken\tNo.\n", "is one too many"},
		"another form":         {change("D-09", "D-9\tnot taken\tNo.\n"), `is about "D-9", want D-09`},
		"a blank line":         {change("D-09", line("D-09")+"\n"), `is about "", want D-10`},
		"no such test":         {change("A-06", "A-06\tmet\t./core/store TestNothingOfTheKind\n"), "there is no test TestNothingOfTheKind in ./core/store"},
		"no such script":       {change("A-06", "A-06\tmet\t./core TestMoves, ./cmd/otm TestScripts/nothing\n"), "there is no test TestScripts/nothing"},
		"one of two tests":     {change("A-06", "A-06\tmet\t./core TestMoves|TestNothing\n"), "there is no test TestNothing in ./core"},
		"met without a test":   {change("A-06", "A-06\tmet\tIt is so.\n"), "names no test"},
		"no reason":            {change("A-06", "A-06\totherwise\t\n"), "it needs an answer"},
		"no issue":             {change("A-06", "A-06\tlater\tsome day\n"), "comes with none of"},
		"another answer":       {change("A-06", "A-06\tperhaps\tWho knows.\n"), `the answer "perhaps"`},
	} {
		if got := strings.Join(requirementProblems(t, tt.text), "\n"); tt.text == good || !strings.Contains(got, tt.want) {
			t.Errorf("%s: found %q, want %q", name, got, tt.want)
		}
	}
}
