// Bench measures what docs/performance.md tells, in one run: it builds the
// commands the way they are shipped, works in a temporary directory, and prints
// the tables. It also builds the commands of the last commit before the engine, and
// measures both in turn: times belong to a machine and its load, so compare the
// ratios. TMPDIR says on which disk.
//
//	go run ./scripts/bench [-quick] [-only TABLE]
package main

import (
	"cmp"
	"errors"
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

// before is the last commit before the engine.
const before = "2e0d2fd"

func main() {
	quick := flag.Bool("quick", false, "fewer runs: to see that it works, not to quote")
	only := flag.String("only", "", "some tables, with commas: create, writers, life, drain, commands, wake, next, runs, pass, finished, memory, besides, calls, week")
	flag.Parse()
	b := &bench{quick: *quick}
	if err := b.run(*only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	quick  bool
	root   string   // temporary
	builds []*build // old, where there is one, and new
}

// build is one version of the commands.
type build struct {
	name string // old or new
	src  string // the module
	bin  string
}

func (b *bench) run(only string) error {
	root, err := os.MkdirTemp("", "otm bench ")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	b.root = root
	fmt.Printf("%s, %s, %d CPUs, %s/%s, %s, %s\n", time.Now().Format(time.DateOnly), cpuName(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), fileSystem(root))
	defer b.removeWorktree()
	if err := b.build(); err != nil {
		return err
	}
	tables := []struct {
		name  string
		print func() error
	}{
		{"create", b.create}, {"writers", b.writers}, {"life", b.life}, {"drain", b.drain}, {"commands", b.commands}, {"wake", b.wake},
		{"next", b.next}, {"runs", b.runs}, {"pass", b.pass}, {"finished", b.finished}, {"memory", b.memory}, {"besides", b.besides}, {"calls", b.calls}, {"week", b.week},
	}
	for _, t := range tables {
		if only != "" && !slices.Contains(strings.Split(only, ","), t.name) {
			continue
		}
		fmt.Println()
		if err := t.print(); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// build builds the commands of both versions, without cgo, which would add 4 ms to
// each start.
func (b *bench) build() error {
	old := &build{name: "old", src: filepath.Join(b.root, "old")}
	if out, err := exec.Command("git", "worktree", "add", "--detach", old.src, before).CombinedOutput(); err != nil {
		fmt.Printf("the new version alone is measured, as this clone lacks commit %s: %s\n", before, strings.TrimSpace(string(out)))
	} else {
		b.builds = append(b.builds, old)
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	b.builds = append(b.builds, &build{name: "new", src: here})
	for _, v := range b.builds {
		v.bin = filepath.Join(b.root, "bin-"+v.name)
		args := []string{"build", "-trimpath", "-o", v.bin + string(filepath.Separator), "./scripts/bench/floor"}
		for _, c := range []string{"otm", "otm-create", "otm-update", "otm-injector", "otm-dispatcher", "otm-completion-detector"} {
			args = append(args, "./cmd/"+c)
		}
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env, cmd.Stderr = v.src, append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
		if err := cmd.Run(); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) removeWorktree() {
	exec.Command("git", "worktree", "remove", "--force", filepath.Join(b.root, "old")).Run()
}

// latest is the new build.
func (b *bench) latest() *build { return b.builds[len(b.builds)-1] }

// samples are what was measured, by version.
type samples map[*build][]float64

// take measures all versions in turn, again and again.
func (s samples) take(b *bench, rounds int, measure func(v *build, round int) (float64, error)) error {
	for round := range rounds {
		for _, v := range b.builds {
			value, err := measure(v, round)
			if err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
			s[v] = append(s[v], value)
		}
	}
	return nil
}

// header heads the lines of print.
func header(what string) { fmt.Printf("%-62s %10s %10s %8s\n", what, "old", "new", "ratio") }

// print prints a quantile of both versions, and their ratio.
func (b *bench) print(what, unit string, s samples, q float64) {
	at := make([]float64, len(b.builds))
	for i, v := range b.builds {
		at[i] = quantile(s[v], q)
	}
	if len(at) == 1 {
		fmt.Printf("%-62s %10s %10s %8s  %s\n", what, "", figure(at[0]), "", unit)
		return
	}
	fmt.Printf("%-62s %10s %10s %8.2f  %s\n", what, figure(at[0]), figure(at[1]), at[1]/at[0], unit)
}

// figure prints small values with more digits.
func figure(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.1f", v)
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

// fileSystem names the type of the file system of a directory.
func fileSystem(dir string) string {
	out, err := exec.Command("stat", "-f", "-c", "%T", dir).Output()
	if err != nil {
		return "unknown file system"
	}
	return strings.TrimSpace(string(out))
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

// timed returns how long f takes.
func timed(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
}

// milliseconds returns how many f takes.
func milliseconds(f func() error) (float64, error) {
	t, err := timed(f)
	return t.Seconds() * 1000, err
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// await calls ok until it is true, for at most the given time.
func await(what string, atMost time.Duration, ok func() bool) error {
	for end := time.Now().Add(atMost); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("waited in vain for " + what)
		}
	}
	return nil
}
