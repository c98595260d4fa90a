// The command man writes the manual pages and the completion scripts of a
// release into the directories man and completions.
//
//	man DIR VERSION TIME
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"otm/internal/app"
	"otm/internal/man"
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
	at, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	for _, sub := range []string{"man", "completions"} {
		if err := os.MkdirAll(filepath.Join(args[0], sub), 0o755); err != nil {
			return err
		}
	}
	for _, c := range app.Commands() {
		if err := man.Completions(c, filepath.Join(args[0], "completions")); err != nil {
			return err
		}
		for _, p := range man.Pages(c, args[1], time.Unix(at, 0)) {
			if err := os.WriteFile(filepath.Join(args[0], "man", p.Name), p.Text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
