package leak

import "testing"

// tests are some that end with a code, and leave a goroutine.
type tests struct {
	code int
	left chan struct{}
}

func (r tests) Run() int {
	if r.left != nil {
		go func() { <-r.left }()
	}
	return r.code
}

func TestRun(t *testing.T) {
	left := make(chan struct{})
	for _, c := range []struct {
		name string
		of   tests
		want int
	}{{"nothing is left", tests{0, nil}, 0}, {"failed", tests{2, nil}, 2}, {"one is left", tests{0, left}, 1}} {
		if got := run(c.of, 1); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	close(left)
	if got := run(tests{}, tries); got != 0 {
		t.Errorf("it has ended: %d", got)
	}
}
