package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"otm/internal/safe"
)

// Nearest returns the known word that a mistyped word most likely stands for:
// one letter wrong, missing, added or swapped with its neighbour for every
// three letters, two at most. It returns "" if no known word is that near, or
// if two are equally near.
func Nearest(word string, known []string) string {
	best, bestDistance, tie := "", min(len(word)/3, 2)+1, false
	for _, k := range known {
		switch d := distance(strings.ToLower(word), k); {
		case d < bestDistance:
			best, bestDistance, tie = k, d, false
		case d == bestDistance:
			tie = true
		}
	}
	if tie {
		return ""
	}
	return best
}

// distance is the number of letters to change, add, remove or swap with their
// neighbour in order to turn a into b (optimal string alignment).
func distance(a, b string) int {
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

// flagWords are words that people use for a flag of ours, with the flag.
var flagWords = map[string]string{
	"assign": "agent", "assigned-to": "agent", "assignee": "agent", "owner": "agent", "to": "agent",
	"comment": "result", "message": "result", "output": "result", "summary": "result",
	"because": "reason", "why": "reason",
	"body": "subtask", "check": "subtask", "desc": "subtask", "details": "subtask", "step": "subtask", "steps": "subtask",
	"done": "subtask-done", "step-done": "subtask-done", "tick": "subtask-done",
	"data-dir": "dir", "directory": "dir", "path": "dir",
	"file": "from", "input": "from", "stdin": "from",
	"id": "task-id", "task": "task-id",
	"idempotency-key": "key",
	"name":            "title",
	"prio":            "priority", "urgency": "priority",
	"state":   "status",
	"timeout": "wait-for",
	"force":   "yes",
}

// flagError words an error of the flags. An unknown flag gets the whole line
// with the flag that was meant, if there is a near one.
func flagError(c *cobra.Command, err error, args []string) error {
	e := Errorf(Usage, "%w", err)
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if near := nearFlag(c, unknown.GetSpecifiedName()); near != "" {
			e.Hint("%s", renamedFlag(c, args, unknown.GetSpecifiedName(), near))
		}
	}
	return e.Hint("%s --help", c.CommandPath())
}

func nearFlag(c *cobra.Command, name string) string {
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	if near := Nearest(name, known); near != "" {
		return near
	}
	if f := c.Flags().Lookup(flagWords[strings.ToLower(name)]); f != nil {
		return f.Name
	}
	return ""
}

// renamedFlag is the command line with one flag under another name.
func renamedFlag(c *cobra.Command, args []string, from, to string) string {
	words := []string{safe.Quote(c.Root().Name())}
	for _, arg := range args {
		if rest, ok := strings.CutPrefix(arg, "--"+from); ok && (rest == "" || rest[0] == '=') {
			arg = "--" + to + rest
		}
		words = append(words, safe.Quote(arg))
	}
	return strings.Join(words, " ")
}
