package crashtest

import (
	"hash/fnv"
	"os"
	"strconv"
	"testing"
	"time"
)

// Walks, the tests that take every place times every failure, have more cases
// than people want to wait for. A run takes one part of them, another one each
// day; the log of the test names it. With -short, walks are left out. The environment
// says otherwise:
//
//	OTM_SEED=n        the part of day n, counted from 1970; a run that failed is repeated so
//	OTM_TEST_PARTS=n  walks have n parts instead of 16; 1 takes all cases
//	OTM_TEST_WHOLE=1  all cases, and those that differ from others in small things
const (
	seedEnv  = "OTM_SEED"
	partsEnv = "OTM_TEST_PARTS"
	wholeEnv = "OTM_TEST_WHOLE"

	usualParts = 16
)

// Whole reports whether a walk takes all of its cases, also those that differ
// from others in small things.
func Whole() bool { return os.Getenv(wholeEnv) != "" }

// Seed is what the choice of cases begins from.
func Seed(t testing.TB) int {
	return setting(t, seedEnv, int(time.Now().Unix()/(24*60*60)))
}

func setting(t testing.TB, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: want a number above zero", name, text)
	}
	return n
}

// part is one part of the cases of a walk.
type part struct{ seed, parts int }

func partOf(t testing.TB) part {
	t.Helper()
	Long(t, "is a walk")
	p := part{Seed(t), setting(t, partsEnv, usualParts)}
	if Whole() {
		p.parts = 1
	}
	if p.parts > 1 {
		t.Logf("one of %d parts of the cases: this one with %s=%d, all with %s=1", p.parts, seedEnv, p.seed, partsEnv)
	}
	return p
}

// has reports whether case n belongs to the part.
func (p part) has(n int) bool { return (n+p.seed)%p.parts == 0 }

// hasPlace reports whether what happens at a place of the code belongs to the
// part.
func (p part) hasPlace(place string) bool {
	h := fnv.New32a()
	h.Write([]byte(place))
	return p.has(int(h.Sum32() & 0xffff))
}

// Part returns the cases of a walk that this run takes.
func Part[T any](t testing.TB, cases []T) (chosen []T) {
	t.Helper()
	p := partOf(t)
	for i, c := range cases {
		if p.has(i) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// Some returns n of a few cases, others each day, where one part of them could be none: all
// with OTM_TEST_PARTS=1 or OTM_TEST_WHOLE=1.
func Some[T any](t testing.TB, cases []T, n int) (chosen []T) {
	t.Helper()
	seed := Seed(t)
	if Whole() || setting(t, partsEnv, usualParts) == 1 || n >= len(cases) {
		return cases
	}
	t.Logf("%d of %d cases: these with %s=%d, all with %s=1", n, len(cases), seedEnv, seed, partsEnv)
	for i := range n {
		chosen = append(chosen, cases[(seed*n+i)%len(cases)])
	}
	return chosen
}

// Fewer returns n, a third of it with the race detector, or an eighth with -short: for tests
// that take many cases of one kind.
func Fewer(n int) int {
	switch {
	case testing.Short():
		return (n + 7) / 8
	case Raced && !Whole():
		return (n + 2) / 3
	}
	return n
}

// Long leaves a test out with -short, and says what makes it long. Without -short, as in
// CI, it runs.
func Long(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("left out with -short, as it %s; go test without -short runs it", why)
	}
}
