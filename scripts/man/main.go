// The command man writes the manual pages and the completion scripts of a
// release into the directories man and completions, from the commands themselves.
//
//	man DIR VERSION TIME
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"otm/internal/app"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: man DIR VERSION UNIX-TIME")
	}
	seconds, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	at := time.Unix(seconds, 0).UTC()
	pages, completions := filepath.Join(args[0], "man"), filepath.Join(args[0], "completions")
	for _, dir := range []string{pages, completions} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, c := range app.Commands() {
		if err := writeCompletions(c, completions); err != nil {
			return err
		}
		prepare(c)
		if err := doc.GenManTree(c, &doc.GenManHeader{Section: "1", Date: &at, Source: "otm " + args[1], Manual: "OTM"}, pages); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the texts of a command and of those below it fit for Markdown,
// from which cobra makes the pages: indented lines become code.
func prepare(c *cobra.Command) {
	c.DisableAutoGenTag = true
	if c.Long == "" {
		c.Long = c.Short + "."
	}
	c.Long = strings.ReplaceAll(c.Long, "\n  ", "\n      ")
	for _, sub := range c.Commands() {
		prepare(sub)
	}
}

// writeCompletions writes the completion scripts of a command under the names
// that the shells look for.
func writeCompletions(c *cobra.Command, dir string) error {
	if err := c.GenBashCompletionFileV2(filepath.Join(dir, c.Name()+".bash"), true); err != nil {
		return err
	}
	if err := c.GenZshCompletionFile(filepath.Join(dir, "_"+c.Name())); err != nil {
		return err
	}
	return c.GenFishCompletionFile(filepath.Join(dir, c.Name()+".fish"), true)
}
