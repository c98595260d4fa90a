package store

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Events are only added: no statement changes or deletes one.
func TestEventsAreOnlyAdded(t *testing.T) {
	t.Parallel()
	added := regexp.MustCompile(`(?i)\bINSERT INTO events\b`)
	changed := regexp.MustCompile(`(?i)\b(UPDATE|DELETE FROM|TRUNCATE|REPLACE INTO|DROP TABLE)\s+events\b`)
	code, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	migrations, err := filepath.Glob("migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	const leave = `"DELETE FROM events WHERE seq >= $1 AND seq <= $2"` // those that an archive has, see day.settle
	found := false
	for _, name := range append(code, migrations...) {
		if ok, _ := filepath.Match("*_test.go", name); ok {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found = found || added.Match(text)
		text = bytes.Replace(text, []byte(leave), nil, 1)
		if statement := changed.Find(text); statement != nil {
			t.Errorf("%s has %q", name, statement)
		}
	}
	if !found {
		t.Error("no statement adds events: does the pattern still fit the code?")
	}
}
