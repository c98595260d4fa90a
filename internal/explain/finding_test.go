package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// testForms has an argument of each form.
var testForms = code("test_forms", Warn, "{task} {who} {n:drop|drops} {one:drop|drops} {at:ago} {at:age} {at:at} {who:quoted} {err} {d}", "mv {who:sh}")

// TestForms: each form writes its argument, also after the finding has been through
// JSON.
func TestForms(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	f := New(testForms, "who", "a b", "n", 3, "one", 1, "at", now.Add(-5*time.Minute), "err", errors.New("no"), "d", time.Minute).On(35)
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	f = Finding{}
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	if got, want := f.Text(now), `T-00035 a b 3 drops 1 drop 5m ago 5m 2026-03-14T08:55:00Z "a b" no 1m0s`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := f.Next(now); got != "mv 'a b'" || f.Level() != Warn {
		t.Errorf("next %q, level %q", got, f.Level())
	}
	if got, want := f.Text(time.Time{}), `some time (since 2026-03-14T08:55:00Z)`; !strings.Contains(got, "at 2026-03-14T08:55:00Z "+want) {
		t.Errorf("for who reads it later: %q, want %q", got, want)
	}
	ahead := New(testForms, "at", now.Add(time.Hour))
	if got := ahead.Text(now); !strings.Contains(got, "clock an unknown time 2026") {
		t.Errorf("of a time from before the clock was set back: %q", got)
	}
	later := Finding{Code: "of a newer version"}
	if later.Text(now) != "of a newer version" || later.Next(now) != "" || later.Level() != Warn {
		t.Errorf("%q", later.Text(now))
	}
}

// TestZeroTime: a time that is not known is never printed as one.
func TestZeroTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	for _, zero := range []string{value(time.Time{}), "0001-01-01T00:00:00Z"} { // an older version wrote the other
		for as, want := range map[string]string{
			"ago": "at an unknown time", "age": "an unknown time", "at": "an unknown time", "when": "with the dispatcher's next pass",
		} {
			for _, now := range []time.Time{now, {}} {
				if got := form(zero, as, now); got != want {
					t.Errorf("form(%q, %s) at %v = %q, want %q", zero, as, now, got, want)
				}
			}
		}
	}
	if got := Age(now.Sub(time.Time{})); got != "?" {
		t.Errorf("Age = %q", got)
	}
	if f := New(TaskSilent, "agent", "devdas", "since", time.Time{}); strings.Contains(fmt.Sprint(f.Args, f.Text(now), f.Text(time.Time{})), "0001") {
		t.Errorf("%+v", f)
	}
}

// TestC43SetBack: a time ahead of the clock is said to be that, and is not so long
// ago.
func TestC43SetBack(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	for at, want := range map[time.Duration]string{
		0: "0s ago", -90 * time.Second: "1m ago", -3 * time.Hour: "3h ago", -72 * time.Hour: "3d ago", time.Second: "0s ago",
		time.Hour: "at 2026-03-14T10:00:00Z, ahead of this machine's clock",
	} {
		if got := Ago(now.Add(at), now); got != want {
			t.Errorf("%v: %q, want %q", at, got, want)
		}
	}
	if got := Ago(now, time.Time{}); got != "at 2026-03-14T09:00:00Z" {
		t.Errorf("for later: %q", got)
	}
	if got := Age(-time.Hour); got != "0s" {
		t.Errorf("an age below zero: %q", got)
	}
}

// TestC20Words: no text holds words that a person cannot act on.
func TestC20Words(t *testing.T) {
	t.Parallel()
	never := regexp.MustCompile(`ls -t|stop what runs|somebody has to look|kept from|by hand|in the future|as it must be|is at it`)
	for c, e := range texts {
		for _, text := range []string{e.says, e.next} {
			if found := never.FindString(text); found != "" {
				t.Errorf("%s says %q: %s", c, found, text)
			}
			if strings.Count(text, "{") != strings.Count(text, "}") {
				t.Errorf("%s: a placeholder does not end: %s", c, text)
			}
		}
		if e.level == Fail && e.next == "" {
			t.Errorf("%s fails without a next step", c)
		}
	}
}
