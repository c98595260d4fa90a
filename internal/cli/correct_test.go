package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

func TestParseLine(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"nothing", nil, "otm-create"},
		{"as it was", []string{"--title", "x", "--agent", "devdas"}, "otm-create --title x --agent devdas"},
		{"quotes", []string{"--title", "it's $(id)"}, `otm-create --title 'it'\''s $(id)'`},
		{"empty value", []string{"--title", ""}, "otm-create --title ''"},
		{"equals sign", []string{"--title=Fix login", "--agent=devdas"}, "otm-create --title 'Fix login' --agent devdas"},
		{"equals sign in a value", []string{"--title", "a=b"}, "otm-create --title a=b"},
		{"equals sign and words", []string{"--title=Fix", "the", "login"}, "otm-create --title 'Fix the login'"},
		{"words", []string{"--title", "Fix", "login", "bug", "--agent", "devdas"}, "otm-create --title 'Fix login bug' --agent devdas"},
		{"words in front", []string{"Fix", "login", "--agent", "devdas"}, "otm-create --title 'Fix login' --agent devdas"},
		{"repeated", []string{"--subtask", "a", "b", "--subtask", "c"}, "otm-create --subtask 'a b' --subtask c"},
		{"switch", []string{"--wait", "--title", "x"}, "otm-create --wait --title x"},
		{"words after a switch", []string{"--title", "x", "--wait", "now"}, "otm-create --title x --wait"},
		{"value that looks like a flag", []string{"--title", "--agent", "devdas"}, "otm-create --title '--agent devdas'"},
		{"value missing at the end", []string{"--title"}, "otm-create --title"},
		{"two hyphens", []string{"--title", "x", "--", "y"}, "otm-create --title 'x y'"},
		{"unknown flag", []string{"--colour", "red"}, "otm-create --colour"},
		{"hyphen word", []string{"--title", "a", "-x"}, "otm-create --title 'a -x'"},
		{"line feed", []string{"--title", "a\nb"}, "otm-create --title 'a\nb'"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := ParseLine(command(nil, nil), tt.args, "title").String(); got != tt.want {
				t.Errorf("ParseLine(%q) = %s, want %s", tt.args, got, tt.want)
			}
		})
	}
	if got := ParseLine(command(nil, nil), []string{"5", "agent_done", "or", "so", "--wait", "x"}, "title", "agent").String(); got != "otm-create --title 5 --agent 'agent_done or so' --wait" {
		t.Errorf("with two first flags the words give %s", got)
	}
	if got := ParseLine(command(nil, nil), []string{"word", "--wait"}).String(); got != "otm-create --wait" {
		t.Errorf("without a first flag the word gives %s", got)
	}
}

func TestCorrections(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		args   []string
		change func(l *Line)
		want   string
	}{
		{"set", []string{"--status", "done", "--title", "x"}, func(l *Line) { l.Set("status", "agent_done") }, "otm-create --status agent_done --title x"},
		{"set with an equals sign", []string{"--status=done"}, func(l *Line) { l.Set("status", "agent_done") }, "otm-create --status agent_done"},
		{"set what is missing", []string{"--title", "x"}, func(l *Line) { l.Set("agent", "dev das") }, "otm-create --title x --agent 'dev das'"},
		{"set what stands twice", []string{"--status", "a", "--title", "x", "--status", "b", "--wait"}, func(l *Line) { l.Set("status", "c") }, "otm-create --status c --title x --wait"},
		{"set a flag without a value", []string{"--status"}, func(l *Line) { l.Set("status", "c") }, "otm-create --status c"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := ParseLine(command(nil, nil), tt.args, "title")
			tt.change(l)
			if got := l.String(); got != tt.want {
				t.Errorf("%q became %s, want %s", tt.args, got, tt.want)
			}
		})
	}
}

func TestCommandPathOfASubcommand(t *testing.T) {
	t.Parallel()
	root := &cobra.Command{Use: "otm"}
	sub := &cobra.Command{Use: "create", Run: func(*cobra.Command, []string) {}}
	sub.Flags().String("title", "", "")
	root.AddCommand(sub)
	if got, want := ParseLine(sub, []string{"--title", "a b"}, "title").String(), "otm create --title 'a b'"; got != want {
		t.Errorf("the line is %s, want %s", got, want)
	}
}
