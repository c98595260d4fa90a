package app

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/safe"
	"otm/pipeline"
)

// meanings are command lines with the words that people type for them. A line
// that holds the example id gets the id that was typed in its place.
var meanings = []struct{ line, words string }{
	{"otm show", "cat describe get info inspect view"},
	{"otm list", "all ls queue tasks"},
	{"otm why", "explain reason stuck"},
	{"otm status", "agents ps state"},
	{"otm doctor", "check config diagnose health test"},
	{"otm fsck", "validate verify"},
	{"otm history", "events journal log logs"},
	{"otm next --agent NAME", "claim take work"},
	{"otm archive --older-than 7d", "clean purge"},
	{"otm retry --all", "replay requeue"},
	{"otm up", "daemon run serve start"},
	{"otm install --help", "restart service stop uninstall"},
	{"otm board --link", "answer cancel dashboard delete page pause remove rm ui web"},
	{"otm --version", "version"},
	{"otm-create --title 'What to do' --agent NAME", "add create new post submit task"},
	{"otm-update --task-id " + exampleID + " --status agent_done", "close complete done finish resolve"},
	{"otm-update --task-id " + exampleID + " --status blocked --reason why", "block wait"},
	{"otm-update --task-id " + exampleID + " --status in_progress", "begin continue report set unblock update"},
}

const exampleID = "T-00035"

// unknownWord returns the index of the first word of a command line of otm if root
// has no command of that name; -1 if there is no such word.
func unknownWord(root *cobra.Command, args []string) int {
	if found, _, _ := root.Find(args); found != root {
		return -1
	}
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--dir":
			i++
		case args[i] == "help" || strings.HasPrefix(args[i], "__"): // commands that cobra adds
			return -1
		case !strings.HasPrefix(args[i], "-"):
			return i
		}
	}
	return -1
}

// guessCommand refuses args[at], which is no command.
func guessCommand(root *cobra.Command, args []string, at int) *cobra.Command {
	return &cobra.Command{
		Use: args[at], Hidden: true, DisableFlagParsing: true, Args: cobra.ArbitraryArgs,
		RunE: func(*cobra.Command, []string) error { return noCommand(root, args[at], args[at+1:], args[:at]) },
	}
}

// refuseUnknownHelp has "otm help WORD" refuse a word that is no command.
func refuseUnknownHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Args = func(_ *cobra.Command, words []string) error {
		if found, _, err := root.Find(words); len(words) == 0 || err == nil && found != root {
			return nil
		}
		return noCommand(root, words[0], nil, nil)
	}
}

// noCommand refuses a word. args stand behind it on the command line, flags before.
func noCommand(root *cobra.Command, word string, args, flags []string) error {
	e := cli.Errorf(cli.Usage, "there is no command %q", word)
	if line := guess(root, strings.ToLower(word), args); line != "" {
		e.Hint("%s", commandLine(line, flags))
	}
	return e.Hint("otm --help")
}

// guess returns the line that a word and its arguments probably mean; "" if there
// is none.
func guess(root *cobra.Command, word string, args []string) string {
	for _, m := range meanings {
		if !slices.Contains(strings.Fields(m.words), word) {
			continue
		}
		if !strings.Contains(m.line, "--") {
			return commandLine(m.line, args)
		}
		if i := slices.IndexFunc(args, isTaskID); i >= 0 {
			return strings.Replace(m.line, exampleID, args[i], 1)
		}
		return m.line
	}
	var known []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	if near := pipeline.Nearest(word, known); near != "" {
		return commandLine("otm "+near, args)
	}
	return ""
}

func isTaskID(word string) bool {
	_, err := pipeline.ParseTaskID(word)
	return err == nil
}

func commandLine(command string, args []string) string {
	for _, arg := range args {
		command += " " + safe.Quote(arg)
	}
	return command
}
