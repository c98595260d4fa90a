package app

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestC28Completion: shells offered file names for agents and task ids.
func TestC28Completion(t *testing.T) {
	t.Parallel()
	p := newBusy(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"otm", "__complete", "next", "--agent", ""}, ":4\n"},
		{[]string{"otm-create", "__complete", "--agent", ""}, ":4\n"},
		{[]string{"otm", "__complete", "show", ""}, ":4\n"},
		{[]string{"otm-update", "__complete", "--task-id", "T-"}, ":4\n"},
		{[]string{"otm-update", "__complete", "--status", ""}, "in_progress\nblocked\nagent_done\nfailed\n:4\n"},
		{[]string{"otm-create", "__complete", "--title", ""}, ":4\n"},
		{[]string{"otm-create", "__complete", "--from", ""}, ":0\n"},
	} {
		code, out := p.main(tt.args...)
		if got, _, _ := strings.Cut(out, "Completion ended"); code != 0 || got != tt.want {
			t.Errorf("%q: exit %d, %q, want %q", tt.args, code, got, tt.want)
		}
	}
}

// TestC28CompletionOfAllPrograms: after "go install" there is no completion script
// but the one that otm prints, so it completes the programs beside otm as well.
func TestC28CompletionOfAllPrograms(t *testing.T) {
	t.Parallel()
	p := newBusy(t)
	for shell, wants := range map[string][]string{
		"bash": {"-F __start_otm otm\n", "-F __start_otm-create otm-create\n", "-F __start_otm-injector otm-injector\n"},
		"zsh":  {"\ncompdef _otm otm\n", "\ncompdef _otm-create otm-create\n"},
		"fish": {"complete -c otm-create ", "complete -c otm-update "},
	} {
		code, out := p.main("otm", "completion", shell)
		for _, want := range wants {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("%s: exit %d, it lacks %q", shell, code, want)
			}
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		file := filepath.Join(t.TempDir(), "script")
		put(t, file, out)
		if out, err := exec.Command(path, "-n", file).CombinedOutput(); err != nil {
			t.Errorf("%s does not take it: %v\n%s", shell, err, out)
		}
	}
}
