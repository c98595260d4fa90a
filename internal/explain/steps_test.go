package explain

import (
	"strings"
	"testing"
)

// Each step is one thing to do: no second command hides behind it. A command is told from prose by
// its first word.
func TestOneStepEach(t *testing.T) {
	commands := []string{"otm", "kill", "openclaw", "tail", "rm", "chmod", "curl", "mkdir", "ls", "ln"}
	command := func(s string) bool {
		for _, c := range commands {
			if strings.HasPrefix(s, c+" ") || strings.HasPrefix(s, "otm-") {
				return true
			}
		}
		return false
	}
	for c, text := range texts {
		if text.or != "" && text.next == "" {
			t.Errorf("%s: an alternative to nothing: %q", c, text.or)
		}
		for _, step := range []string{text.next, text.or} {
			line, comment, _ := strings.Cut(step, "   # ")
			for _, hidden := range []string{"or: ", "otm ", "otm-"} {
				if strings.Contains(comment, hidden) {
					t.Errorf("%s: %q hides a step in %q", c, step, comment)
				}
			}
			if command(line) && (strings.Contains(line, ", ") || strings.Contains(line, "; ") || strings.Contains(line, " or ")) {
				t.Errorf("%s: %q is more than one command", c, step)
			}
		}
	}
}
