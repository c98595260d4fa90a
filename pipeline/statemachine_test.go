package pipeline

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// documented is a row of the table in docs/state-machine.md.
type documented struct{ from, to, who string }

// readMoves reads the table under the heading "Every move", and the diagram.
func readMoves(t *testing.T) (moves []documented, diagram string) {
	t.Helper()
	data, err := os.ReadFile("../docs/state-machine.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(data), "```mermaid\n")
	diagram, _, ok2 := strings.Cut(rest, "```")
	_, table, ok3 := strings.Cut(string(data), "## Every move\n")
	if !ok || !ok2 || !ok3 {
		t.Fatal("docs/state-machine.md lacks its diagram, or the heading \"Every move\"")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || strings.Contains(line, "---") || strings.TrimSpace(cells[1]) == "from" {
			continue
		}
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `")
		}
		moves = append(moves, documented{cells[1], cells[2], cells[3]})
	}
	return moves, diagram
}

// TestDocumentedMoves holds the document's table against the code's: no move
// is missing in it, and none is made up.
func TestDocumentedMoves(t *testing.T) {
	t.Parallel()
	var want []documented
	for _, from := range Statuses {
		for _, to := range Statuses {
			switch {
			case CanReport(from, to, false):
				want = append(want, documented{string(from), string(to), "agent"})
			case CanReport(from, to, true):
				want = append(want, documented{string(from), string(to), "person as agent"})
			}
		}
	}
	// These are made elsewhere: by packages inject, dispatch and complete, and
	// by hand.
	want = append(want,
		documented{"-", string(New), "injector"},
		documented{string(New), string(Assigned), "dispatcher"},
		documented{string(InProgress), string(AgentDone), "detector"})
	for _, to := range Statuses {
		want = append(want, documented{"any", string(to), "person"})
	}
	got, _ := readMoves(t)
	for _, m := range want {
		if !slices.Contains(got, m) {
			t.Errorf("docs/state-machine.md lacks the move %+v", m)
		}
	}
	for i, m := range got {
		if !slices.Contains(want, m) {
			t.Errorf("docs/state-machine.md has the move %+v, which nobody makes", m)
		}
		if slices.Contains(got[:i], m) {
			t.Errorf("docs/state-machine.md has the move %+v twice", m)
		}
	}
}

// TestDocumentedDiagram holds the diagram against the table: each move of it
// is drawn, but for staying, and for what persons may do anywhere.
func TestDocumentedDiagram(t *testing.T) {
	t.Parallel()
	moves, diagram := readMoves(t)
	drawn := map[string]bool{}
	for line := range strings.Lines(diagram) {
		arrow, _, _ := strings.Cut(line, ":")
		if from, to, ok := strings.Cut(arrow, "-->"); ok {
			drawn[strings.TrimSpace(from)+" "+strings.TrimSpace(to)] = true
		}
	}
	for _, m := range moves {
		if m.from == m.to || m.who == "person" || m.who == "person as agent" {
			continue
		}
		if from := strings.ReplaceAll(m.from, "-", "[*]"); !drawn[from+" "+m.to] {
			t.Errorf("the diagram does not draw %s to %s", from, m.to)
		}
	}
	for arrow := range drawn {
		from, to, _ := strings.Cut(arrow, " ")
		known := slices.ContainsFunc(moves, func(m documented) bool {
			return m.to == to && (m.from == from || m.from == "any" || m.from == "-" && from == "[*]")
		})
		if !known {
			t.Errorf("the diagram draws %s to %s, which the table has not", from, to)
		}
	}
	for _, s := range Statuses {
		if !strings.Contains(diagram, string(s)) {
			t.Errorf("the diagram does not show %s", s)
		}
	}
}
