package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"otm/internal/safe"
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
