package otm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shownBy matches the tests that a document names for a claim: a go test command,
// or packages and a pattern in the cell of a table.
var shownBy = regexp.MustCompile("`(?:[A-Z_0-9]+=\\S+ )*go test ((?:\\./\\S+ )+)-run '?([^'` ]+)'?[^`]*`" +
	"|`((?:\\./\\S* )+)((?:Test|Fuzz)[^` ]*)`")

// TestDocsNameTests checks that every test named in a document exists. go test
// reports success for a pattern that matches nothing.
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
		plain := strings.ReplaceAll(string(text), `\|`, "|") // as cells of tables escape it
		for _, m := range shownBy.FindAllStringSubmatch(plain, -1) {
			found++
			checkShown(t, path, strings.Fields(m[1]+m[3]), namesIn(m[2]+m[4]))
		}
	}
	if found < 150 {
		t.Errorf("found %d named tests: does the pattern still fit the documents?", found)
	}
}

// oneOf matches a choice within a pattern.
var oneOf = regexp.MustCompile(`([^|]*)\(([^)]*)\)`)

// namesIn returns the test names in a -run pattern.
func namesIn(pattern string) []string {
	pattern = oneOf.ReplaceAllStringFunc(pattern, func(choice string) string {
		m := oneOf.FindStringSubmatch(choice)
		return m[1] + strings.ReplaceAll(m[2], "|", "|"+m[1])
	})
	return strings.Split(pattern, "|")
}

func checkShown(t *testing.T, doc string, dirs, names []string) {
	t.Helper()
	for _, missing := range missingTests(t, dirs, names) {
		t.Errorf("%s: %s", doc, missing)
	}
}

// missingTests says which packages have none of the tests, and which tests no package has.
func missingTests(t *testing.T, dirs, names []string) (missing []string) {
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
			missing = append(missing, fmt.Sprintf("%s has none of the tests %s", dir, strings.Join(names, ", ")))
		}
	}
	for _, name := range names {
		if !used[name] {
			missing = append(missing, fmt.Sprintf("there is no test %s in %s", name, strings.Join(dirs, ", ")))
		}
	}
	return missing
}

// hasTest reports whether a -run pattern matches a test and, if it names a script,
// the script.
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

// testsRead are the tests of directories that testsOf has read.
var testsRead = map[string]string{}

// testsOf returns the lines of a directory's tests with which functions begin.
func testsOf(t *testing.T, dir string) string {
	t.Helper()
	if text, read := testsRead[dir]; read {
		return text
	}
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
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "func ") {
				all.WriteString(line)
			}
		}
	}
	testsRead[dir] = all.String()
	return all.String()
}

// TestDecisionsAreNumbered checks that the notes have the numbers 0001, 0002 and so on, each
// once, in their names and in their headings.
func TestDecisionsAreNumbered(t *testing.T) {
	notes, err := filepath.Glob("docs/decisions/*.md")
	if err != nil || len(notes) == 0 {
		t.Fatalf("%d notes, %v", len(notes), err)
	}
	for i, path := range notes {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		number := fmt.Sprintf("%04d", i+1)
		if !strings.HasPrefix(filepath.Base(path), number+"-") || !strings.HasPrefix(string(text), "# "+number+": ") {
			t.Fatalf("%s: want the number %s in its name and in its heading", path, number)
		}
	}
}
