package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"otm/internal/safe"
	"otm/pipeline"
)

// flagWords are flags that the specification removed, and words that people often
// use for a flag of ours, with the flag.
var flagWords = map[string]string{
	"creator": "agent", "assignedto": "agent", "assignee": "agent", "owner": "agent",
	"description": "body", "text": "body", "step": "subtask", "steps": "subtask", "done": "subtask-done",
	"id": "task-id", "task": "task-id", "state": "status", "comment": "result", "summary": "result",
}

// flagError words an error of the flags. An unknown flag gets the flag that was
// meant, and the whole line with it.
func flagError(c *cobra.Command, err error, args []string) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || nearFlag(c, unknown.GetSpecifiedName()) == "" {
		return Errorf(Usage, "%w", err).Hint("%s --help", c.CommandPath())
	}
	near := nearFlag(c, unknown.GetSpecifiedName())
	return Errorf(Usage, "%w: use --%s", err, near).
		Hint("%s", renamedFlag(c, args, unknown.GetSpecifiedName(), near)).Hint("%s --help", c.CommandPath())
}

func nearFlag(c *cobra.Command, name string) string {
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	if near := pipeline.Nearest(name, known); near != "" {
		return near
	}
	if f := c.Flags().Lookup(flagWords[strings.ToLower(name)]); f != nil {
		return f.Name
	}
	return ""
}

// renamedFlag is the command line with one flag under another name; "" if that
// stands in the line already and has one value.
func renamedFlag(c *cobra.Command, args []string, from, to string) string {
	given := func(arg string) bool { return arg == "--"+to || strings.HasPrefix(arg, "--"+to+"=") }
	if slices.ContainsFunc(args, given) && c.Flags().Lookup(to).Value.Type() != "stringArray" {
		return ""
	}
	words := []string{safe.Quote(c.Root().Name())}
	for _, arg := range args {
		if rest, ok := strings.CutPrefix(arg, "--"+from); ok && (rest == "" || rest[0] == '=') {
			arg = "--" + to + rest
		}
		words = append(words, safe.Quote(arg))
	}
	return strings.Join(words, " ")
}
