package main

import (
	"fmt"
	"sync"
	"time"
)

// create times otm-create, otm-update and their floors in turn, as whole
// processes, with a directory that holds more and more tasks.
func (b *bench) create() error {
	header("one drop, whole process, against the floor (a counter and a file, 4 syncs)")
	homes, err := b.newHomes("create", nothing)
	if err != nil {
		return err
	}
	floors, err := b.newHome(b.latest(), "create-floor", "")
	if err != nil {
		return err
	}
	have := 0
	for _, want := range sizes(b, 10000) {
		for _, h := range homes {
			if err := h.fill(have, want); err != nil {
				return err
			}
		}
		have = want
		creates := samples{}
		err := creates.take(b, b.pick(100, 15), func(v *build, _ int) (float64, error) {
			floor, err := timed(func() error { return floors.otm("floor", floors.dir, "Fix the login page") })
			if err != nil {
				return 0, err
			}
			ours, err := timed(func() error { return homes[v].otm("otm-create", "--title", "Fix the login page", "--agent", "devdas") })
			return ratio(ours, floor), err
		})
		if err != nil {
			return err
		}
		b.print(fmt.Sprintf("otm-create with %d tasks", want), "× the floor's time", creates, 0.5)
	}
	return nil
}

// sizes are how many tasks a directory holds, up to the given number.
func sizes(b *bench, atMost int) []int {
	if b.quick {
		atMost = min(atMost, 1000)
	}
	var some []int
	for _, n := range []int{0, 1000, 10000} {
		if n <= atMost {
			some = append(some, n)
		}
	}
	return some
}

// writers times many creates that are started at once, and as many floors.
func (b *bench) writers() error {
	header("creates started at once, until the last has ended")
	for _, n := range []int{8, 40, 64} {
		ids := samples{}
		err := ids.take(b, b.pick(7, 2), func(v *build, round int) (float64, error) {
			floor, err := b.together(v, "floor", n, round)
			if err != nil {
				return 0, err
			}
			ours, err := b.together(v, "otm-create", n, round)
			return ratio(floor, ours), err
		})
		if err != nil {
			return err
		}
		b.print(fmt.Sprintf("%d at once", n), "× the floor's ids a second", ids, 0.5)
	}
	return nil
}

// together runs a command n times at once, in a directory of its own.
func (b *bench) together(v *build, name string, n, round int) (time.Duration, error) {
	h, err := b.newHome(v, fmt.Sprintf("writers-%s-%d-%d", name, n, round), "")
	if err != nil {
		return 0, err
	}
	words := []string{"--title", "One of many", "--agent", "devdas"}
	if name == "floor" {
		words = []string{h.dir, "One of many"}
	}
	errs := make([]error, n)
	took, _ := timed(func() error {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { errs[i] = h.otm(name, words...) })
		}
		wg.Wait()
		return nil
	})
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	if got := h.count("new-tasks"); got != n {
		return 0, fmt.Errorf("%d writers left %d drops", n, got)
	}
	return took, nil
}
