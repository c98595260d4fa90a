package app

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/pipeline"
)

// refuseUnknown returns an error if words are no command of root, with the one of the
// nearest name.
func refuseUnknown(root *cobra.Command, words []string) error {
	_, left, err := root.Find(words)
	if err == nil || strings.HasPrefix(words[0], "__") { // cobra adds such commands when it runs
		return nil
	}
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	e := cli.Errorf(cli.Usage, "%w", err)
	if i := slices.IndexFunc(left, func(arg string) bool { return arg[:min(1, len(arg))] != "-" }); i >= 0 {
		word := strings.ToLower(left[i])
		if word == "create" || word == "update" {
			return e.Hint("otm-%s --help", word) // programs of their own
		}
		if near := pipeline.Nearest(word, names); near != "" {
			e.Hint("otm %s", near)
		}
	}
	return e.Hint("otm --help")
}
