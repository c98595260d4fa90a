package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/pipeline"
)

// onDisk returns a directory on the disk of the working directory: a temporary one may be
// in memory, where a sync costs nothing.
func onDisk(b *testing.B) string {
	dir, err := os.MkdirTemp(".", ".bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	if dir, err = filepath.Abs(dir); err != nil {
		b.Fatal(err)
	}
	return dir
}

// cpu is the processor time of this process so far.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSync is what the disk can do: 16 KiB appended and synced.
func BenchmarkSync(b *testing.B) {
	f, err := os.Create(filepath.Join(onDisk(b), "file"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	data := make([]byte, 16<<10)
	for b.Loop() {
		if _, err := f.Write(data); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "syncs/s")
}

// BenchmarkDo carries out commands on 200 tasks that are handed out: an agent reports
// one after another.
func BenchmarkDo(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			s := opened(b)(Open(b.Context(), onDisk(b), Options{BusyTimeout: time.Minute}))
			benchmarkDo(b, callers, func(int) *Store { return s })
		})
	}
	// As many connections as eight processes have.
	b.Run("stores=8", func(b *testing.B) {
		dir := onDisk(b)
		var stores []*Store
		for range 8 {
			stores = append(stores, opened(b)(Open(b.Context(), dir, Options{BusyTimeout: time.Minute})))
		}
		benchmarkDo(b, 8, func(i int) *Store { return stores[i] })
	})
}

func benchmarkDo(b *testing.B, callers int, store func(i int) *Store) {
	const tasks = 200
	for id := pipeline.TaskID(1); id <= tasks; id++ {
		handedOut(b, store(0), id)
	}
	var next, slowest atomic.Int64
	used := cpu(b)
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				begun := time.Now()
				o, err := store(i).Do(context.Background(), core.Command{
					ID: fmt.Sprint("u", n), At: t0, By: core.ByAgent("Dev Das"), Task: pipeline.TaskID(1 + n%tasks),
					Do: core.Report{Drop: "u.json", Dropped: t0, Steps: []string{"one"}, Result: fmt.Sprint("result ", n)},
				})
				if err != nil || o[0].Err != nil {
					b.Error(err, o)
					return
				}
				for took := int64(time.Since(begun)); took > slowest.Load(); {
					slowest.Store(took)
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
	b.ReportMetric(float64(cpu(b)-used)/float64(b.N)/1e6, "cpu-ms/op")
	b.ReportMetric(float64(slowest.Load())/1e6, "slowest-ms")
}

// BenchmarkTasks (C53) reads the tasks of a pass: 1,000 live ones, beside 20,000 finished ones.
func BenchmarkTasks(b *testing.B) {
	for _, finished := range []int{0, 20000} {
		b.Run(fmt.Sprint("finished=", finished), func(b *testing.B) {
			s := opened(b)(Open(b.Context(), b.TempDir(), Options{BusyTimeout: time.Minute}))
			var commands []core.Command
			for id := pipeline.TaskID(1); id <= pipeline.TaskID(1000+finished); id++ {
				commands = append(commands, request(id, fmt.Sprint("d", int(id))))
				if id > 1000 {
					cancelled := pipeline.Cancelled
					commands = append(commands, core.Command{At: t0, By: ada, Task: id, Do: core.Edits{Status: &cancelled}})
				}
			}
			if _, err := s.Do(b.Context(), commands...); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if tasks, err := s.Tasks(b.Context(), core.Filter{Live: true}); err != nil || len(tasks) != 1000 {
					b.Fatal(len(tasks), err)
				}
			}
		})
	}
}
