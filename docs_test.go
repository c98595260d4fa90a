package otm_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shownBy is a command of a document that shows a claim to hold: packages, and
// the tests in them.
var shownBy = regexp.MustCompile("`(?:[A-Z_0-9]+=\\S+ )*go test ((?:\\./\\S+ )+)-run '?([^'` ]+)'?[^`]*`")

// TestDocsNameTests: go test takes a name that no test has for a success, so each
// package of such a command must have a test of its names, and each name a package.
func TestDocsNameTests(t *testing.T) {
	docs, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range docs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range shownBy.FindAllStringSubmatch(string(text), -1) {
			found++
			checkShown(t, path, strings.Fields(m[1]), namesIn(m[2]))
		}
	}
	if found < 150 {
		t.Errorf("%d commands found: are they written in another way now?", found)
	}
}

// oneOf is a choice within a pattern.
var oneOf = regexp.MustCompile(`([^|]*)\(([^)]*)\)`)

// namesIn are the names that a pattern of -run asks for.
func namesIn(pattern string) []string {
	pattern = oneOf.ReplaceAllStringFunc(pattern, func(choice string) string {
		m := oneOf.FindStringSubmatch(choice)
		return m[1] + strings.ReplaceAll(m[2], "|", "|"+m[1])
	})
	return strings.Split(pattern, "|")
}

func checkShown(t *testing.T, doc string, dirs, names []string) {
	t.Helper()
	used := map[string]bool{}
	for _, dir := range dirs {
		tests, hits := testsOf(t, dir), false
		for _, name := range names {
			if hasTest(tests, dir, name) {
				used[name], hits = true, true
			}
		}
		if !hits {
			t.Errorf("%s: %s has none of the tests %s", doc, dir, strings.Join(names, ", "))
		}
	}
	for _, name := range names {
		if !used[name] {
			t.Errorf("%s: there is no test %s in %s", doc, name, strings.Join(dirs, ", "))
		}
	}
}

// hasTest tells whether a pattern of -run matches a test, and a script where it
// names one.
func hasTest(tests, dir, name string) bool {
	name, script, _ := strings.Cut(name, "/")
	pattern := strings.TrimPrefix(name, "^")
	if end, ok := strings.CutSuffix(pattern, "$"); ok {
		pattern = end + `\(`
	}
	if !regexp.MustCompile(`(?m)^func ` + pattern).MatchString(tests) {
		return false
	}
	if name != "TestScripts" || script == "" {
		return true
	}
	scripts, err := filepath.Glob(filepath.Join(dir, "testdata", "script", script+"*.txtar"))
	return err == nil && len(scripts) > 0
}

func testsOf(t *testing.T, dir string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
