// Package man writes manual pages and completion scripts from the commands
// themselves, so that they say what --help says. It is used when a release is made, and is in no
// program that is shipped.
package man

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Page is one manual page of section 1.
type Page struct {
	Name string // of the file
	Text []byte
}

// Pages are the pages of a command and all below it that are not hidden.
func Pages(c *cobra.Command, version string, date time.Time) []Page {
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	pages := []Page{{Name: title(c) + ".1", Text: page(c, version, date)}}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			pages = append(pages, Pages(sub, version, date)...)
		}
	}
	return pages
}

func title(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func page(c *cobra.Command, version string, date time.Time) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s 1 %s %s OTM\n", quote(strings.ToUpper(title(c))), quote(date.UTC().Format("2006-01-02")), quote("otm "+version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", text(title(c)), text(lowerFirst(c.Short)))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", text(c.UseLine()))
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, ".br\n.B %s\n.I command\n", text(c.CommandPath()))
	}
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", paragraphs(long))
	if c.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", quote(title(sub)), text(sub.Short))
			}
		}
	}
	b.WriteString(".SH OPTIONS\n")
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) { option(&b, f) })
	c.InheritedFlags().VisitAll(func(f *pflag.Flag) { option(&b, f) })
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s.fi\n", verbatim(c.Example))
	}
	seeAlso(&b, c)
	return b.Bytes()
}

func option(b *bytes.Buffer, f *pflag.Flag) {
	if f.Hidden {
		return
	}
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	value, usage := pflag.UnquoteUsage(f)
	if value != "" {
		name += " " + value
	}
	fmt.Fprintf(b, ".TP\n.B %s\n%s", text(name), text(usage))
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" && f.DefValue != "0s" {
		fmt.Fprintf(b, " (default %s)", text(f.DefValue))
	}
	b.WriteString("\n")
}

func seeAlso(b *bytes.Buffer, c *cobra.Command) {
	var others []string
	if c.HasParent() {
		others = append(others, title(c.Parent()))
	} else {
		others = append(others, "otm", "otm-create", "otm-update", "otm-injector", "otm-dispatcher", "otm-completion-detector")
	}
	var refs []string
	for _, o := range others {
		if o != title(c) {
			refs = append(refs, ".BR "+quote(o)+" (1)")
		}
	}
	if len(refs) > 0 {
		fmt.Fprintf(b, ".SH SEE ALSO\n%s\n", strings.Join(refs, " ,\n"))
	}
}

// paragraphs are a text's, filled but for those that are indented.
func paragraphs(s string) string {
	var b strings.Builder
	for p := range strings.SplitSeq(strings.TrimSpace(s), "\n\n") {
		if strings.HasPrefix(p, " ") {
			fmt.Fprintf(&b, ".PP\n.nf\n%s.fi\n", verbatim(p))
			continue
		}
		b.WriteString(".PP\n")
		for line := range strings.SplitSeq(p, "\n") {
			b.WriteString(text(line) + "\n")
		}
	}
	return b.String()
}

func verbatim(s string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.Trim(s, "\n"), "\n") {
		b.WriteString(text(line) + "\n")
	}
	return b.String()
}

var roff = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`)

// text is a line of text that roff takes for nothing else.
func text(s string) string {
	s = roff.Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}

// quote is text as one argument of a request.
func quote(s string) string { return `"` + strings.ReplaceAll(text(s), `"`, `\(dq`) + `"` }

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// Completions writes the completion scripts of a command into a directory,
// under the names that the shells look for.
func Completions(c *cobra.Command, dir string) error {
	name := c.Name()
	if err := c.GenBashCompletionFileV2(filepath.Join(dir, name+".bash"), true); err != nil {
		return err
	}
	if err := c.GenZshCompletionFile(filepath.Join(dir, "_"+name)); err != nil {
		return err
	}
	return c.GenFishCompletionFile(filepath.Join(dir, name+".fish"), true)
}
