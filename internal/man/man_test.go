package man

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func tree() *cobra.Command {
	root := &cobra.Command{Use: "otm", Short: "Move work", Long: "First line\nsecond.\n\n  indented 'line'\n\n.begins with a dot \\ and a backslash", Version: "v1", RunE: func(*cobra.Command, []string) error { return nil }}
	root.PersistentFlags().String("dir", "", "data `DIRECTORY`")
	sub := &cobra.Command{Use: "next --agent NAME", Short: "Take a task", Example: "  otm next --agent 'a b'", RunE: root.RunE}
	sub.Flags().Duration("every", 2*time.Minute, "time between")
	sub.Flags().Bool("secret", false, "not told")
	sub.Flags().MarkHidden("secret")
	root.AddCommand(sub, &cobra.Command{Use: "hidden", Hidden: true, RunE: root.RunE})
	return root
}

func TestPages(t *testing.T) {
	t.Parallel()
	pages := Pages(tree(), "v1.2.3", time.Date(2026, 3, 14, 23, 0, 0, 0, time.FixedZone("", -7200)))
	if len(pages) != 2 || pages[0].Name != "otm.1" || pages[1].Name != "otm-next.1" {
		t.Fatalf("pages %v", pages)
	}
	for i, wants := range [][]string{
		{`.TH "OTM" 1 "2026\-03\-15" "otm v1.2.3" OTM`, "otm \\- move work\n", "First line\nsecond.\n", ".nf\n  indented \\(aqline\\(aq\n.fi\n", "\n\\&.begins with a dot \\e and", ".BR \"otm\\-next\" (1)\nTake a task\n", ".B \\-\\-dir DIRECTORY\ndata DIRECTORY\n"},
		{".SH NAME\notm\\-next \\- take a task\n", ".SH DESCRIPTION\n.PP\nTake a task.\n", "(default 2m0s)", "\\-\\-dir DIRECTORY", ".SH EXAMPLES\n.nf\n  otm next \\-\\-agent \\(aqa b\\(aq\n.fi\n", ".SH SEE ALSO\n.BR \"otm\" (1)\n"},
	} {
		for _, want := range wants {
			if !strings.Contains(string(pages[i].Text), want) {
				t.Errorf("%s lacks %q:\n%s", pages[i].Name, want, pages[i].Text)
			}
		}
		if strings.Contains(string(pages[i].Text), "secret") || strings.Contains(string(pages[i].Text), "hidden") {
			t.Errorf("%s tells what is hidden:\n%s", pages[i].Name, pages[i].Text)
		}
	}
}

// TestGroff has groff read the pages, where it is.
func TestGroff(t *testing.T) {
	t.Parallel()
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("needs groff")
	}
	for _, p := range Pages(tree(), "v1", time.Now()) {
		cmd := exec.Command(groff, "-man", "-Tutf8", "-ww", "-z")
		cmd.Stdin = strings.NewReader(string(p.Text))
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", p.Name, err, out)
		}
	}
}
