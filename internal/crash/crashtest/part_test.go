package crashtest

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"otm/internal/crash"
)

// TestC27PartsAreTheWhole: the parts of a walk take each of its cases, and each
// once: nothing that was tested before walks had parts stops being tested (C27).
func TestC27PartsAreTheWhole(t *testing.T) {
	cases := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	var chosen, refused, disturbed []string
	const dir = "/no such directory"
	steps := func() (err error) {
		for range 3 { // more than once, at the same place
			err = crash.Failed("one", dir+"/1")
		}
		if err == nil {
			err = crash.Failed("two", dir+"/2")
		}
		if err == nil {
			err = crash.Failed("three", dir+"/3")
		}
		return err
	}
	t.Setenv(wholeEnv, "")
	t.Setenv(partsEnv, "3")
	for seed := 7; seed < 10; seed++ {
		t.Setenv(seedEnv, strconv.Itoa(seed))
		chosen = append(chosen, Part(t, cases)...)
		EachPlace(t, syscall.EIO, "otm/internal/crash/crashtest", func(refuse Refuse) {
			if r, _ := refuse(dir, steps); r.Came() {
				refused = append(refused, r.String())
			}
		})
		OnceAtEachPlace(t, "otm/internal/crash/crashtest", func(now func() bool) {
			if now() {
				disturbed = append(disturbed, "here")
			}
			if now() {
				disturbed = append(disturbed, "there")
			}
		})
	}
	slices.Sort(chosen)
	slices.Sort(refused)
	slices.Sort(disturbed)
	if !slices.Equal(chosen, cases) {
		t.Errorf("chosen were %q", chosen)
	}
	if got, want := strings.Join(refused, ", "), "one "+dir+"/1, three "+dir+"/3, two "+dir+"/2"; got != want {
		t.Errorf("refused were %s", got)
	}
	if want := []string{"here", "there"}; !slices.Equal(disturbed, want) {
		t.Errorf("disturbed were %q", disturbed)
	}

	t.Setenv(wholeEnv, "1")
	counts := map[string]int{}
	EachPlace(t, syscall.EIO, "otm/internal/crash/crashtest", func(refuse Refuse) {
		if r, _ := refuse(dir, steps); r.Came() {
			counts[r.String()]++
		}
	})
	if want := map[string]int{"one " + dir + "/1": 3, "two " + dir + "/2": 1, "three " + dir + "/3": 1}; !maps.Equal(counts, want) {
		t.Errorf("of the whole, refused were %v", counts)
	}
}
