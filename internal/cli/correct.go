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

// Line is a command line that is being corrected.
type Line struct {
	command string
	flags   []lineFlag
	words   int // of flags, those that were words before the first flag
}

type lineFlag struct {
	name, value string
	hasValue    bool
}

// ParseLine splits a command line by its flags. A word that belongs to no flag
// joins the value of the flag before it: the value was not quoted. Words before
// the first flag become the values of the flags named first, the last of which takes
// all that are left; without these they are dropped.
func ParseLine(c *cobra.Command, args []string, first ...string) *Line {
	l := &Line{command: c.CommandPath()}
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "--")
		if !isFlag {
			if len(first) > 0 && len(l.flags) == l.words {
				l.words++
				l.flags = append(l.flags, lineFlag{name: first[0], value: args[i], hasValue: true})
				first = first[1:]
			} else if n := len(l.flags); n > 0 && l.flags[n-1].hasValue {
				l.flags[n-1].value += " " + args[i]
			}
			continue
		}
		if name == "" {
			continue // "--" announces words, and the command takes none
		}
		name, value, hasValue := strings.Cut(name, "=")
		f := lineFlag{name: name, value: value, hasValue: hasValue}
		if !hasValue && takesValue(c, name) && i+1 < len(args) {
			i++
			f.value, f.hasValue = args[i], true
		}
		l.flags = append(l.flags, f)
	}
	return l
}

func takesValue(c *cobra.Command, name string) bool {
	f := c.Flags().Lookup(name)
	return f != nil && f.NoOptDefVal == ""
}

// Set gives a flag another value and removes its repetitions.
func (l *Line) Set(name, value string) *Line {
	set := lineFlag{name: name, value: value, hasValue: true}
	i := slices.IndexFunc(l.flags, func(f lineFlag) bool { return f.name == name })
	if i < 0 {
		l.flags = append(l.flags, set)
		return l
	}
	l.flags[i] = set
	rest := slices.DeleteFunc(l.flags[i+1:], func(f lineFlag) bool { return f.name == name })
	l.flags = l.flags[:i+1+len(rest)]
	return l
}

// String returns the line, quoted for a shell.
func (l *Line) String() string {
	s := l.command
	for _, f := range l.flags {
		s += " --" + f.name
		if f.hasValue {
			s += " " + safe.Quote(f.value)
		}
	}
	return s
}

// NoWords is for commands that take flags only: it refuses words and hints at the
// corrected line. args is the whole command line; first is as in ParseLine. A
// single word is taken for the agent if the command has --agent.
func NoWords(args []string, first ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, left []string) error {
		if len(left) == 0 {
			return nil
		}
		line := ParseLine(c, args, first...)
		if len(first) == 0 && len(line.flags) == 0 && c.Flags().Lookup("agent") != nil {
			return Errorf(Usage, "unexpected %q: names go after --agent", left[0]).Hint("%v", line.Set("agent", left[0]))
		}
		if len(first) == 0 && !strings.HasPrefix(args[0], "-") {
			return Errorf(Usage, "unexpected %q: this command takes flags only", left[0]).Hint("%v", line)
		}
		return Errorf(Usage, "unexpected %q: a value follows its flag, in quotes if it has spaces", left[0]).Hint("%v", line)
	}
}

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
