package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"otm/pipeline"
	"otm/pipeline/rendering"
)

// create times otm-create, otm-update and their floors in turn, as whole
// processes, with a directory that holds more and more tasks.
func (b *bench) create() error {
	fmt.Println("create or report on one task, whole process, in pairs with the floor (lock, counter, file, fsyncs, rename)")
	fmt.Printf("%10s %12s %12s %8s %14s %12s %8s\n", "tasks", "otm-create", "floor", "ratio", "otm-update", "floor", "ratio")
	h, err := b.newHome("create", "")
	if err != nil {
		return err
	}
	id, err := h.reportable()
	if err != nil {
		return err
	}
	runs := [][]string{
		{"otm-create", "--title", "Fix the login page", "--agent", "devdas"},
		{"floor", h.dir, "Fix the login page"},
		{"otm-update", "--task-id", id, "--subtask-done", "1"},
		{"floor", h.dir},
	}
	have := 0
	for _, want := range sizes(b, 10000) {
		if err := h.fill(have, want); err != nil {
			return err
		}
		have = want
		times, err := h.inTurn(b.pick(100, 15), runs)
		if err != nil {
			return err
		}
		fmt.Printf("%10d %12s %12s %8.2f %14s %12s %8.2f\n", want,
			ms(times[0]), ms(times[1]), ratio(times[0], times[1]), ms(times[2]), ms(times[3]), ratio(times[2], times[3]))
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

// inTurn runs commands one after the other, again and again, and returns the
// median time of each.
func (h *home) inTurn(rounds int, runs [][]string) ([]time.Duration, error) {
	times := make([][]time.Duration, len(runs))
	for range rounds {
		for i, words := range runs {
			t, err := timed(func() error { return h.otm(words[0], words[1:]...) })
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], t)
		}
	}
	medians := make([]time.Duration, len(runs))
	for i := range times {
		medians[i] = quantile(times[i], 0.5)
	}
	return medians, nil
}

func timed(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// reportable puts the rendering of a task there on which an agent can report.
func (h *home) reportable() (id string, err error) {
	r := pipeline.Rendering{TaskID: 400000, Title: "Be reported on", Agent: "devdas", Status: pipeline.InProgress, Attempt: 1, Steps: []pipeline.RenderedStep{{Title: "a"}}}
	return r.TaskID.String(), rendering.Write(h.dir, r)
}

// fill puts renderings and settled drops there, as tasks that went through leave
// them.
func (h *home) fill(have, want int) error {
	for i := have; i < want; i++ {
		id := fmt.Sprintf("T-%05d", 500000+i)
		for _, dir := range []string{"tasks", "processed"} {
			if err := h.write(filepath.Join(dir, id+".json"), fmt.Sprintf(`{"taskId":%q,"title":"filler"}`, id)); err != nil {
				return err
			}
		}
	}
	return nil
}

// write makes a file of the data directory.
func (h *home) write(name, text string) error {
	path := filepath.Join(h.dir, name)
	err := os.WriteFile(path, []byte(text), 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	return err
}
