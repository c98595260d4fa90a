package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// home is a data directory for one table and one version.
type home struct {
	*build
	b   *bench
	dir string
	env []string
}

// newHome makes a data directory with the given configuration.
func (b *bench) newHome(v *build, name, config string) (*home, error) {
	h := &home{build: v, b: b, dir: filepath.Join(b.root, name+"-"+v.name, "data")}
	h.env = append(os.Environ(), "OTM_DIR="+h.dir)
	if err := h.otm("otm", "init"); err != nil {
		return nil, err
	}
	return h, os.WriteFile(filepath.Join(h.dir, "otm.toml"), []byte(config), 0o600)
}

// newHomes makes a data directory for each version.
func (b *bench) newHomes(name string, config func(v *build) string) (map[*build]*home, error) {
	homes := map[*build]*home{}
	for _, v := range b.builds {
		h, err := b.newHome(v, name, config(v))
		if err != nil {
			return nil, err
		}
		homes[v] = h
	}
	return homes, nil
}

// listen lets the embedded board choose its port.
const listen = "[board]\nlisten = \"127.0.0.1:0\"\n"

func nothing(*build) string { return "" }

// agent is a table of otm.toml. Its workspace is made.
func (b *bench) agent(v *build, name, trigger string) string {
	ws := filepath.Join(b.root, "ws-"+v.name, name)
	if err := os.MkdirAll(ws, 0o700); err != nil {
		panic(err)
	}
	return fmt.Sprintf("[agents.%s]\nworkspace = %q\n%s\n", name, ws, trigger)
}

// command prepares one of the commands.
func (h *home) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(h.bin, name), args...)
	cmd.Env = h.env
	return cmd
}

// otm runs one of the commands and fails with what it said.
func (h *home) otm(name string, args ...string) error {
	_, err := h.used(name, args...)
	return err
}

// used runs one of the commands, and returns its processor time.
func (h *home) used(name string, args ...string) (time.Duration, error) {
	var stderr bytes.Buffer
	cmd := h.command(name, args...)
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.String())
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
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

// up starts a command that has the embedded board, and waits for it.
func (h *home) up(name string, args ...string) (*exec.Cmd, func(), error) {
	cmd, stop, err := h.start(name, args...)
	if err != nil {
		return nil, nil, err
	}
	if _, err := h.endpoint(); err != nil {
		stop()
		return nil, nil, err
	}
	return cmd, stop, nil
}

// createMany drops n tasks with so many steps (0: the one that each task has).
func (h *home) createMany(n, steps int, agent func(i int) string) error {
	var b bytes.Buffer
	for i := range n {
		task := map[string]any{"title": fmt.Sprintf("Task number %d of the benchmark", i), "agent": agent(i)}
		var titles []string
		for s := range steps {
			titles = append(titles, fmt.Sprintf("Step %d", s+1))
		}
		if steps > 0 {
			task["subtasks"] = titles
		}
		if err := json.NewEncoder(&b).Encode(task); err != nil {
			return err
		}
	}
	path := filepath.Join(filepath.Dir(h.dir), "lines.jsonl")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		return err
	}
	return h.otm("otm-create", "--from", path)
}

func devdas(int) string { return "devdas" }

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

// awaitStatus waits until the file of a task, which both versions have, shows a
// status.
func (h *home) awaitStatus(id, status string) error {
	return await(id+" to be "+status, time.Minute, func() bool {
		var file struct{ Status string }
		data, err := os.ReadFile(filepath.Join(h.dir, "tasks", id+".json"))
		return err == nil && json.Unmarshal(data, &file) == nil && file.Status == status
	})
}

// fill puts files of tasks and settled drops there, as tasks that went through leave
// them.
func (h *home) fill(have, want int) error {
	for i := have; i < want; i++ {
		id := fmt.Sprintf("T-%05d", 500000+i)
		for _, dir := range []string{"tasks", "processed"} {
			if err := h.write(filepath.Join(dir, id+".json"), fmt.Sprintf(`{"taskId":%q,"title":"filler"}`, id)); err != nil {
				return err
			}
		}
	}
	return nil
}

// write makes a file of the data directory.
func (h *home) write(name, text string) error {
	path := filepath.Join(h.dir, name)
	err := os.WriteFile(path, []byte(text), 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	return err
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
