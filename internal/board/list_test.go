package board

import "testing"

func TestIsAgentName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a": true, "7": true, "½": true, "Ünï.co_de-7 x": true, "名前": true,
		"": false, " a": false, ".a": false, "-a": false, "a/b": false, "a\x00": false, "a\u202e": false, "a\u00a0b": false,
	} {
		if got := isAgentName(name); got != want {
			t.Errorf("isAgentName(%q) = %t, want %t", name, got, want)
		}
	}
}
