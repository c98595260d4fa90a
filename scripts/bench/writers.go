package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// writers times many creates that are started at once. A create makes two files
// durable, the counter and the drop, so that half of what the disk does for one
// writer is what it allows.
func (b *bench) writers() error {
	fmt.Println("creates started at once, as whole processes; the disk allows half as many ids as it makes files durable for one writer")
	fmt.Printf("%10s %12s %8s %14s %8s %18s %14s\n", "writers", "otm-create", "ids/s", "floor", "ids/s", "durable files/s", "ids of allowed")
	for _, n := range []int{1, 8, 40, 64} {
		var ours, floor []time.Duration
		var files []float64
		for round := range b.pick(5, 1) {
			rate, err := b.durableFiles()
			if err != nil {
				return err
			}
			files = append(files, rate)
			for name, walls := range map[string]*[]time.Duration{"otm-create": &ours, "floor": &floor} {
				h, err := b.newHome(fmt.Sprintf("writers-%s-%d-%d", name, n, round), "")
				if err != nil {
					return err
				}
				words := []string{"--title", "One of many", "--agent", "devdas"}
				if name == "floor" {
					words = []string{h.dir, "One of many"}
				}
				wall, err := timed(func() error { return h.together(n, name, words) })
				if err != nil {
					return err
				}
				if got := h.count("new-tasks"); got != n {
					return fmt.Errorf("%d writers left %d drops", n, got)
				}
				*walls = append(*walls, wall)
			}
		}
		o, f, rate := quantile(ours, 0.5), quantile(floor, 0.5), quantile(files, 0.5)
		ids := float64(n) / o.Seconds()
		fmt.Printf("%10d %12s %8.0f %14s %8.0f %18.0f %13.0f%%\n", n, ms(o), ids, ms(f), float64(n)/f.Seconds(), rate, 100*ids/(rate/2))
	}
	return nil
}

// together runs a command n times at once.
func (h *home) together(n int, name string, words []string) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { errs[i] = h.otm(name, words...) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// durableFiles is how many files one writer makes durable a second: temporary
// file, fsync, rename, fsync of the directory.
func (b *bench) durableFiles() (float64, error) {
	dir, err := os.MkdirTemp(b.root, "disk")
	if err != nil {
		return 0, err
	}
	n := 0
	began := time.Now()
	for ; time.Since(began) < time.Second; n++ {
		if err := durableFile(filepath.Join(dir, "file"), []byte("{\"next\":1}\n")); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

func durableFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
