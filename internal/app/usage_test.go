package app

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"otm/internal/cli"
	"otm/internal/safe"
)

// TestWrongUse: what a command cannot do as it is asked is told with what to ask
// instead, and nothing is changed.
func TestWrongUse(t *testing.T) {
	t.Parallel()
	p := newBusy(t)
	before := p.kept()
	for _, c := range []struct{ command, says, hint string }{
		{"otm lsit", `unknown command "lsit"`, "otm list"},
		{"otm create", `unknown command "create"`, "otm-create --help"},
		{"otm list --status open", `--status "open": there is new, assigned, `, "otm list --status in_progress"},
		{"otm list --status review", `--status "review": there is new, assigned, `, "otm list --status in_progress"},
		{"otm list --status todo", `--status "todo": there is new, assigned, `, "otm list --status in_progress"},
		{"otm help done", `unknown command "done"`, "otm --help"},
		{"otm help lsit", `unknown command "lsit"`, "otm list"},
		{"otm list --limit 3", "unknown flag: --limit", "otm list --help"},
		{"otm show", "want one task id", "otm show T-00035"},
		{"otm show 35x", `"35x"`, "otm list --all"},
		{"otm why", "want one task id, or --all", "otm why T-00035"},
		{"otm why --all T-00002", "want one task id, or --all", "otm why T-00035"},
		{"otm why x", `"x"`, "otm list --all"},
		{"otm history T-00001 T-00002", "give one task id, or none", "otm history T-00035"},
		{"otm history x", `"x"`, "otm list --all"},
		{"otm retry", "name the files, or give --all", "otm retry --all"},
		{"otm retry --all bad.json", "give either files or --all", "otm retry --all"},
		{"otm archive", "--older-than is missing", "otm archive --older-than 7d"},
		{"otm archive --older-than sevend --yes", `"sevend": not a number of days`, "otm archive --older-than 7d"},
		{"otm archive --older-than -1h --yes", "is negative", "otm archive --older-than 7d"},
		{"otm archive --older-than 7 --yes", "missing unit", "otm archive --older-than 7d"},
		{"otm next --agent robin", `no agent "robin" is configured`, "otm status"},
		{"otm next --agent devda", `no agent "devda" is configured`, "otm next --agent devdas"},
		{"otm prompt --agent devda", `no agent "devda" is configured`, "otm prompt --agent devdas"},
		{"otm board --row-limit -1", "--row-limit -1 is negative", "otm board --row-limit 1000"},
		{"otm board --limits none", `--limits "none": only slack is known`, "otm board --limits slack"},
		{"otm completion tcsh", "tcsh", "otm completion bash"},
		{"otm init --list F0123456789", "these flags are for --slack", "otm init --slack --token-stdin --list F0123456789"},
		{"otm-injector --sweep-every 1ms", "--sweep-every 1ms: at least 100ms", "--sweep-every 2m0s"},
		{"otm-dispatcher --every 1ms", "--every 1ms: at least 100ms", "--every 2m0s"},
		{"otm-completion-detector --every 0s", "--every 0s: at least 100ms", "--every 2m0s"},
	} {
		code, out := p.main(strings.Fields(c.command)...)
		if code != cli.Usage || !strings.Contains(out, c.says) || !strings.Contains(out, "\notm: hint: "+c.hint) {
			t.Errorf("%s: exit %d: %s\nwant %q and the hint %q", c.command, code, out, c.says, c.hint)
		}
	}
	if after := p.kept(); after != before {
		t.Errorf("it leaves\n%s\nwant\n%s", after, before)
	}
}

// TestC15Guesses: a mistyped command or flag gets the nearest one, and a guessed
// command the list of all, never one that changes something else: "otm get T-1" once
// led to "otm next", which takes a task.
func TestC15Guesses(t *testing.T) {
	t.Parallel()
	p := newBusy(t)
	before := p.kept()
	for _, c := range []struct{ args, hint string }{
		{"get T-1", "otm --help"},
		{"sttatus", "otm status"},
		{"lsit --all", "otm list"},
		{"--dir /d lsit", "otm --help"},
		{"version", "otm --help"},
		{"xyzzy", "otm --help"},
		{"up --exce", "otm up --help"},
		{"next --agnet devdas", "otm next --agent devdas"},
		{"list --state new", "otm list --status new"},
		{"show T-1 --jsn", "otm show T-1 --json"},
	} {
		code, out := p.main(append([]string{"otm"}, strings.Fields(c.args)...)...)
		if first, _, _ := strings.Cut(strings.SplitAfterN(out+"otm: hint: ", "otm: hint: ", 2)[1], "\n"); code != cli.Usage || first != c.hint {
			t.Errorf("otm %s: exit %d: %s\nwant first the hint %q", c.args, code, out, c.hint)
		}
	}
	if after := p.kept(); after != before {
		t.Errorf("it leaves\n%s\nwant\n%s", after, before)
	}
}

// TestHelpOfEvery: the help names no default for a flag that changes what the
// command does when it is given.
func TestHelpOfEvery(t *testing.T) {
	t.Parallel()
	p := &patient{T: t, h: newHome(t, "")}
	for _, command := range []string{"otm-dispatcher", "otm-completion-detector"} {
		if code, out := p.main(command, "--help"); code != cli.OK || !strings.Contains(out, "--every") || strings.Contains(out, "default 2m") {
			t.Errorf("%s: exit %d: %s", command, code, out)
		}
	}
}

// TestBadConfig: with an otm.toml that cannot be read, each command says which line
// of it is wrong, and does nothing else.
func TestBadConfig(t *testing.T) {
	t.Parallel()
	p := newBusy(t)
	toml := filepath.Join(p.h.Dir, "otm.toml")
	put(t, toml, content(t, toml)+"[agents.devdas\n")
	line := fmt.Sprintf("line %d, column 15: ", strings.Count(content(t, toml), "\n"))
	before := p.kept()
	for _, command := range []string{
		"otm status", "otm list", "otm show T-00002", "otm why T-00002", "otm history", "otm fsck", "otm fsck --repair", "otm archive --older-than 0d --yes",
		"otm next --agent devdas", "otm retry --all", "otm prompt", "otm up", "otm board", "otm board --link", "otm doctor",
		"otm-injector --once", "otm-injector", "otm-dispatcher", "otm-completion-detector --once",
	} {
		code, out := p.main(strings.Fields(command)...)
		if code != cli.BadConfig || !strings.Contains(out, line) || !strings.Contains(out, "\notm: hint: edit "+safe.Quote(toml)) {
			t.Errorf("%s: exit %d: %s", command, code, out)
		}
	}
	if after := p.kept(); after != before {
		t.Errorf("it leaves\n%s\nwant\n%s", after, before)
	}
}
