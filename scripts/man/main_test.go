package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"otm/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

func TestPagesOfAllCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := run([]string{dir, "v1.2.3", "1700000000"}); err != nil {
		t.Fatal(err)
	}
	read := func(file string) string {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || len(text) == 0 {
			t.Errorf("%s: %d bytes, %v", file, len(text), err)
		}
		return string(text)
	}
	for _, name := range []string{"otm", "otm-create", "otm-update", "otm-injector", "otm-dispatcher", "otm-completion-detector"} {
		for _, file := range []string{"man/" + name + ".1", "completions/" + name + ".bash", "completions/_" + name, "completions/" + name + ".fish"} {
			read(file)
		}
	}
	for file, wants := range map[string][]string{
		"otm.1":         {`"OTM" "1" "Nov 2023" "otm v1.2.3" "OTM"`, "otm-install(1)", "data directory (default: OTM_DIR"},
		"otm-install.1": {"otm-install - Let systemd or launchd run the services", "otm install --systemd --dry-run\n", "\\fB--dry-run\\fP", "otm(1)"},
		"otm-create.1":  {"  otm-create --from - <<'EOF'\n  {\"title\":\"Fix the login page\",", "\\fB--priority\\fP=\"normal\""},
		"otm-update.1":  {"otm-update --task-id T-00033 --status in_progress\n"},
	} {
		text := read("man/" + file)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", file, want, text)
			}
		}
		for _, hidden := range []string{"assignedTo", "demo-agent", "Auto generated"} {
			if strings.Contains(text, hidden) {
				t.Errorf("%s holds %q, which is hidden", file, hidden)
			}
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Log("groff is missing: it did not read the pages")
		return
	}
	pages, _ := filepath.Glob(filepath.Join(dir, "man", "*.1"))
	if out, err := exec.Command(groff, append([]string{"-Kutf8", "-man", "-Tutf8", "-ww", "-z"}, pages...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v\n%s", err, out)
	}
}
