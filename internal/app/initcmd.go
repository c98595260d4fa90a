package app

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/durable"
	"otm/internal/safe"
	"otm/internal/tokens"
)

//go:embed otm.toml
var configTemplate []byte

// initCommand is otm init.
func initCommand(s cli.Streams) *cobra.Command {
	var asJSON, forSlack bool
	var slack slackFlags
	c := &cobra.Command{
		Use:   "init",
		Short: "Make the data directory; with --slack, set up a Slack List",
		Long: `Make the data directory, or add what is missing to it. It asks nothing and
changes nothing that is there.

With --slack it sets up a Slack List as the board: it checks the token, keeps it
in secrets/slack, and names the columns and options that the list lacks. An empty
list is a good start. It writes otm.toml as long as nobody has edited the file;
after that it prints the lines to put in. It may be run again at any time.`,
		Example: `  otm init
  otm init --slack --token-stdin --list F0123456789`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := slack.check(forSlack); err != nil {
				return err
			}
			dir, err := config.FindDir(c.Flag("dir").Value.String(), s.Getenv)
			if err != nil {
				return err
			}
			added, err := Init(dir)
			if err != nil {
				return err
			}
			if warning, err := config.CheckDir(dir); err != nil {
				return err
			} else if warning != "" {
				s.Warn("%s", warning)
			}
			if forSlack {
				h, err := OpenHome(s, dir)
				if err != nil {
					return err
				}
				h.asJSON = asJSON
				return (&slackInit{slackFlags: slack, h: h}).run(c.Context())
			}
			if asJSON {
				return safe.EncodeJSON(s.Out, map[string]any{"dir": dir, "added": append([]string{}, added...)})
			}
			fmt.Fprintln(s.Out, safe.Escape(dir))
			if len(added) == 0 {
				s.Note("was initialised already; nothing is missing")
				return nil
			}
			s.Note("edit %s to name your agents, then run: otm up%s", safe.Quote(filepath.Join(dir, config.FileName)), dirFlag(dir, s.Getenv))
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the directory and what was added as JSON")
	c.Flags().BoolVar(&forSlack, "slack", false, "set up a Slack List as the board")
	c.Flags().BoolVar(&slack.tokenStdin, "token-stdin", false, "with --slack: read the token from stdin, one line")
	c.Flags().StringVar(&slack.list, "list", "", "with --slack: the list, by its id or link")
	return c
}

// dirFlag returns the flag by which a command finds this directory; "" if it finds
// it without.
func dirFlag(dir string, getenv func(string) string) string {
	if usual, err := config.FindDir("", getenv); err == nil && usual == dir {
		return ""
	}
	return " --dir " + safe.Quote(dir)
}

// Init makes a data directory, or adds what is missing, and returns what it added.
// The file "format" comes last: if we crash before, the directory is not
// initialised, and the next Init goes on.
func Init(dir string) (added []string, err error) {
	if err := checkFit(dir); err != nil {
		return nil, err
	}
	fresh := !exists(filepath.Join(dir, "format"))
	for _, name := range append([]string{""}, config.Folders...) {
		path := filepath.Join(dir, name)
		missing := !exists(path)
		if err := durable.MkdirAll(path); err != nil {
			return added, err // something else may have the name
		}
		if missing {
			added = append(added, name)
		}
	}
	files := []durable.NewFile{{Name: config.FileName, Data: configTemplate}}
	if fresh {
		// In a directory that was used, a missing counter was lost: it is found
		// again from the files and does not start at 1.
		files = append(files, durable.NewFile{Name: "next-task-id.json", Data: []byte("{\"next\":1}\n")})
	}
	files = append(files, durable.NewFile{Name: "format", Data: fmt.Appendf(nil, "%d\n", config.Format)})
	ownerMade, err := tokens.Open(dir).EnsureOwner(context.Background(), self(), nowFunc())
	if err != nil {
		return added, err
	}
	if ownerMade {
		added = append(added, "secrets/owner")
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		err := durable.WriteNew(path, f.Data)
		if errors.Is(err, fs.ErrExist) {
			if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
				return added, &fs.PathError{Op: "open", Path: path, Err: durable.ErrNoFile}
			}
			continue
		}
		if err != nil {
			return added, err
		}
		added = append(added, f.Name)
	}
	return added, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// checkFit refuses a directory before anything is written to it: one of an unknown
// format, one that others can write to, or one that holds something else.
func checkFit(dir string) error {
	if exists(filepath.Join(dir, "format")) {
		_, err := config.CheckDir(dir)
		return err
	}
	if _, err := config.CheckMode(dir); err != nil {
		return err
	}
	return checkEmpty(dir)
}

// checkEmpty refuses a directory that holds other files: its path was mistyped.
func checkEmpty(dir string) error {
	entries, err := durable.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	known := append(slices.Clone(config.Folders), config.FileName, "next-task-id.json")
	for _, e := range entries {
		if !slices.Contains(known, e.Name()) && e.Name()[0] != '.' {
			return cli.Errorf(cli.Failed, "directory %q holds something else, such as %q", dir, e.Name()).
				Hint("otm init --dir %s", safe.Quote(filepath.Join(dir, "otm")))
		}
	}
	return nil
}
