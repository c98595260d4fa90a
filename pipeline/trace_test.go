package pipeline

import "testing"

func TestTraceparent(t *testing.T) {
	const id, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	whole := "00-" + id + "-" + parent + "-01"
	for _, c := range []struct{ name, text, want string }{
		{"valid", whole, whole},
		{"not sampled", "00-" + id + "-" + parent + "-00", "00-" + id + "-" + parent + "-00"},
		{"white space around", " " + whole + "\t", whole},
		{"a later version", "01-" + id + "-" + parent + "-01", whole},
		{"a later version with more parts", "cc-" + id + "-" + parent + "-01-what-else", whole},
		{"more parts in version 00", whole + "-x", ""},
		{"a dash at the end of version 00", whole + "-", ""},
		{"no version", id + "-" + parent + "-01", ""},
		{"the forbidden version", "ff-" + id + "-" + parent + "-01", ""},
		{"upper case", "00-4BF92F3577B34DA6A3CE929D0E0E4736-" + parent + "-01", ""},
		{"no hex", "00-" + id[:31] + "g-" + parent + "-01", ""},
		{"a short trace-id", "00-" + id[:30] + "-" + parent + "-01", ""},
		{"a long parent-id", "00-" + id + "-" + parent + "00-01", ""},
		{"trace-id of zeros", "00-00000000000000000000000000000000-" + parent + "-01", ""},
		{"parent-id of zeros", "00-" + id + "-0000000000000000-01", ""},
		{"no flags", "00-" + id + "-" + parent, ""},
		{"flags of one digit", "00-" + id + "-" + parent + "-1", ""},
		{"a line break", "00-" + id + "-" + parent + "-01\n", ""},
		{"empty", "", ""},
		{"dashes", "---", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ParseTrace(c.text); string(got) != c.want {
				t.Errorf("ParseTrace(%q) = %q, want %q", c.text, got, c.want)
			}
		})
	}
	trace := ParseTrace(whole)
	if got := trace.ID(); got != id {
		t.Errorf("ID() = %q, want %q", got, id)
	}
	child := trace.Child("otm-T-00001-ada-1")
	if again := trace.Child("otm-T-00001-ada-1"); again != child || child == trace || child.ID() != id || ParseTrace(string(child)) != child {
		t.Errorf("Child() = %q and %q, want the same valid one of the trace, with another parent-id than %q", child, again, trace)
	}
	if other := trace.Child("otm-T-00001-ada-2"); other == child {
		t.Errorf("two children have the parent-id of %q", child)
	}
	for _, none := range []Trace{"", "00-4bf9"} { // the latter as a damaged store has it
		if none.ID() != "" || none.Child("x") != "" {
			t.Errorf("%q has ID %q and child %q, want none", none, none.ID(), none.Child("x"))
		}
	}
}
