package dispatch

import (
	"errors"
	"fmt"
	"io/fs"
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
	missing := fmt.Sprintf("%q is not on PATH", program)
	if strings.Contains(program, "/") {
		if !filepath.IsAbs(program) {
			program = filepath.Join(a.Workspace, program)
		}
		missing = "there is no file " + program
	}
	_, err := exec.LookPath(program)
	if err == nil {
		return nil
	}
	f := explain.New(explain.CommandMissing, "agent", a.Name, "error", missing)
	if errors.Is(err, fs.ErrPermission) {
		f = explain.New(explain.CommandPlain, "agent", a.Name, "path", program)
	}
	return &f
}
