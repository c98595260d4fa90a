package pipeline

import "testing"

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"up", "list", "next", "show", "status", "doctor", "archive"}
	for word, want := range map[string]string{
		"lsit": "list", "staus": "status", "Statsu": "status", "docotr": "doctor", "archvie": "archive", "shwo": "show",
		"get": "", "ls": "", "us": "", "": "", "lost": "list", "statistics": "",
	} {
		if got := Nearest(word, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
	if got := Nearest("abc", []string{"abd", "abe"}); got != "" {
		t.Errorf("of two equally near words it takes %q", got)
	}
}
