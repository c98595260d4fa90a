package dispatch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"otm/internal/explain"
	"otm/pipeline"
)

// CommandProblem returns why the command of an agent cannot be started, by the files
// that are there and the PATH of this process; nil: no reason is known.
func CommandProblem(a *pipeline.Agent) *explain.Finding {
	if a.Trigger != pipeline.TriggerExec || len(a.Command) == 0 {
		return nil
	}
	program := a.Command[0]
	var paths []string
	missing := fmt.Sprintf("%q is not on PATH", program)
	switch {
	case filepath.IsAbs(program):
		paths = []string{program}
	case strings.Contains(program, "/"):
		paths = []string{filepath.Join(a.Workspace, program)}
	default:
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			paths = append(paths, filepath.Join(dir, program))
		}
	}
	if strings.Contains(program, "/") {
		missing = "there is no file " + paths[0]
	}
	plain := ""
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || info.IsDir() {
			continue
		}
		if _, err := exec.LookPath(path); err == nil {
			return nil
		}
		if plain == "" {
			plain = path
		}
	}
	f := explain.New(explain.CommandMissing, "agent", a.Name, "error", missing)
	if plain != "" {
		f = explain.New(explain.CommandPlain, "agent", a.Name, "path", plain)
	}
	return &f
}
