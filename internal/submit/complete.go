package submit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"otm/internal/config"
)

// CompleteAgents completes the names of configured agents.
func CompleteAgents(getenv func(string) string) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		dir, err := config.FindDir(c.Flag("dir").Value.String(), getenv)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		conf, err := config.Load(dir, getenv)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return conf.Agents.Names(), cobra.ShellCompDirectiveNoFileComp
	}
}

// maxCompletions bounds how many names of a folder a shell is offered.
const maxCompletions = 200

// CompleteIDs completes one task id; the newest come first.
func CompleteIDs(getenv func(string) string) cobra.CompletionFunc {
	names := completeNames(getenv, "tasks", func(name string) bool { return strings.HasPrefix(name, "T-") })
	return func(c *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		files, directive := names(c, args, toComplete)
		for i := range files {
			files[i] = strings.TrimSuffix(files[i], ".json")
		}
		return files, directive
	}
}

// CompleteFailed completes the names of failed drops; the newest come first.
func CompleteFailed(getenv func(string) string) cobra.CompletionFunc {
	return completeNames(getenv, "failed", func(name string) bool { return !strings.HasSuffix(name, ".error.json") })
}

// completeNames completes the names of JSON files in a folder of the data
// directory.
func completeNames(getenv func(string) string, folder string, accept func(name string) bool) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		dir, err := config.FindDir(c.Flag("dir").Value.String(), getenv)
		if err != nil {
			return nil, directive
		}
		entries, _ := os.ReadDir(filepath.Join(dir, folder)) // without the folder there is nothing to offer
		for _, e := range slices.Backward(entries) {
			if strings.HasSuffix(e.Name(), ".json") && accept(e.Name()) && len(names) < maxCompletions {
				names = append(names, e.Name())
			}
		}
		return names, directive
	}
}
