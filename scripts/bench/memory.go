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

// memory measures what otm up takes with 1,000 rows on the embedded board, and what
// the programs take apart: resident memory, and CPU while nothing happens.
func (b *bench) memory() error {
	if runtime.GOOS != "linux" {
		fmt.Println("memory: read from /proc, on Linux only")
		return nil
	}
	header("with 1,000 rows on the embedded board, idle")
	for _, lines := range [][][]string{
		{{"otm", "up"}},
		{{"otm", "board"}, {"otm-injector"}, {"otm-dispatcher", "--every", "2m"}, {"otm-completion-detector", "--every", "2m"}},
	} {
		resident, idle := make([]samples, len(lines)), make([]samples, len(lines))
		for i := range lines {
			resident[i], idle[i] = samples{}, samples{}
		}
		for _, v := range b.builds {
			if err := b.residents(v, lines, resident, idle); err != nil {
				return err
			}
		}
		for i, words := range lines {
			b.print(strings.Join(words, " "), "MB", resident[i], 0.5)
			b.print(strings.Join(words, " ")+", CPU", "% of a core", idle[i], 0.5)
		}
	}
	return b.passing()
}

// residents starts processes that stay, gives them 250 tasks of three steps,
// and looks at them while they idle.
func (b *bench) residents(v *build, lines [][]string, resident, idle []samples) error {
	h, err := b.newHome(v, fmt.Sprint("memory-", len(lines)), listen)
	if err != nil {
		return err
	}
	var all []*exec.Cmd
	for i, words := range lines {
		start := h.start
		if i == 0 {
			start = h.up // the board comes first
		}
		cmd, stop, err := start(words[0], words[1:]...)
		if err != nil {
			return err
		}
		defer stop()
		all = append(all, cmd)
	}
	if err := h.createMany(250, 3, devdas); err != nil {
		return err
	}
	if err := await("1,000 rows", 5*time.Minute, func() bool { return h.count("processed") == 250 }); err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // what was begun ends
	while := time.Duration(b.pick(30, 3)) * time.Second
	before, err := cpuTimes(all)
	if err != nil {
		return err
	}
	time.Sleep(while)
	after, err := cpuTimes(all)
	if err != nil {
		return err
	}
	for i, cmd := range all {
		resident[i][v] = append(resident[i][v], procStatus(cmd.Process.Pid, "VmRSS"))
		idle[i][v] = append(idle[i][v], 100*(after[i]-before[i]).Seconds()/while.Seconds())
	}
	return nil
}

// passing measures otm-create while it waits for its drop to be handled.
func (b *bench) passing() error {
	resident := samples{}
	err := resident.take(b, 1, func(v *build, _ int) (float64, error) {
		h, err := b.newHome(v, "memory-create", "")
		if err != nil {
			return 0, err
		}
		cmd, stop, err := h.start("otm-create", "--title", "Measure", "--agent", "devdas", "--wait-for", "1m")
		if err != nil {
			return 0, err
		}
		defer stop()
		if err := await("the drop", time.Minute, func() bool { return h.count("new-tasks") == 1 }); err != nil {
			return 0, err
		}
		return procStatus(cmd.Process.Pid, "VmRSS"), nil
	})
	b.print("otm-create", "MB", resident, 0.5)
	return err
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

// procStatus reads a size from the status of a process, in MB.
func procStatus(pid int, field string) float64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			return float64(kb) / 1024
		}
	}
	return 0
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
