package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// memory measures what each process takes with 1,000 rows on the embedded
// board: resident memory, and CPU while nothing happens.
func (b *bench) memory() error {
	if runtime.GOOS != "linux" {
		fmt.Println("memory: read from /proc, on Linux only")
		return nil
	}
	fmt.Println("each process, with 1,000 rows on the embedded board")
	fmt.Printf("%38s %10s %10s %10s\n", "process", "resident", "peak", "idle CPU")
	if err := b.residents("up", [][]string{{"otm", "up"}}); err != nil {
		return err
	}
	if err := b.residents("apart", [][]string{
		{"otm", "board"}, {"otm-injector"}, {"otm-dispatcher", "--every", "2m"}, {"otm-completion-detector", "--every", "2m"},
	}); err != nil {
		return err
	}
	return b.passing()
}

// residents starts processes that stay, gives them 250 tasks of three steps,
// and looks at them while they idle.
func (b *bench) residents(name string, lines [][]string) error {
	h, err := b.newHome("memory-"+name, "[board]\nlisten = \"127.0.0.1:0\"\n")
	if err != nil {
		return err
	}
	var all []*exec.Cmd
	for i, words := range lines {
		cmd, stop, err := h.start(words[0], words[1:]...)
		if err != nil {
			return err
		}
		defer stop()
		all = append(all, cmd)
		if i > 0 {
			continue
		}
		if _, err := h.endpoint(); err != nil { // the board comes first
			return err
		}
	}
	tasks, err := h.lines(250, func(int) string { return "devdas" }, 3)
	if err != nil {
		return err
	}
	if err := h.otm("otm-create", "--from", tasks); err != nil {
		return err
	}
	if err := await("1,000 rows", 5*time.Minute, func() bool { return h.count("processed") == 250 }); err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // what was begun ends
	idle := time.Duration(b.pick(30, 3)) * time.Second
	before, err := cpuTimes(all)
	if err != nil {
		return err
	}
	time.Sleep(idle)
	after, err := cpuTimes(all)
	if err != nil {
		return err
	}
	for i, cmd := range all {
		pid := cmd.Process.Pid
		fmt.Printf("%38s %10s %10s %8.2f %%\n", strings.Join(lines[i], " "), procStatus(pid, "VmRSS"), procStatus(pid, "VmHWM"), 100*(after[i]-before[i]).Seconds()/idle.Seconds())
	}
	return nil
}

// passing measures otm-create while it waits for its drop to be handled.
func (b *bench) passing() error {
	h, err := b.newHome("memory-create", "")
	if err != nil {
		return err
	}
	cmd, stop, err := h.start("otm-create", "--title", "Measure", "--agent", "devdas", "--wait-for", "1m")
	if err != nil {
		return err
	}
	defer stop()
	if err := await("the drop", time.Minute, func() bool { return h.count("new-tasks") == 1 }); err != nil {
		return err
	}
	fmt.Printf("%38s %10s %10s\n", "otm-create", procStatus(cmd.Process.Pid, "VmRSS"), procStatus(cmd.Process.Pid, "VmHWM"))
	return nil
}

func cpuTimes(all []*exec.Cmd) ([]time.Duration, error) {
	var times []time.Duration
	for _, cmd := range all {
		t, err := cpuTime(cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		times = append(times, t)
	}
	return times, nil
}

func procStatus(pid int, field string) string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			return fmt.Sprintf("%.1f MB", float64(kb)/1024)
		}
	}
	return "?"
}

// cpuTime reads the CPU time of a process, in the kernel's ticks of 10 ms.
func cpuTime(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, err
}
