package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"otm/pipeline"
)

// soakAgentName is the name under which this binary is the agent of a soak.
const soakAgentName = "soak-agent"

// soakResult is what an agent says that came of a task.
const soakResult = "%v was done by %s"

func init() { scriptCommands[soakAgentName] = func() { os.Exit(soakAgent(os.Args[1:])) } }

// agentLine is what an agent wrote down: that it was given a task, or that it
// reported on one and was told that the report is on disk, or refused.
type agentLine struct {
	What     string // given, said, refused, trouble
	Agent    string
	Task     pipeline.TaskID
	Row      string // of given
	Continue bool   // of given
	File     string // of said
	Result   string // of said: what came of the task
	Again    bool   // it was reported before by a process that was killed
	Text     string
}

// soakWorker is an agent that follows a script: it takes a task, reports its
// steps, ends it in one of several ways, and takes the next, until none waits.
type soakWorker struct {
	bin, log, name string
}

// given is a task as "otm next --json" prints it.
type given struct {
	TaskID      pipeline.TaskID
	SlackItemID string
	Subtasks    []string
	Done        []int
	Continue    bool
	Reason      string
	Run         int
}

// soakAgent is the agent's main: BIN LOG NAME.
func soakAgent(args []string) int {
	w := &soakWorker{bin: args[0], log: args[1], name: args[2]}
	for tries := 0; tries < 100; {
		out, text, code := w.run("otm", "next", "--agent", w.name, "--json")
		switch code {
		case 0:
		case -1, 75:
			tries++
			continue
		default:
			w.note(agentLine{What: "trouble", Text: fmt.Sprintf("otm next: exit %d: %s", code, text)})
			return 1
		}
		var task *given
		if err := json.Unmarshal(out, &task); err != nil {
			w.note(agentLine{What: "trouble", Text: fmt.Sprintf("otm next printed %q", out)})
			return 1
		}
		if task == nil {
			return 0
		}
		w.note(agentLine{What: "given", Task: task.TaskID, Row: task.SlackItemID, Continue: task.Continue})
		w.work(task)
	}
	return 0
}

func (w *soakWorker) work(task *given) {
	open := []string{}
	for i, title := range task.Subtasks {
		if slices.Contains(task.Done, i+1) {
			continue
		}
		if i%2 == 0 {
			title = strconv.Itoa(i + 1)
		}
		open = append(open, title)
	}
	result := fmt.Sprintf(soakResult, task.TaskID, w.name)
	last := []string{"--status", "agent_done", "--result", result}
	way := int(task.TaskID) % 5
	if len(open) == 0 {
		w.report(task, result, last...)
		return
	}
	for i, step := range open {
		line := []string{"--subtask-done", step}
		said := ""
		if i == len(open)-1 {
			switch {
			case way < 2: // the detector sees that all steps are done
			case way == 4 && task.Reason == "":
				w.report(task, "", "--status", "blocked", "--reason", "a question")
				return // until a person has answered
			default:
				line, said = append(line, last...), result
			}
		}
		if !w.report(task, said, line...) {
			return
		}
	}
}

// report reports until it is on disk, or refused.
func (w *soakWorker) report(task *given, result string, args ...string) bool {
	for again := false; ; again = true {
		out, text, code := w.run("otm-update", append([]string{"--json", "--task-id", task.TaskID.String(), "--run", strconv.Itoa(task.Run)}, args...)...)
		var answer struct{ File string }
		switch json.Unmarshal(out, &answer); {
		case answer.File != "":
			w.note(agentLine{What: "said", Task: task.TaskID, File: answer.File, Result: result, Again: again, Text: fmt.Sprint(args)})
			return true
		case code == -1 || code == 75:
			continue
		case code == 64:
			w.note(agentLine{What: "refused", Task: task.TaskID, Again: again, Text: text})
		default:
			w.note(agentLine{What: "trouble", Task: task.TaskID, Text: fmt.Sprintf("otm-update: exit %d: %s", code, text)})
		}
		return false
	}
}

// run runs a command; a code of -1 says that it was killed.
func (w *soakWorker) run(name string, args ...string) (out []byte, text string, code int) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(filepath.Join(w.bin, name), args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return nil, err.Error(), 1
	}
	return stdout.Bytes(), stderr.String(), cmd.ProcessState.ExitCode()
}

// note writes a line down, in one write.
func (w *soakWorker) note(line agentLine) {
	line.Agent = w.name
	data, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	f, err := os.OpenFile(w.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err) // it has lost its memory, and must not go on
	}
	defer f.Close()
	if _, err := f.Write(append(data, '\n')); err != nil {
		panic(err)
	}
}

// readAgentLines reads what all agents of a folder wrote down, in the order of
// each.
func readAgentLines(dir string) ([]agentLine, error) {
	var lines []agentLine
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		for dec := json.NewDecoder(bytes.NewReader(data)); dec.More(); {
			var line agentLine
			if err := dec.Decode(&line); err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name(), err)
			}
			lines = append(lines, line)
		}
	}
	return lines, nil
}
