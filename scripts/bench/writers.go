package main

import (
	"fmt"
	"sync"
	"time"
)

// writers times many creates that are started at once, and as many floors.
func (b *bench) writers() error {
	fmt.Println("creates started at once, as whole processes, until the last has ended")
	fmt.Printf("%10s %12s %8s %14s %8s %8s\n", "writers", "otm-create", "ids/s", "floor", "ids/s", "ratio")
	for _, n := range []int{1, 8, 40, 64} {
		var ours, floor durations
		for round := range b.pick(5, 1) {
			if err := b.together("otm-create", n, round, &ours); err != nil {
				return err
			}
			if err := b.together("floor", n, round, &floor); err != nil {
				return err
			}
		}
		o, f := quantile(ours, 0.5), quantile(floor, 0.5)
		fmt.Printf("%10d %12s %8.0f %14s %8.0f %8.2f\n", n, ms(o), float64(n)/o.Seconds(), ms(f), float64(n)/f.Seconds(), ratio(o, f))
	}
	return nil
}

// together runs a command n times at once, in a directory of its own.
func (b *bench) together(name string, n, round int, times *durations) error {
	h, err := b.newHome(fmt.Sprintf("writers-%s-%d-%d", name, n, round), "")
	if err != nil {
		return err
	}
	words := []string{"--title", "One of many", "--agent", "devdas"}
	if name == "floor" {
		words = []string{h.dir, "One of many"}
	}
	began := time.Now()
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { errs[i] = h.otm(name, words...) })
	}
	wg.Wait()
	*times = append(*times, time.Since(began))
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	if got := h.count("new-tasks"); got != n {
		return fmt.Errorf("%d writers left %d drops", n, got)
	}
	return nil
}
