package app

import (
	"os"
	"testing"
	"time"
)

// A finding about an outlet says what a person has to do, where that is known.
func TestNotifyFindings(t *testing.T) {
	t.Parallel()
	h := newHome(t, "[notify]\ncommand = [\"tell\"]\n")
	for state, want := range map[string]string{
		`{"seq":1}`: "",
		`{"seq":1,"failing":{"since":"2026-11-29T12:00:00Z","error":"401","next":"ask for a token"}}`: "the outlet command of [notify] has taken " +
			"nothing since 2026-11-29T12:00:00Z: 401; needs a person: ask for a token → otm notify test",
		`{"seq":1,"failing":{"since":"2026-11-29T12:00:00Z","error":"exit status 7"}}`: "the outlet command of [notify] has taken " +
			"nothing since 2026-11-29T12:00:00Z: exit status 7 → otm notify test",
	} {
		if err := os.WriteFile(toldPath(h, "command"), []byte(state), 0o600); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, f := range untold(h) {
			got += f.Text(time.Time{}) + " → " + f.Next(time.Time{})
		}
		if got != want {
			t.Errorf("%s: found %q, want %q", state, got, want)
		}
	}
}
