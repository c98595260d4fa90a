package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// create times otm-create and the floor in turn, as whole processes, with a
// directory that holds more and more tasks.
func (b *bench) create() error {
	fmt.Println("create one task, whole process, in pairs with the floor (lock, counter, file, fsyncs, rename)")
	fmt.Printf("%10s %12s %12s %8s\n", "tasks", "otm-create", "floor", "ratio")
	h, err := b.newHome("create", "")
	if err != nil {
		return err
	}
	have := 0
	for _, want := range []int{0, 1000, 10000} {
		if b.quick && want > 1000 {
			break
		}
		if err := h.fill(have, want); err != nil {
			return err
		}
		have = want
		var ours, floor []time.Duration
		for range b.pick(150, 15) {
			t, err := timed(func() error { return h.otm("otm-create", "--title", "Fix the login page", "--agent", "devdas") })
			if err != nil {
				return err
			}
			ours = append(ours, t)
			if t, err = timed(func() error { return h.otm("floor", h.dir, "Fix the login page") }); err != nil {
				return err
			}
			floor = append(floor, t)
		}
		o, f := quantile(ours, 0.5), quantile(floor, 0.5)
		fmt.Printf("%10d %12s %12s %8.2f\n", want, ms(o), ms(f), float64(o)/float64(f))
	}
	return nil
}

func timed(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
}

// fill puts records and settled drops there, as tasks that went through leave
// them.
func (h *home) fill(have, want int) error {
	for i := have; i < want; i++ {
		id := fmt.Sprintf("T-%05d", 500000+i)
		for _, dir := range []string{"tasks", "processed"} {
			path := filepath.Join(h.dir, dir, id+".json")
			if err := os.WriteFile(path, fmt.Appendf(nil, `{"taskId":%q,"title":"filler"}`, id), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// writers times many creates that are started at once.
func (b *bench) writers() error {
	fmt.Println("creates started at once")
	fmt.Printf("%10s %12s %14s\n", "writers", "wall", "ids a second")
	for _, n := range []int{1, 8, 40, 64} {
		var walls []time.Duration
		for range b.pick(5, 1) {
			h, err := b.newHome(fmt.Sprintf("writers-%d-%d", n, len(walls)), "")
			if err != nil {
				return err
			}
			wall, err := timed(func() error { return h.together(n) })
			if err != nil {
				return err
			}
			if got := h.count("new-tasks"); got != n {
				return fmt.Errorf("%d writers left %d drops", n, got)
			}
			walls = append(walls, wall)
		}
		wall := quantile(walls, 0.5)
		fmt.Printf("%10d %12s %14.0f\n", n, ms(wall), float64(n)/wall.Seconds())
	}
	return nil
}

func (h *home) together(n int) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { errs[i] = h.otm("otm-create", "--title", "One of many", "--agent", "devdas") })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
