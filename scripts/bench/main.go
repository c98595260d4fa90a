// Bench measures what docs/performance.md tells, in one run: it builds the
// commands the way they are shipped, works in a temporary directory, and prints
// the tables. Times depend on the machine, which is named first; compare the
// ratios.
//
//	go run ./scripts/bench [-quick]
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	quick := flag.Bool("quick", false, "fewer runs: to see that it works, not to quote")
	only := flag.String("only", "", "one table: create, besides, writers, latency, calls, memory, drain, week")
	flag.Parse()
	b := &bench{quick: *quick}
	if err := b.run(*only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	quick bool
	root  string // temporary
	bin   string
}

func (b *bench) run(only string) error {
	root, err := os.MkdirTemp("", "otm bench ")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	b.root, b.bin = root, filepath.Join(root, "bin")
	fmt.Printf("%s, %d CPUs, %s/%s, %s\n", cpuName(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	if err := b.build(); err != nil {
		return err
	}
	tables := []struct {
		name  string
		print func() error
	}{
		{"create", b.create}, {"besides", b.besides}, {"writers", b.writers}, {"latency", b.latency},
		{"calls", b.calls}, {"memory", b.memory}, {"drain", b.drain}, {"week", b.week},
	}
	for _, t := range tables {
		if only != "" && only != t.name {
			continue
		}
		fmt.Println()
		if err := t.print(); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// build builds the commands without cgo, which would add 4 ms to each start.
func (b *bench) build() error {
	args := []string{"build", "-trimpath", "-o", b.bin + string(filepath.Separator)}
	for _, c := range []string{"otm", "otm-create", "otm-update", "otm-injector", "otm-dispatcher", "otm-completion-detector"} {
		args = append(args, "./cmd/"+c)
	}
	cmd := exec.Command("go", append(args, "./scripts/bench/floor")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// pick returns n, or less for a quick run.
func (b *bench) pick(n, quick int) int {
	if b.quick {
		return quick
	}
	return n
}

func cpuName() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown CPU"
	}
	for line := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return "unknown CPU"
}

// quantile returns the value below which the given share of the values lies.
func quantile[T cmp.Ordered](values []T, q float64) (at T) {
	if len(values) == 0 {
		return at
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// durations are the times of many runs.
type durations []time.Duration

func (d *durations) time(f func() error) error {
	t, err := timed(f)
	*d = append(*d, t)
	return err
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
