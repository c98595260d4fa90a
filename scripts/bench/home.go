package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"otm/core"
	"otm/core/store"
	"otm/pipeline"
)

// home is a data directory for one table.
type home struct {
	b   *bench
	dir string
	env []string
}

// newHome makes a data directory with the given configuration.
func (b *bench) newHome(name, config string) (*home, error) {
	h := &home{b: b, dir: filepath.Join(b.root, name, "data")}
	h.env = append(os.Environ(), "OTM_DIR="+h.dir)
	if err := h.otm("otm", "init"); err != nil {
		return nil, err
	}
	return h, os.WriteFile(filepath.Join(h.dir, "otm.toml"), []byte(config), 0o600)
}

// command prepares one of the commands.
func (h *home) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(h.b.bin, name), args...)
	cmd.Env = h.env
	return cmd
}

// otm runs one of the commands and fails with what it said.
func (h *home) otm(name string, args ...string) error {
	var stderr bytes.Buffer
	cmd := h.command(name, args...)
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.String())
	}
	return nil
}

// start starts a command that stays, and returns how to stop it.
func (h *home) start(name string, args ...string) (*exec.Cmd, func(), error) {
	cmd := h.command(name, args...)
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	return cmd, func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	}, nil
}

// lines is a file of tasks for otm-create --from.
func (h *home) lines(n int, agent func(i int) string, steps int) (string, error) {
	var b bytes.Buffer
	for i := range n {
		task := map[string]any{"title": fmt.Sprintf("Task number %d of the benchmark", i), "agent": agent(i)}
		if steps > 0 {
			var titles []string
			for s := range steps {
				titles = append(titles, fmt.Sprintf("Step %d", s+1))
			}
			task["subtasks"] = titles
		}
		if err := json.NewEncoder(&b).Encode(task); err != nil {
			return "", err
		}
	}
	path := filepath.Join(filepath.Dir(h.dir), "lines.jsonl")
	return path, os.WriteFile(path, b.Bytes(), 0o600)
}

// await calls ok until it is true, for at most the given time.
func await(what string, atMost time.Duration, ok func() bool) error {
	for end := time.Now().Add(atMost); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("waited in vain for " + what)
		}
	}
	return nil
}

// count counts the settled or waiting files of a directory.
func (h *home) count(sub string) int {
	entries, _ := os.ReadDir(filepath.Join(h.dir, sub))
	n := 0
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".json") && !strings.HasPrefix(e.Name(), ".") {
			n++
		}
	}
	return n
}

// store opens the database, beside the programs that are measured.
func (h *home) store() (*store.Store, error) {
	return store.Open(context.Background(), h.dir, store.Options{})
}

// task returns the state of a task; an empty one if the store does not have it yet.
func task(s *store.Store, id pipeline.TaskID) (*core.Task, error) {
	t, err := s.Task(context.Background(), id)
	if errors.Is(err, core.ErrNoTask) {
		return &core.Task{}, nil
	}
	return t, err
}

// endpoint is where the embedded board listens.
type endpoint struct {
	URL    string
	ListID string
}

func (h *home) endpoint() (endpoint, error) {
	var e endpoint
	err := await("the board", 20*time.Second, func() bool {
		data, err := os.ReadFile(filepath.Join(h.dir, "board", "endpoint.json"))
		return err == nil && json.Unmarshal(data, &e) == nil
	})
	return e, err
}
