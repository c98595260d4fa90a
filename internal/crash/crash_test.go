package crash

import "testing"

func TestPoint(t *testing.T) {
	Point("nobody listens")
	var got []string
	Hook = func(point string) { got = append(got, point) }
	defer func() { Hook = nil }()
	Point("a.before")
	Point("a.after")
	if len(got) != 2 || got[0] != "a.before" || got[1] != "a.after" {
		t.Errorf("the hook was called with %q", got)
	}
}
