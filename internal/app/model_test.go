package app

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"otm/internal/crash/crashtest"
)

// What the model test is told by the environment.
const (
	modelSeed = "OTM_MODEL_SEED" // of the first script
	modelRuns = "OTM_MODEL_RUNS" // how many scripts
)

// TestModel plays random scripts of what creators, agents, people, crashes and
// faults of the board may do, by a clock of its own, and holds what comes of it
// against a simple model of each task. A script that goes wrong is made as
// short as it can be, and told.
func TestModel(t *testing.T) { // not in parallel: the hook for crashes is everybody's
	seed, runs := number(t, modelSeed, int(time.Now().UnixNano()%1e6)), number(t, modelRuns, crashtest.Fewer(8))
	defer mortality.arm()()
	for ; runs > 0; runs, seed = runs-1, seed+1 {
		acts := script(uint64(seed))
		wrong, _ := perform(t, acts)
		if wrong == "" {
			continue
		}
		t.Logf("seed %d went wrong: %s", seed, wrong)
		var story []string
		acts = shrunk(acts, func(some []act) bool {
			w, told := perform(t, some)
			if w != "" {
				wrong, story = w, told
			}
			return w != ""
		})
		var lines strings.Builder
		for i, a := range acts {
			fmt.Fprintf(&lines, "%3d  %v\n", i+1, a)
		}
		t.Fatalf("seed %d, in %d acts:\n%s     WRONG: %s\nwhat came of it:\n%s", seed, len(acts), &lines, wrong, strings.Join(story, "\n"))
	}
}

func number(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// perform plays a script on a stage of its own, and says what went wrong; "":
// nothing did. The story is what was done, and came of it.
func perform(t *testing.T, acts []act) (wrong string, story []string) {
	t.Run("script", func(t *testing.T) {
		p := newPlay(t)
		for _, a := range acts {
			if p.wrong == "" {
				p.act(a)
			}
		}
		if p.wrong == "" {
			p.heal()
		}
		wrong, story = p.wrong, p.story
	})
	if t.Failed() && wrong == "" {
		t.Fatal("the stage broke down")
	}
	return wrong, story
}

// maxTries bounds how often a script is played to make it shorter.
const maxTries = 400

// shrunk takes out of a script what it goes wrong without: halves, quarters,
// and so on to single acts, until none can be spared.
func shrunk(acts []act, wrong func([]act) bool) []act {
	tries := 0
	for size := len(acts) / 2; size > 0; {
		spared := false
		for at := 0; at < len(acts) && tries < maxTries; {
			without := append(append([]act{}, acts[:at]...), acts[min(at+size, len(acts)):]...)
			tries++
			if wrong(without) {
				acts, spared = without, true
			} else {
				at += size
			}
		}
		if !spared || size > 1 {
			size /= 2
		}
	}
	return acts
}

// TestShrunk: a script that goes wrong by three of its acts comes down to them.
func TestShrunk(t *testing.T) {
	t.Parallel()
	var acts []act
	for i := range 100 {
		acts = append(acts, act{what: "wait", n: i})
	}
	got := shrunk(acts, func(some []act) bool {
		sum := 0
		for _, a := range some {
			if a.n == 13 || a.n == 14 || a.n == 77 {
				sum += a.n
			}
		}
		return sum == 13+14+77
	})
	if fmt.Sprint(got) != fmt.Sprint([]act{acts[13], acts[14], acts[77]}) {
		t.Errorf("shrunk to %v", got)
	}
}
