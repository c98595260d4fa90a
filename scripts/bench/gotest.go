package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// commands carries out commands of the store, which the old version does not have.
func (b *bench) commands() error {
	fmt.Println("commands of the store: reports on 200 tasks that are handed out")
	found, err := b.benchmarks(b.latest(), "./core/store", "Sync|Do")
	if err != nil {
		return err
	}
	syncs, one := found["Sync"]["syncs/s"], found["Do/callers=1"]["commands/s"]
	fmt.Printf("the disk: %.0f syncs of 16 KiB a second\n", syncs)
	for _, name := range []string{"Do/callers=1", "Do/callers=64", "Do/stores=8"} {
		r := found[name]
		fmt.Printf("%-16s %8.0f a second, %.2f × the disk, %.2f × one caller, %.2f ms of CPU each, slowest %.0f ms\n", name,
			r["commands/s"], r["commands/s"]/syncs, r["commands/s"]/one, r["cpu-ms/op"], r["slowest-ms"])
	}
	return nil
}

// pass times passes over a board whose rows are known as tasks.
func (b *bench) pass() error {
	header("a pass over a board, in the process: 1 row in 4 is a task")
	times := map[string]samples{}
	var names []string
	for range b.pick(3, 1) {
		for _, v := range b.builds {
			found, err := b.benchmarks(v, "./internal/app", "Pass")
			if err != nil {
				return err
			}
			names = sortedKeys(found)
			for name, r := range found {
				if times[name] == nil {
					times[name] = samples{}
				}
				times[name][v] = append(times[name][v], r["ns/op"]/1e6)
			}
		}
	}
	for _, name := range names {
		b.print(strings.TrimPrefix(name, "Pass/"), "ms", times[name], 0.5)
	}
	return nil
}

// benchmarks runs benchmarks of a package, and returns their figures by name and unit.
func (b *bench) benchmarks(v *build, pkg, which string) (map[string]map[string]float64, error) {
	cmd := exec.Command("go", "test", pkg, "-run", "^$", "-bench", which, "-count=1")
	cmd.Dir = v.src
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	found := map[string]map[string]float64{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) < 4 || !strings.HasPrefix(words[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(words[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i > 0 { // the number of CPUs
			name = name[:i]
		}
		found[name] = map[string]float64{}
		for i := 2; i+1 < len(words); i += 2 {
			found[name][words[i+1]], _ = strconv.ParseFloat(words[i], 64)
		}
	}
	return found, nil
}
