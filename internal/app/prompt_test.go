package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"otm/internal/cli"
	"otm/skills"
)

// promptOf runs otm prompt.
func promptOf(h *Home, args ...string) (string, int) {
	var out bytes.Buffer
	s := h.Streams
	s.Out = &out
	c := rootCommand(s, args)
	c.SetArgs(append([]string{"prompt", "--dir", h.Dir}, args...))
	c.SilenceErrors, c.SilenceUsage = true, true
	if err := c.Execute(); err != nil {
		return out.String(), exitCode(err)
	}
	return out.String(), cli.OK
}

// TestPrompt: the text is the skill's, for agents and for an orchestrator, with
// the names that are configured at its end.
func TestPrompt(t *testing.T) {
	t.Parallel()
	const ai = "[agents.%s]\nworkspace = \"/tmp\"\n"
	two := strings.ReplaceAll(ai, "%s", "devdas") + strings.ReplaceAll(ai, "%s", `"kim x"`)
	for _, tt := range []struct {
		name, config, agent string
		code                int
		want                []string
	}{
		{"nobody is configured", "", "", cli.OK, []string{`--agent "$OTM_AGENT"`, "`$OTM_AGENT` below", "--agent archibald"}},
		{"named, nobody is configured", "", "dev das", cli.OK, []string{"--agent 'dev das'\n", "--agent archibald", "--agent robin --type decision"}},
		{"a person alone", "[agents.kim]\nkind = \"human\"\n", "", cli.OK, []string{`--agent "$OTM_AGENT"`, "* kim, a person\n"}},
		{"for a person", "[agents.kim]\nkind = \"human\"\n", "kim", cli.Usage, nil},
		{"named as they are configured", two, "DEVDAS", cli.OK, []string{"--agent devdas\n", "* devdas\n* kim x\n"}},
		{"a name of two words", two, "kim x", cli.OK, []string{"--agent 'kim x'\n"}},
		{"unknown", two, "archibald", cli.Usage, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, "")
			if err := os.WriteFile(filepath.Join(h.Dir, "otm.toml"), []byte(tt.config), 0o600); err != nil {
				t.Fatal(err)
			}
			var args []string
			if tt.agent != "" {
				args = []string{"--agent", tt.agent}
			}
			text, code := promptOf(h, args...)
			if code != tt.code {
				t.Fatalf("exit code %d, want %d", code, tt.code)
			}
			if code != cli.OK {
				return
			}
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			_, skill, _ := strings.Cut(skills.OTM, "\n---\n\n")
			if tt.agent != "" && strings.Contains(text, "$OTM_AGENT") {
				t.Errorf("it speaks of $OTM_AGENT:\n%s", text)
			}
			named := " --dir " + h.Dir
			if got, want := strings.Count(text, named), strings.Count(text, "```sh\n"); got < want {
				t.Errorf("the directory stands in %d commands of %d blocks", got, want)
			}
			if tt.config == "" && tt.agent == "" && strings.ReplaceAll(text, named, "") != skill {
				t.Errorf("it is not the skill:\n%s", text)
			}
		})
	}
}
