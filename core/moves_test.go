package core

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"otm/pipeline"
)

const (
	stateMachine = "../docs/state-machine.md"
	tableHeading = "## The table of moves\n"
	// updateEnv has the test write the table anew.
	updateEnv = "OTM_TEST_UPDATE"
)

// kindNames are the kinds of actors as the document calls them.
var kindNames = map[Kind]string{OTM: "OTM", Agent: "agent", Worker: "person as agent", Person: "person", Board: "person", Reviewer: "reviewing agent"}

// movesAsText is the section of the document that is made from Moves.
func movesAsText(t *testing.T) string {
	var b strings.Builder
	for _, m := range Moves {
		var from, by []string
		for _, s := range m.From {
			from = append(from, "`"+string(s)+"`")
		}
		for _, k := range m.By {
			if kindNames[k] == "" {
				t.Errorf("%s is made by %s, which has no name for people", m.Code, k)
			}
			if !slices.Contains(by, kindNames[k]) {
				by = append(by, kindNames[k])
			}
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s | %s |\n", m.Code, strings.Join(from, ", "), m.To, strings.Join(by, ", "), m.When)
	}
	const head = "| code | from | to | who | when |\n|---|---|---|---|---|\n"
	return tableHeading + `
The engine checks every change of a status against this table, which is made from
` + "`core/moves.go`" + `. *Person as agent* is a person to whom the task was given, who
reports as an agent does. A *reviewing agent* is one that ` + "`[review] agents`" + ` of
` + "`otm.toml`" + ` names, on the tasks of others. A person may besides move a task from any status to any
other, on the board or the page: such a move has no code. A move that the table does
not have is refused, and changes nothing.

` + head + b.String()
}

// The document has the table of moves as it is. OTM_TEST_UPDATE=1 writes it anew.
func TestTableOfMovesIsDocumented(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(stateMachine)
	if err != nil {
		t.Fatal(err)
	}
	doc, want := string(data), movesAsText(t)
	begin := strings.Index(doc, tableHeading)
	end := len(doc)
	if begin < 0 {
		begin = len(doc)
	} else if next := strings.Index(doc[begin+1:], "\n## "); next >= 0 {
		end = begin + 1 + next
	}
	if doc[begin:end] == want {
		return
	}
	if os.Getenv(updateEnv) == "" {
		t.Fatalf("docs/state-machine.md does not have the moves of core/moves.go: run OTM_TEST_UPDATE=1 go test ./core -run %s", t.Name())
	}
	if begin == len(doc) {
		want = "\n" + want
	}
	if err := os.WriteFile(stateMachine, []byte(doc[:begin]+want+doc[end:]), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The diagram of the document draws no move that the table does not have, and each
// status.
func TestDiagramOfMoves(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(stateMachine)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "```mermaid\n")
	diagram, _, _ := strings.Cut(rest, "```")
	drawn := 0
	for line := range strings.Lines(diagram) {
		arrow, _, _ := strings.Cut(line, ":")
		from, to, ok := strings.Cut(arrow, "-->")
		from, to = strings.TrimSpace(from), strings.TrimSpace(to)
		if !ok || from == "[*]" {
			continue
		}
		drawn++
		if !slices.ContainsFunc(Moves, func(m Move) bool {
			return string(m.To) == to && slices.Contains(m.From, pipeline.Status(from))
		}) {
			t.Errorf("the diagram draws %s to %s, which the table does not have", from, to)
		}
	}
	if drawn < 9 {
		t.Errorf("the diagram draws %d moves", drawn)
	}
	for _, s := range pipeline.Statuses {
		if !strings.Contains(diagram, string(s)) {
			t.Errorf("the diagram does not show %s", s)
		}
	}
}

// The table is sound: each move is for one code and pair of statuses, nobody has two
// codes for one move, and no rule stands in it that a person's override hides.
func TestTableOfMovesIsSound(t *testing.T) {
	t.Parallel()
	type key struct {
		from, to pipeline.Status
		by       Kind
	}
	seen := map[key]string{}
	for _, m := range Moves {
		if m.Code == "" || m.When == "" || len(m.From) == 0 || len(m.By) == 0 {
			t.Errorf("a move lacks something: %+v", m)
		}
		if slices.Contains(m.By, Person) != slices.Contains(m.By, Board) {
			t.Errorf("%s differs between a person with a name and one without", m.Code)
		}
		for _, from := range m.From {
			if from == m.To || !slices.Contains(pipeline.Statuses, from) || !slices.Contains(pipeline.Statuses, m.To) {
				t.Errorf("%s moves from %s to %s", m.Code, from, m.To)
			}
			for _, by := range m.By {
				k := key{from, m.To, by}
				if code, twice := seen[k]; twice {
					t.Errorf("%s moves %s to %s by %s and by %s", by, from, m.To, code, m.Code)
				}
				seen[k] = m.Code
				if code, ok := Permitted(from, m.To, by); !ok || code != m.Code {
					t.Errorf("%+v is %q, %v, want %s", k, code, ok, m.Code)
				}
			}
		}
	}
}
