package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"otm/internal/cli"
)

// demoAgent is an agent that follows a script instead of a model.
type demoAgent struct {
	cli.Streams
	name string
}

// stepTime is the scripted agent's time for a step.
const stepTime = 120 * time.Millisecond

// work takes one task and does it. It reports whether a task waited.
func (a *demoAgent) work(ctx context.Context) (bool, error) {
	out, err := a.command(ctx, "otm", "next", "--agent", a.name, "--json")
	if err != nil {
		return false, err
	}
	var task *struct {
		TaskID   string   `json:"taskId"`
		Subtasks []string `json:"subtasks"`
		Done     []int    `json:"done"`
	}
	if err := json.Unmarshal(out, &task); err != nil {
		return false, fmt.Errorf("otm next printed %.80q: %w", out, err)
	}
	if task == nil {
		return false, nil
	}
	for n := 1; n <= len(task.Subtasks); n++ {
		if slices.Contains(task.Done, n) {
			continue
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(stepTime):
		}
		report := []string{"--task-id", task.TaskID, "--subtask-done", strconv.Itoa(n)}
		if n == len(task.Subtasks) {
			report = append(report, "--result", "done by the scripted agent "+a.name)
		}
		if _, err := a.command(ctx, "otm-update", report...); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (a *demoAgent) command(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}
