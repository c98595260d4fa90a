package app

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/safe"
	"otm/pipeline"
)

// otherWords are words that people type for a command, with the command that
// does what they mean. None of these commands changes anything that the word
// did not ask for.
var otherWords = map[string]string{
	"cat": "show", "describe": "show", "get": "show", "info": "show", "inspect": "show", "view": "show",
	"all": "list", "ls": "list", "queue": "list", "tasks": "list",
	"explain": "why", "reason": "why", "stuck": "why",
	"ps": "status", "state": "status", "stat": "status",
	"check": "doctor", "diagnose": "doctor", "health": "doctor", "test": "doctor",
	"repair": "fsck", "validate": "fsck", "verify": "fsck",
	"events": "history", "journal": "history", "log": "history", "logs": "history",
	"claim": "next --agent NAME", "take": "next --agent NAME", "work": "next --agent NAME",
	"clean": "archive --older-than 7d", "purge": "archive --older-than 7d",
	"dashboard": "board --link", "page": "board --link", "ui": "board --link", "web": "board --link",
	"daemon": "up", "run": "up", "serve": "up", "start": "up",
	"answer": "board --link   # a question is answered on the board",
	"pause":  "board --link   # set a task to pending on the board; an agent cannot be paused",
	"agents": "status", "version": "--version",
	"config":  "doctor   # checks otm.toml, which is in the data directory",
	"stop":    "install --help   # services; what otm up started in a terminal ends with Ctrl-C",
	"restart": "install --help   # services; what otm up started in a terminal: Ctrl-C, then otm up",
	"setup":   "init", "service": "install --help", "uninstall": "install --help",
	"skill": "prompt", "requeue": "retry --all", "replay": "retry --all",
}

// creates are words for otm-create; what follows them is a title.
var creates = []string{"add", "create", "new", "post", "submit", "task"}

// reports are words for otm-update, with the status that each reports and the
// flag that takes further words.
var reports = map[string]struct {
	status pipeline.Status
	words  string
}{
	"begin": {pipeline.InProgress, ""}, "continue": {pipeline.InProgress, ""}, "unblock": {pipeline.InProgress, ""},
	"block": {pipeline.Blocked, "reason"}, "wait": {pipeline.Blocked, "reason"},
	"close": {pipeline.AgentDone, "result"}, "complete": {pipeline.AgentDone, "result"}, "done": {pipeline.AgentDone, "result"},
	"finish": {pipeline.AgentDone, "result"}, "resolve": {pipeline.AgentDone, "result"},
	"edit": {"", ""}, "report": {"", ""}, "set": {"", ""}, "update": {"", ""},
}

// unknownWord returns the first word of a command line of otm where root has no
// command of that name, and the other arguments, those behind it first; "" if
// there is no such word.
func unknownWord(root *cobra.Command, args []string) (word string, rest []string) {
	found, _, _ := root.Find(args)
	if found != root {
		return "", nil
	}
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--dir":
			i++
		case !strings.HasPrefix(args[i], "-"):
			if args[i] == "help" || strings.HasPrefix(args[i], "__") { // commands that cobra adds
				return "", nil
			}
			return args[i], slices.Concat(args[i+1:], args[:i])
		}
	}
	return "", nil
}

// guessCommand refuses a word that is no command, with the line that does what
// was meant.
func guessCommand(root *cobra.Command, word string, args []string) *cobra.Command {
	return &cobra.Command{
		Use: word, Hidden: true, DisableFlagParsing: true, Args: cobra.ArbitraryArgs,
		RunE: func(*cobra.Command, []string) error {
			e := cli.Errorf(cli.Usage, "there is no command %q", word)
			if line := guess(root, strings.ToLower(word), args); line != "" {
				e.Hint("%s", line)
			}
			return e.Hint("otm --help")
		},
	}
}

// refuseUnknownHelp has "otm help WORD" refuse a word that is no command.
func refuseUnknownHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() != "help" {
			continue
		}
		c.Args = func(_ *cobra.Command, words []string) error {
			if found, _, err := root.Find(words); len(words) == 0 || err == nil && found != root {
				return nil
			}
			e := cli.Errorf(cli.Usage, "there is no command %q", words[0])
			if line := guess(root, strings.ToLower(words[0]), nil); line != "" {
				e.Hint("%s", line)
			}
			return e.Hint("otm --help")
		}
	}
}

// guess returns the line that does what a word and its arguments mean; "" if
// nothing is near.
func guess(root *cobra.Command, word string, args []string) string {
	hasID := slices.ContainsFunc(args, isTaskID)
	if report, ok := reports[word]; ok {
		return guessReport(report.status, report.words, args)
	}
	if slices.Contains(creates, word) {
		return guessCreate(args)
	}
	if word == "start" && hasID {
		return guessReport(pipeline.InProgress, "", args)
	}
	if (word == "stop" || word == "restart") && hasID {
		return "otm board --link   # tasks are ended and sent back on the board"
	}
	switch to := otherWords[word]; {
	case to == "history" && hasID: // of a task that is on the board
		return commandLine("otm show", args)
	case strings.Contains(to, " "), to == "up", to == "--version": // it takes none of these arguments
		return "otm " + to
	case to != "":
		return commandLine("otm "+to, args)
	}
	if slices.Contains([]string{"cancel", "delete", "remove", "rm"}, word) {
		return "otm board --link   # tasks are cancelled on the board"
	}
	var known []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	if near := cli.Nearest(word, known); near != "" {
		return commandLine("otm "+near, args)
	}
	return ""
}

func isTaskID(word string) bool {
	_, err := pipeline.ParseTaskID(word)
	return err == nil
}

// guessReport is the otm-update line for a report: the id after --task-id, the
// other words as the value of a flag.
func guessReport(status pipeline.Status, flag string, args []string) string {
	id, words, flags := splitArgs(args)
	out := []string{"--task-id", id}
	if status != "" {
		out = append(out, "--status", string(status))
	}
	switch {
	case len(words) > 0 && flag != "":
		out = append(out, "--"+flag, strings.Join(words, " "))
	case status == pipeline.Blocked && !slices.Contains(flags, "--reason"):
		out = append(out, "--reason", "why")
	}
	if status == "" && len(flags) == 0 {
		out = append(out, "--status", string(pipeline.InProgress))
	}
	return commandLine("otm-update", append(out, flags...))
}

// guessCreate is the otm-create line for a task whose title are the words.
func guessCreate(args []string) string {
	if len(args) == 0 {
		return "otm-create --title 'What to do' --agent NAME"
	}
	var words []string
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		words, args = append(words, args[0]), args[1:]
	}
	out := slices.Clone(args)
	if len(words) > 0 {
		out = append([]string{"--title", strings.Join(words, " ")}, out...)
	}
	if !slices.ContainsFunc(out, func(arg string) bool {
		return arg == "--agent" || strings.HasPrefix(arg, "--agent=") || arg == "--from"
	}) {
		out = append(out, "--agent", "NAME")
	}
	return commandLine("otm-create", out)
}

// splitArgs takes a task's id and the words behind it from the front of the
// arguments. Without an id it returns an example.
func splitArgs(args []string) (id string, words, flags []string) {
	id = "T-00035"
	for i, arg := range args {
		if strings.HasPrefix(arg, "-") {
			return id, words, args[i:]
		}
		if isTaskID(arg) && len(words) == 0 {
			id = arg
			continue
		}
		words = append(words, arg)
	}
	return id, words, nil
}

func commandLine(command string, args []string) string {
	for _, arg := range args {
		command += " " + safe.Quote(arg)
	}
	return command
}
