package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// wake times the way from otm-create's return to the start of the agent's command,
// under otm up: each task goes to an agent of its own, as an agent is not woken twice.
func (b *bench) wake() error {
	n := b.pick(60, 10)
	woken := func(v *build, i int) string { return filepath.Join(b.root, fmt.Sprintf("woken-%s-%d", v.name, i)) }
	homes, err := b.newHomes("wake", func(v *build) string {
		config := listen
		for i := range n {
			config += b.agent(v, fmt.Sprint("a", i), fmt.Sprintf("command = [%q, %q]", filepath.Join(v.bin, "floor"), woken(v, i)))
		}
		return config
	})
	if err != nil {
		return err
	}
	for _, v := range b.builds {
		_, stop, err := homes[v].up("otm", "up")
		if err != nil {
			return err
		}
		defer stop()
	}
	waits := samples{}
	err = waits.take(b, n, func(v *build, i int) (float64, error) {
		if err := os.MkdirAll(filepath.Join(woken(v, i), "task-updates"), 0o700); err != nil {
			return 0, err
		}
		if err := homes[v].otm("otm-create", "--title", "Measure", "--agent", fmt.Sprint("a", i), "--subtask", "a", "--subtask", "b"); err != nil {
			return 0, err
		}
		return milliseconds(func() error {
			return await("the wake", time.Minute, func() bool {
				files, err := os.ReadDir(filepath.Join(woken(v, i), "task-updates"))
				return err == nil && len(files) > 0
			})
		})
	})
	header(fmt.Sprintf("from otm-create's return to the agent's start, %d tasks of two steps", n))
	b.print("create to wake, p50", "ms", waits, 0.5)
	b.print("create to wake, p95", "ms", waits, 0.95)
	return err
}

// drain times how long the injector takes for many files at once.
func (b *bench) drain() error {
	header("otm-injector --once, embedded board, tasks of one step")
	n := b.pick(1000, 50)
	rates := samples{}
	err := rates.take(b, b.pick(3, 1), func(v *build, round int) (float64, error) {
		h, err := b.newHome(v, fmt.Sprint("drain-", round), listen)
		if err != nil {
			return 0, err
		}
		_, stop, err := h.up("otm", "board")
		if err != nil {
			return 0, err
		}
		defer stop()
		if err := h.createMany(n, 0, devdas); err != nil {
			return 0, err
		}
		took, err := timed(func() error { return h.otm("otm-injector", "--once") })
		return float64(n) / took.Seconds(), err
	})
	b.print(fmt.Sprintf("%d drops", n), "tasks a second", rates, 0.5)
	return err
}

// next times otm next, which takes a task, under otm up.
func (b *bench) next() error {
	header("otm next, whole process, each time for another agent")
	n := b.pick(30, 8)
	agent := func(i int) string { return fmt.Sprint("a", i) }
	homes, err := b.newHomes("next", func(v *build) string {
		config := listen
		for i := range n {
			config += b.agent(v, agent(i), `trigger = "none"`)
		}
		return config
	})
	if err != nil {
		return err
	}
	for _, v := range b.builds {
		_, stop, err := homes[v].up("otm", "up")
		if err != nil {
			return err
		}
		defer stop()
		if err := homes[v].createMany(n, 3, agent); err != nil {
			return err
		}
		for i := range n {
			if err := homes[v].awaitStatus(fmt.Sprintf("T-%05d", i+1), "assigned"); err != nil {
				return err
			}
		}
	}
	time.Sleep(2 * time.Second) // what was begun ends
	times := samples{}
	err = times.take(b, n, func(v *build, i int) (float64, error) {
		return milliseconds(func() error { return homes[v].otm("otm", "next", "--agent", agent(i)) })
	})
	b.print("otm next", "ms", times, 0.5)
	return err
}

// finished times programs in directories with 200 tasks that wait for their agent, and
// 200 or 20,000 that are over.
func (b *bench) finished() error {
	header("with 200 live tasks, and others that are over")
	for _, over := range []int{200, b.pick(20000, 1000)} {
		homes, err := b.newHomes(fmt.Sprint("finished-", over), func(v *build) string { return listen + b.agent(v, "devdas", `trigger = "none"`) })
		if err != nil {
			return err
		}
		for _, v := range b.builds {
			h := homes[v]
			if err := h.finish(over); err != nil {
				return err
			}
			_, stop, err := h.up("otm", "board")
			if err != nil {
				return err
			}
			defer stop()
			if err := h.createMany(200, 0, devdas); err != nil {
				return err
			}
			for _, program := range []string{"otm-injector", "otm-dispatcher"} {
				if err := h.otm(program, "--once"); err != nil {
					return err
				}
			}
		}
		for _, words := range [][]string{{"otm-dispatcher", "--once"}, {"otm", "why", "--all"}, {"otm", "status"}, {"otm", "why", "T-00007"}, {"otm", "show", "T-00007"}} {
			times, cpu := samples{}, samples{}
			err := times.take(b, b.pick(9, 3), func(v *build, _ int) (float64, error) {
				return milliseconds(func() error {
					used, err := homes[v].used(words[0], words[1:]...)
					cpu[v] = append(cpu[v], used.Seconds()*1000)
					return err
				})
			})
			if err != nil {
				return err
			}
			what := fmt.Sprintf("%v, %d over", words, over)
			b.print(what, "ms", times, 0.5)
			b.print(what+", CPU", "ms", cpu, 0.5)
		}
	}
	return nil
}

// finish puts records of finished tasks there, as the old version left them. The new
// one imports them when it starts.
func (h *home) finish(n int) error {
	at := time.Now().Add(-24 * time.Hour).UTC()
	for i := range n {
		id := fmt.Sprintf("T-%05d", 100000+i)
		record := map[string]any{
			"taskId": id, "dropId": fmt.Sprint("d", i), "title": fmt.Sprint("Finished ", i), "agent": "devdas", "priority": "normal", "type": "action",
			"createdAt": at, "rowId": fmt.Sprint("Rec", i), "status": "done", "archivedAt": at, "attempt": 1,
			"steps":    []any{map[string]any{"title": "a", "rowId": fmt.Sprint("Sub", i), "done": true}},
			"dispatch": map[string]any{"attempt": 1, "agent": "devdas", "workspace": "/ws", "at": at, "entryAt": at, "flippedAt": at, "takenAt": at, "takenBy": "otm next"},
		}
		var history []any
		for _, move := range []string{"new to assigned", "assigned to in_progress", "in_progress to agent_done", "agent_done to done"} {
			history = append(history, map[string]any{"at": at, "who": "otm-injector", "what": "status", "detail": move})
		}
		record["history"] = history
		data, err := json.Marshal(record)
		if err != nil {
			return err
		}
		if err := h.write(filepath.Join("tasks", id+".json"), string(data)); err != nil {
			return err
		}
	}
	return h.write("format", strconv.Itoa(1)+"\n")
}
