package inbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"otm/internal/crash"
	"otm/internal/crash/crashtest"
	"otm/internal/durable"
	"otm/pipeline/drop"
)

func TestSettleProcessed(t *testing.T) {
	t.Parallel()
	b := box(t)
	f, data := deliver(t, b, NewTasks, "a.json", `{"_result":{"error":"old"},"taskId":"T-00035","_skipped_duplicate":true,"x":[ 1.50 ]}`)
	name, err := settleOne(b, f, data, Result{At: at, Attempts: 2, SlackItemID: "R1", SubtaskItemIDs: []string{"R2"}})
	if name != "a.json" || err != nil {
		t.Fatalf("Settle = %q, %v", name, err)
	}
	want := `{
  "taskId": "T-00035",
  "x": [ 1.50 ],
  "_result": {"at":"2026-03-14T08:20:19Z","inbox":"new-tasks","attempts":2,"subtaskItemIds":["R2"],"slackItemId":"R1"}
}
`
	if got := read(t, filepath.Join(b.dir, ProcessedDir, "a.json")); got != want {
		t.Errorf("processed is\n%s\nwant\n%s", got, want)
	}
	if got := names(t, b.Dir(NewTasks)); len(got) != 0 {
		t.Errorf("the inbox still holds %q", got)
	}
}

// TestResultForms is the contract's section 4.
func TestResultForms(t *testing.T) {
	t.Parallel()
	base := Result{At: at, Inbox: TaskUpdates, Attempts: 1}
	with := func(change func(*Result)) Result {
		r := base
		change(&r)
		return r
	}
	for _, tt := range []struct {
		result Result
		want   string
	}{
		{base, `"subtaskItemIds":[],"slackItemId":""}`},
		{with(func(r *Result) { r.SlackItemID, r.SkippedDuplicate, r.DedupUnverified = "R1", true, true }),
			`"subtaskItemIds":[],"skippedDuplicate":true,"dedupUnverified":true,"slackItemId":"R1"}`},
		{with(func(r *Result) { r.Class, r.Error, r.SlackItemID = Conflict, "why", "R1" }), `"error":"why","class":"conflict"}`},
		{with(func(r *Result) { r.Class, r.Error, r.Hint = Invalid, "why", "do" }), `"error":"why","class":"invalid","hint":"do"}`},
	} {
		want := `{"at":"2026-03-14T08:20:19Z","inbox":"task-updates","attempts":1,` + tt.want
		got, err := json.Marshal(tt.result.form("a.json"))
		if err != nil || string(got) != want {
			t.Errorf("the form of %+v is %s, %v; want %s", tt.result, got, err, want)
		}
		var back Result
		if err := json.Unmarshal(got, &back); err != nil || back.Error != tt.result.Error || back.Class != tt.result.Class || back.Inbox != TaskUpdates {
			t.Errorf("Unmarshal(%s) = %+v, %v", got, back, err)
		}
	}
}

func TestSettleFailed(t *testing.T) {
	t.Parallel()
	b := box(t)
	f, data := deliver(t, b, TaskUpdates, "a.json", `{"taskId":"T-00035"}`)
	if _, err := settleOne(b, f, data, Result{At: at, Attempts: 1, Class: Unmatched, Error: "no <such> task", Hint: "otm list"}); err != nil {
		t.Fatal(err)
	}
	want := `{
  "taskId": "T-00035",
  "_result": {"at":"2026-03-14T08:20:19Z","inbox":"task-updates","attempts":1,"error":"no <such> task","class":"unmatched","hint":"otm list"}
}
`
	if got := read(t, filepath.Join(b.dir, FailedDir, "a.json")); got != want {
		t.Errorf("failed is\n%s\nwant\n%s", got, want)
	}
}

// TestHintNamesTheSettledFile fills in a name that only Settle knows, as a
// shell wants it.
func TestHintNamesTheSettledFile(t *testing.T) {
	t.Parallel()
	b := box(t)
	for _, tt := range []struct{ name, text, want string }{
		{"a.json", `{"n":1}`, "otm retry --new-id a.json"},
		{"a.json", `{"n":2}`, "otm retry --new-id a-2.json"},
		{"it's a.json", `{"n":3}`, `otm retry --new-id 'it'\''s a.json'`},
		{"--all.json", `{"n":4}`, "otm retry --new-id ./--all.json"},
		{"b.json", "no JSON", "otm retry --new-id b.json"},
	} {
		f, data := deliver(t, b, NewTasks, tt.name, tt.text)
		name, err := settleOne(b, f, data, Result{At: at, Class: Conflict, Error: "e", Hint: "otm retry --new-id", HintNames: true})
		if err != nil {
			t.Fatal(err)
		}
		if s, err := b.ReadSettled(FailedDir, name); err != nil || s.Result.Hint != tt.want {
			t.Errorf("%s: hint %q, %v; want %q", tt.name, s.Result.Hint, err, tt.want)
		}
	}
}

func TestSettleMarksSkippedDuplicates(t *testing.T) {
	t.Parallel()
	b := box(t)
	f, data := deliver(t, b, NewTasks, "a.json", `{"a":1}`)
	if _, err := settleOne(b, f, data, Result{At: at, Attempts: 1, SkippedDuplicate: true}); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(read(t, filepath.Join(b.dir, ProcessedDir, "a.json"))), &got); err != nil || got["_skipped_duplicate"] != true {
		t.Errorf("processed is %v, %v; want _skipped_duplicate at its top", got, err)
	}
}

func TestSettleOverwritesNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, drop, second, third string }{
		{"a.json", `{"n":%d}`, "a-2.json", "a-3.json"},
		{"a-2.json", `{"n":%d}`, "a-2-2.json", "a-2-3.json"},
		{"b.json", "no JSON %d", "b-2.json", "b-3.json"},
	} {
		b := box(t)
		for i, want := range []string{tt.name, tt.second, tt.third} {
			text := fmt.Sprintf(tt.drop, i)
			f, data := deliver(t, b, NewTasks, tt.name, text)
			got, err := settleOne(b, f, data, Result{At: at, Class: Invalid, Error: "e"})
			if got != want || err != nil {
				t.Fatalf("%s, number %d: Settle = %q, %v; want %q", tt.name, i, got, err, want)
			}
		}
		for i, name := range []string{tt.name, tt.second, tt.third} {
			if got := read(t, filepath.Join(b.dir, FailedDir, name)); !strings.Contains(got, fmt.Sprint(i)) {
				t.Errorf("%s holds %q, want drop %d", name, got, i)
			}
		}
	}
}

// TestSettleAsIs is about what is no JSON object: it settles byte for byte,
// and its result stands beside it.
func TestSettleAsIs(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", drop.MaxSize+1000)
	for name, text := range map[string]string{
		"empty": "", "text": "taskId: T-00035\r\n", "array": "[1]", "nul": "\x00\x00", "utf16": "\xff\xfe{\x00", "large": large, "twice": `{"a":1,"a":2}`,
	} {
		b := box(t)
		f, data := deliver(t, b, NewTasks, "x.json", text)
		if got, err := settleOne(b, f, data, Result{At: at, Attempts: 3, Class: Invalid, Error: "why"}); got != "x.json" || err != nil {
			t.Fatalf("%s: Settle = %q, %v", name, got, err)
		}
		if got := read(t, filepath.Join(b.dir, FailedDir, "x.json")); got != text {
			t.Errorf("%s: failed holds %d bytes that differ from the %d dropped", name, len(got), len(text))
		}
		want := "{\n  \"_result\": {\"at\":\"2026-03-14T08:20:19Z\",\"inbox\":\"new-tasks\",\"attempts\":3,\"error\":\"why\",\"class\":\"invalid\"}\n}\n"
		if got := read(t, filepath.Join(b.dir, FailedDir, "x.json.error.json")); got != want {
			t.Errorf("%s: beside it stands\n%s\nwant\n%s", name, got, want)
		}
		if got, err := b.SettledNames(FailedDir); !reflect.DeepEqual(got, []string{"x.json"}) || err != nil {
			t.Errorf("%s: SettledNames = %q, %v; want the drop alone", name, got, err)
		}
		s, err := b.ReadSettled(FailedDir, "x.json")
		if err != nil || s.Result.Error != "why" || s.Result.Inbox != NewTasks || s.Object != nil {
			t.Errorf("%s: ReadSettled = %+v, %v", name, s, err)
		}
		if got := names(t, b.Dir(NewTasks)); len(got) != 0 {
			t.Errorf("%s: the inbox still holds %q", name, got)
		}
	}
}

// TestC48SameGarbage: the same garbage under one name thirty times is one failed
// file, with the explanation of the last.
func TestC48SameGarbage(t *testing.T) {
	t.Parallel()
	b := box(t)
	for i := range 30 {
		f, data := deliver(t, b, NewTasks, "a.json", "garbage")
		if name, err := settleOne(b, f, data, Result{At: at, Class: Invalid, Error: fmt.Sprint("why ", i)}); name != "a.json" || err != nil {
			t.Fatalf("Settle = %q, %v", name, err)
		}
	}
	f, data := deliver(t, b, TaskUpdates, "a.json", "garbage")
	if name, err := settleOne(b, f, data, Result{At: at, Class: Invalid}); name != "a-2.json" || err != nil {
		t.Errorf("Settle from the other inbox = %q, %v", name, err)
	}
	if s, err := b.ReadSettled(FailedDir, "a.json"); err != nil || s.Result.Error != "why 29" {
		t.Errorf("ReadSettled = %+v, %v", s, err)
	}
	if got := names(t, b.Dir(NewTasks)); len(got) != 0 {
		t.Errorf("the inbox holds %q", got)
	}
}

// TestC48OtherGarbage: garbage under one name that differs is kept each time, and
// what is equal once, also if it is larger than a drop with its result.
func TestC48OtherGarbage(t *testing.T) {
	t.Parallel()
	b := box(t)
	settle := func(data string) string {
		t.Helper()
		f, read := deliver(t, b, NewTasks, "a.json", data)
		name, err := settleOne(b, f, read, Result{At: at, Class: Invalid, Error: "why"})
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	large := strings.Repeat("x", MaxSettled)
	for i, want := range []string{"a.json", "a-2.json", "a-3.json", "a-2.json", "a.json", "a-3.json"} {
		if got := settle([]string{large + "1", large + "2", large + "33", large + "2", large + "1", large + "33"}[i]); got != want {
			t.Errorf("%d: settled as %q, want %q", i, got, want)
		}
	}
}

// TestSettleSpecialFiles moves what has a drop's name and is no file. What a
// link leads to is left where it is.
func TestSettleSpecialFiles(t *testing.T) {
	t.Parallel()
	b := box(t)
	target := filepath.Join(b.dir, "target")
	write(t, target, "precious")
	dir := b.Dir(NewTasks)
	if err := os.MkdirAll(filepath.Join(dir, "dir.json", "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, leads := range map[string]string{"link.json": target, "dangling.json": "nowhere", "dirlink.json": b.dir} {
		if err := os.Symlink(leads, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	sweep(t, b, NewTasks)
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("the inbox still holds %q", got)
	}
	want := []string{"dangling.json", "dir.json", "dirlink.json", "fifo.json", "link.json"}
	if got, err := b.SettledNames(FailedDir); !reflect.DeepEqual(got, want) || err != nil {
		t.Errorf("failed holds %q, %v; want %q", got, err, want)
	}
	if got, err := os.Readlink(filepath.Join(b.dir, FailedDir, "link.json")); got != target || err != nil {
		t.Errorf("the link leads to %q, %v; want it as it was", got, err)
	}
	if got := read(t, target); got != "precious" {
		t.Errorf("the link's target holds %q", got)
	}
	for _, name := range want {
		if s, err := b.ReadSettled(FailedDir, name); err != nil || s.Result.Class != Invalid {
			t.Errorf("ReadSettled(%q) = %+v, %v", name, s, err)
		}
	}
}

// TestCaseB17HostileNames settles files whose names would be commands, options
// or paths if anybody took them for such.
func TestCaseB17HostileNames(t *testing.T) {
	t.Parallel()
	b := box(t)
	list := []string{
		"a;touch PWNED.json", "$(id).json", "p(a).json", "new\nline.json", "'quote'.json", "`id`.json", "--all.json", "a b.json", "%s%n.json",
		"\x1b[31m.json", "caf\u00e9.json", "cafe\u0301.json", "bad\xff.json", "…json.json", "a..json",
	}
	for i, name := range list {
		// Some file systems take only UTF-8, or take é for e and an accent.
		if err := os.WriteFile(filepath.Join(b.Dir(NewTasks), name), fmt.Appendf(nil, `{"n":%d}`, i), 0o600); err != nil {
			t.Logf("%q: %v", name, err)
		}
	}
	want := names(t, b.Dir(NewTasks))
	sweep(t, b, NewTasks)
	if got := names(t, filepath.Join(b.dir, ProcessedDir)); !reflect.DeepEqual(got, want) {
		t.Errorf("processed holds %q, want %q", got, want)
	}
	if len(want) < len(list)-2 {
		t.Errorf("only %d of %d names could be tried", len(want), len(list))
	}
}

func TestSettleLongNames(t *testing.T) {
	t.Parallel()
	long := func(n int, end string) string { return "a" + strings.Repeat("ä", (n-1-len(end))/2) + end }
	for _, text := range []string{`{"n":1}`, "no JSON"} {
		b := box(t)
		name := long(255, "x.json")
		if len(name) != 255 {
			t.Fatalf("the name has %d bytes", len(name))
		}
		seen := map[string]bool{}
		for i := range 3 {
			write(t, filepath.Join(b.Dir(NewTasks), name), text+strings.Repeat(" ", 2*i))
			write(t, filepath.Join(b.Dir(NewTasks), long(255, "y.json")), text+strings.Repeat(" ", 2*i+1))
			sweep(t, b, NewTasks)
		}
		for _, dir := range []string{ProcessedDir, FailedDir} {
			settled, err := b.SettledNames(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range settled {
				if len(s) > 255 || seen[s] || !strings.HasSuffix(s, ".json") {
					t.Errorf("settled under %q", s)
				}
				seen[s] = true
				if r, err := b.ReadSettled(dir, s); err != nil || r.Result.At != at {
					t.Errorf("ReadSettled(%q) = %+v, %v; want its own result", s, r, err)
				}
			}
		}
		if len(seen) != 6 {
			t.Errorf("%s: %d of 6 drops settled: %v", text, len(seen), seen)
		}
	}
}

// TestSettleKeepsExplanations drops files whose names are those of
// explanations: neither may overwrite the other.
func TestSettleKeepsExplanations(t *testing.T) {
	t.Parallel()
	b := box(t)
	write(t, filepath.Join(b.Dir(NewTasks), "x.json.error.json"), `{"a":"a drop"} x`)
	sweep(t, b, NewTasks)
	write(t, filepath.Join(b.Dir(NewTasks), "x.json"), "no JSON")
	sweep(t, b, NewTasks)
	write(t, filepath.Join(b.Dir(NewTasks), "x.json.error.json"), `{"a":"another drop"}`)
	sweep(t, b, NewTasks)
	failed, err := b.SettledNames(FailedDir)
	if want := []string{"x.json", "x.json.error-2.json"}; !reflect.DeepEqual(failed, want) || err != nil {
		t.Errorf("failed holds %q, %v; want %q", failed, err, want)
	}
	if got := read(t, filepath.Join(b.dir, FailedDir, "x.json.error-2.json")); got != `{"a":"a drop"} x` {
		t.Errorf("the drop became %q", got)
	}
	if got := names(t, filepath.Join(b.dir, ProcessedDir)); !reflect.DeepEqual(got, []string{"x.json.error-2.json"}) {
		t.Errorf("processed holds %q", got)
	}
}

// TestSettleForeignResultKey is about a drop with a key that is ours but for
// its case: with both in one object it could never be read again.
func TestSettleForeignResultKey(t *testing.T) {
	t.Parallel()
	b := box(t)
	f, data := deliver(t, b, NewTasks, "a.json", `{"_RESULT":1,"a":2}`)
	if _, err := settleOne(b, f, data, Result{At: at, Class: Invalid, Error: "why"}); err != nil {
		t.Fatal(err)
	}
	if s, err := b.ReadSettled(FailedDir, "a.json"); err != nil || s.Object == nil || s.Result.Error != "why" {
		t.Errorf("ReadSettled = %+v, %v", s, err)
	}
}

// TestSettleGrown is about a drop that its result makes larger than a drop may
// be: it must stay readable.
func TestSettleGrown(t *testing.T) {
	t.Parallel()
	b := box(t)
	key := strings.Repeat("<\u2028", drop.MaxSize/4-20) // is written as <\u2028, which is longer
	f, data := deliver(t, b, NewTasks, "a.json", `{"taskId":"T-00035","`+key+`":1}`)
	if _, err := settleOne(b, f, data, Result{At: at, Class: Rejected, Error: "why"}); err != nil {
		t.Fatal(err)
	}
	if n := len(read(t, filepath.Join(b.dir, FailedDir, "a.json"))); n <= drop.MaxSize {
		t.Errorf("it settled with %d bytes: it did not grow", n)
	}
	if s, err := b.ReadSettled(FailedDir, "a.json"); err != nil || s.Object == nil || s.Result.Error != "why" {
		t.Errorf("ReadSettled: %v, and the drop was not understood", err)
	}
	if r, settled, err := b.Find(NewTasks, "a.json", data); !settled || err != nil || r.Error != "why" {
		t.Errorf("Find = %+v, %v, %v", r, settled, err)
	}
	if _, _, err := b.Retry("a.json", nil); err != nil {
		t.Errorf("Retry: %v", err)
	}
}

// TestSettleChangedFile changes the inbox file between reading and settling:
// what is there then is a drop of its own.
func TestSettleChangedFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"v":1}`, "no JSON 1"} {
		changes := map[string]func(path string) error{
			"rewritten": func(path string) error { return os.WriteFile(path, []byte(`{"v":"two"}`), 0o600) },
			"replaced": func(path string) error {
				if err := os.WriteFile(path+".tmp", []byte(`{"v":"two"}`), 0o600); err != nil {
					return err
				}
				return os.Rename(path+".tmp", path)
			},
		}
		for name, change := range changes {
			b := box(t)
			f, data := deliver(t, b, NewTasks, "a.json", text)
			path := filepath.Join(b.Dir(NewTasks), "a.json")
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			settledAs, err := settleOne(b, f, data, Result{At: at})
			if err != nil {
				t.Fatalf("%s, %s: Settle: %v", text, name, err)
			}
			if moved := text == "no JSON 1"; moved != (settledAs == "") {
				t.Errorf("%s, %s: settled as %q", text, name, settledAs)
			}
			if got := read(t, path); got != `{"v":"two"}` {
				t.Errorf("%s, %s: the inbox holds %q, want the new drop", text, name, got)
			}
			sweep(t, b, NewTasks)
			var found bool
			for _, n := range names(t, filepath.Join(b.dir, ProcessedDir)) {
				found = found || strings.Contains(read(t, filepath.Join(b.dir, ProcessedDir, n)), `"two"`)
			}
			if !found || len(names(t, b.Dir(NewTasks))) != 0 {
				t.Errorf("%s, %s: the new drop did not settle", text, name)
			}
		}
	}
}

// TestSettleVanishedFile takes the inbox file away between reading and
// settling: nobody need hear of it.
func TestSettleVanishedFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"v":1}`, "no JSON"} {
		b := box(t)
		f, data := deliver(t, b, NewTasks, "a.json", text)
		if err := os.Remove(filepath.Join(b.Dir(NewTasks), "a.json")); err != nil {
			t.Fatal(err)
		}
		if _, err := settleOne(b, f, data, Result{At: at}); err != nil {
			t.Errorf("%s: Settle of a file that has gone: %v", text, err)
		}
	}
}

// hook installs a crash hook for one test, which must not be parallel: others
// run only once it has ended.
func hook(t *testing.T, f func(point string)) {
	crash.Hook = f
	t.Cleanup(func() { crash.Hook = nil })
}

// TestCaseB1RenamedOverWhileUnlinked has a writer rename its next drop over the
// name at the very moment when the settled one is unlinked.
func TestCaseB1RenamedOverWhileUnlinked(t *testing.T) {
	b := box(t)
	path := filepath.Join(b.Dir(NewTasks), "a.json")
	hook(t, func(point string) {
		if point == "settle.unlinking" {
			crash.Hook = nil
			write(t, path+".tmp", `{"id":"next"}`)
			if err := os.Rename(path+".tmp", path); err != nil {
				t.Error(err)
			}
		}
	})
	f, data := deliver(t, b, NewTasks, "a.json", `{"id":"first"}`)
	if _, err := settleOne(b, f, data, Result{At: at}); err != nil {
		t.Fatal(err)
	}
	if f, data := only(t, b, NewTasks); f.Name != "a.json" || string(data) != `{"id":"next"}` {
		t.Errorf("the inbox holds %q with %s, want the next drop", f.Name, data)
	}
}

// TestRenamedOverAndCrashed has a writer rename its next drop over the name at
// the moment when the settled one is unlinked, and the process die at the next one. It is
// no leftover of ours, however old it gets, and keeps its name.
func TestRenamedOverAndCrashed(t *testing.T) {
	for _, kind := range []string{"file", "link", "taken name"} {
		b := box(t)
		dir := b.Dir(NewTasks)
		path := filepath.Join(dir, "a.json")
		f, data := deliver(t, b, NewTasks, "a.json", `{"id":"first"}`)
		renamed := func(point string) {
			if point != "settle.unlinking" {
				return
			}
			write(t, path+".tmp", `{"id":"next"}`)
			if kind == "link" {
				os.Remove(path + ".tmp")
				if err := os.Symlink("nowhere", path+".tmp"); err != nil {
					t.Error(err)
				}
			}
			if err := os.Rename(path+".tmp", path); err != nil {
				t.Error(err)
			}
		}
		hook(t, func(point string) {
			renamed(point)
			if point == "settle.taken" {
				crash.Hook = nil
				panic(dead{})
			}
		})
		func() {
			defer func() {
				if r := recover(); r != (dead{}) {
					t.Fatalf("recovered %v", r)
				}
			}()
			settleOne(b, f, data, Result{At: at})
		}()
		if n, err := durable.RemoveLeftovers(dir, 0, time.Now().Add(48*time.Hour)); n != 0 || err != nil {
			t.Errorf("%s: %d files were cleared away, %v", kind, n, err)
		}
		want := 1
		if kind == "taken name" { // the next drop of the name came meanwhile
			write(t, path, `{"id":"third"}`)
			want = 2
		}
		files, err := b.List(NewTasks)
		if err != nil || len(files) != want {
			t.Fatalf("%s: List = %v, %v", kind, files, err)
		}
		for _, f := range files {
			if f.Name != "a.json" {
				t.Errorf("%s: the next drop is known as %q", kind, f.Name)
			}
		}
		if data, _, err := b.Read(files[0]); kind != "link" && (err != nil || string(data) != `{"id":"next"}`) {
			t.Errorf("%s: the inbox holds %q, %v, want the next drop first", kind, data, err)
		}
		if n := sweep(t, b, NewTasks); n != 0 {
			t.Errorf("%s: %d drops were taken for leftovers", kind, n)
		}
		if got := names(t, dir); len(got) != 0 {
			t.Errorf("%s: the inbox still holds %q", kind, got)
		}
	}
}

type dead struct{}

// TestTakenAndSettled dies right before the settled file goes: it goes with the
// next sweep, whatever the clock says.
func TestTakenAndSettled(t *testing.T) {
	b := box(t)
	f, data := deliver(t, b, NewTasks, "a.json", `{"id":"first"}`)
	if !crashAt(t, "settle.taken", 1, func() { settleOne(b, f, data, Result{At: at}) }) {
		t.Fatal("the point was not reached")
	}
	if err := os.Chtimes(filepath.Join(b.dir, ProcessedDir, "a.json"), at, at); err != nil {
		t.Fatal(err)
	}
	if n := sweep(t, b, NewTasks); n != 1 {
		t.Errorf("%d drops were taken for leftovers, want 1", n)
	}
	if got := names(t, b.Dir(NewTasks)); len(got) != 0 {
		t.Errorf("the inbox holds %q", got)
	}
}

// TestTakenLongNames is about a name that was shortened when it was taken out of the
// way: the drop is delivered nevertheless.
func TestTakenLongNames(t *testing.T) {
	t.Parallel()
	b := box(t)
	name := strings.Repeat("ä", 125) + ".json"
	taken := takenName(name)
	write(t, filepath.Join(b.Dir(NewTasks), taken), `{"id":"d1"}`)
	if f, data := only(t, b, NewTasks); string(data) != `{"id":"d1"}` || f.At != taken || !strings.HasPrefix(name, strings.TrimSuffix(f.Name, ".json")) {
		t.Errorf("delivered is %q with %s", f.Name, data)
	}
}

// crashAt calls f and stops it, as if the process had died, when the point is
// reached for the nth time; false if it never is.
func crashAt(t *testing.T, point string, nth int, f func()) (crashed bool) {
	type killed struct{}
	hook(t, func(p string) {
		if p == point {
			if nth--; nth == 0 {
				crash.Hook = nil
				panic(killed{})
			}
		}
	})
	defer func() {
		crash.Hook = nil
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
			crashed = true
		}
	}()
	f()
	return false
}

// TestSettleSurvivesACrash dies at every step of settling, one drop or several together,
// and goes on: each drop settles once, and nothing is left in the inbox.
func TestSettleSurvivesACrash(t *testing.T) {
	points := []string{"durable.named", "settle.explained", "settle.copied", "settle.unlinking", "settle.taken", "settle.unlinked"}
	for _, texts := range [][]string{{`{"id":"d1"}`}, {"no JSON"}, {`{"id":"d1"}`, "no JSON", `{"id":"d2"}`, `{"id":"d3"}`}} {
		reached := 0
		var want []string
		for i := range texts {
			want = append(want, fmt.Sprint(i, ".json"))
		}
		for _, point := range points {
			for nth := 1; ; nth++ {
				b := box(t)
				for i, text := range texts {
					write(t, filepath.Join(b.Dir(NewTasks), want[i]), text)
				}
				if !crashAt(t, point, nth, func() { sweep(t, b, NewTasks) }) {
					break
				}
				reached++
				sweep(t, Open(b.dir), NewTasks)
				var settled []string
				for _, dir := range []string{ProcessedDir, FailedDir} {
					in, err := b.SettledNames(dir)
					if err != nil {
						t.Fatal(err)
					}
					settled = append(settled, in...)
				}
				slices.Sort(settled)
				if !slices.Equal(settled, want) {
					t.Errorf("%q: crashed at %s %d: settled are %q, want each file once", texts, point, nth, settled)
				}
				for _, name := range names(t, b.Dir(NewTasks)) {
					if !strings.HasPrefix(name, durable.TempPrefix) {
						t.Errorf("%q: crashed at %s %d: %q is left in the inbox", texts, point, nth, name)
					}
				}
			}
		}
		if reached < 2 {
			t.Errorf("%q: only %d points were reached", texts, reached)
		}
	}
}

// TestLeftoverOrDroppedAgain tells a file whose unlinking is missing from one
// that was dropped again under the same name with the same bytes.
func TestLeftoverOrDroppedAgain(t *testing.T) {
	for _, dir := range []string{ProcessedDir, FailedDir} {
		b := box(t)
		result := Result{At: at}
		if dir == FailedDir {
			result.Class, result.Error = Invalid, "e"
		}
		f, data := deliver(t, b, NewTasks, "a.json", `{"id":"d1"}`)
		if !crashAt(t, "settle.copied", 1, func() { settleOne(b, f, data, result) }) {
			t.Fatal("the point was not reached")
		}
		f, data = only(t, b, NewTasks)
		if leftover, err := b.Leftover(f, data); !leftover || err != nil {
			t.Errorf("%s: Leftover after a crash = %v, %v; want true", dir, leftover, err)
		}
		if got := names(t, b.Dir(NewTasks)); len(got) != 0 {
			t.Errorf("%s: the leftover still stands: %q", dir, got)
		}
		// The settled copy gets older: files have the grain of the kernel's tick.
		settled := filepath.Join(b.dir, dir, "a.json")
		if err := os.Chtimes(settled, at, at); err != nil {
			t.Fatal(err)
		}
		f, data = deliver(t, b, NewTasks, "a.json", `{"id":"d1"}`)
		if leftover, err := b.Leftover(f, data); leftover || err != nil {
			t.Errorf("%s: Leftover of a drop that came again = %v, %v; want false", dir, leftover, err)
		}
		if !waits(t, b, NewTasks, "a.json") {
			t.Errorf("%s: the drop that came again was taken away", dir)
		}
	}
}

// TestLeftoverOfAnotherName has two drops that say the same under names that
// look like one and its second: both must take effect.
func TestLeftoverOfAnotherName(t *testing.T) {
	t.Parallel()
	b := box(t)
	const text = `{"taskId":"T-00035","subtasksDone":["Retry"]}`
	write(t, filepath.Join(b.Dir(TaskUpdates), "a.json"), text)
	sweep(t, b, TaskUpdates)
	settled := filepath.Join(b.dir, ProcessedDir, "a.json")
	if err := os.Chtimes(settled, at, at); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a-2.json", "a.json"} {
		write(t, filepath.Join(b.Dir(TaskUpdates), name), text)
	}
	if n := sweep(t, b, TaskUpdates); n != 0 {
		t.Errorf("%d drops were taken for leftovers", n)
	}
	if got, want := names(t, filepath.Join(b.dir, ProcessedDir)), []string{"a-2.json", "a-3.json", "a.json"}; !reflect.DeepEqual(got, want) {
		t.Errorf("processed holds %q, want %q", got, want)
	}
}

// TestLeftoverOfTheOtherInbox has the same bytes under one name in both inboxes:
// each settles by its own right, also where the second one is taken at the
// moment of a crash.
func TestLeftoverOfTheOtherInbox(t *testing.T) {
	for _, text := range []string{`{"taskId":"T-00007"}`, "no JSON"} {
		b := box(t)
		for _, kind := range Kinds {
			write(t, filepath.Join(b.Dir(kind), "a.json"), text)
		}
		for _, kind := range Kinds {
			if n := sweep(t, b, kind); n != 0 {
				t.Errorf("%s: %s: taken for a leftover", text, kind)
			}
		}
		if got := slices.Concat(names(t, filepath.Join(b.dir, ProcessedDir)), names(t, filepath.Join(b.dir, FailedDir))); !slices.Contains(got, "a-2.json") {
			t.Errorf("%s: settled are %q, want both", text, got)
		}
		write(t, filepath.Join(b.Dir(TaskUpdates), takenName("b.json")), text)
		write(t, filepath.Join(b.Dir(NewTasks), "b.json"), text)
		sweep(t, b, NewTasks)
		if n := sweep(t, b, TaskUpdates); n != 0 {
			t.Errorf("%s: what was taken from one inbox is gone, as the other's is settled", text)
		}
	}
}

func TestLeftoverNeedsTheSameDrop(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"id":"d2"}`, "no JSON"} {
		b := box(t)
		f, data := deliver(t, b, NewTasks, "a.json", text)
		if err := os.MkdirAll(filepath.Join(b.dir, ProcessedDir, "a-2.json"), 0o700); err != nil { // in the way, and no file
			t.Fatal(err)
		}
		write(t, filepath.Join(b.dir, ProcessedDir, "a.json"), `{"id":"d1"}`)
		if leftover, err := b.Leftover(f, data); leftover || err != nil {
			t.Errorf("Leftover beside another drop of the name = %v, %v; want false", leftover, err)
		}
	}
}

// TestCaseB14RenamedDuringASweep renames drops without end while they are
// settled: none is lost.
func TestCaseB14RenamedDuringASweep(t *testing.T) {
	t.Parallel()
	b := box(t)
	const n = 20
	for i := range n {
		write(t, filepath.Join(b.Dir(NewTasks), fmt.Sprintf("%02d.json", i)), fmt.Sprintf(`{"id":"%02d"}`, i))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for round := 0; ; round++ {
			for i := range n {
				select {
				case <-stop:
					return
				default:
				}
				from, to := fmt.Sprintf("%02d.json", i), fmt.Sprintf("%02d-moved.json", i)
				if round%2 == 1 {
					from, to = to, from
				}
				os.Rename(filepath.Join(b.Dir(NewTasks), from), filepath.Join(b.Dir(NewTasks), to))
			}
		}
	})
	for range 8 {
		sweep(t, b, NewTasks)
	}
	close(stop)
	wg.Wait()
	sweep(t, b, NewTasks)
	if got := names(t, b.Dir(NewTasks)); len(got) != 0 {
		t.Errorf("the inbox still holds %q", got)
	}
	if ids := settledIDs(t, b); len(ids) != n {
		t.Errorf("%d of %d drops settled", len(ids), n)
	}
}

// TestCaseB1RenamedOverAgainAndAgain has a writer rename drop after drop over
// one name while they are settled: the last one must settle.
func TestCaseB1RenamedOverAgainAndAgain(t *testing.T) {
	t.Parallel()
	b := box(t)
	const n = 150
	done := make(chan struct{})
	go func() {
		defer close(done)
		path := filepath.Join(b.Dir(NewTasks), "task.json")
		for i := range n {
			if err := os.WriteFile(path+".tmp", fmt.Appendf(nil, `{"id":"%03d"}`, i), 0o600); err != nil {
				t.Error(err)
			}
			if err := os.Rename(path+".tmp", path); err != nil {
				t.Error(err)
			}
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		sweep(t, b, NewTasks)
	}
	sweep(t, b, NewTasks)
	ids := settledIDs(t, b)
	if ids[fmt.Sprintf("%03d", n-1)] == 0 {
		t.Errorf("the last of %d drops did not settle; %d others did", n, len(ids))
	}
	for id, times := range ids {
		if times > 1 {
			t.Errorf("drop %s settled %d times", id, times)
		}
	}
	if got := names(t, b.Dir(NewTasks)); len(got) != 0 {
		t.Errorf("the inbox still holds %q", got)
	}
}

// TestSettleTogether settles drops whose names are taken, and one that cannot be settled,
// with others: each has its own outcome.
func TestSettleTogether(t *testing.T) {
	t.Parallel()
	b := box(t)
	deliver(t, b, NewTasks, "a.json", `{"id":"d0"}`)
	sweep(t, b, NewTasks)
	for name, text := range map[string]string{"a.json": `{"id":"d1"}`, "b.json": `{"id":"d2"}`, "c.json": `{"id":"d3"}`, "d.json": "no JSON"} {
		write(t, filepath.Join(b.Dir(NewTasks), name), text)
	}
	crashtest.Below(t, b.dir, func(step, path string) error {
		if step == "write" && strings.HasSuffix(path, "b.json") {
			return syscall.EIO
		}
		return nil
	})
	files, err := b.List(NewTasks)
	if err != nil {
		t.Fatal(err)
	}
	var drops []*Settling
	for i, f := range files {
		data, f, err := b.Read(f)
		if err != nil {
			t.Fatal(err)
		}
		result := Result{At: at}
		if i == 3 {
			result.Class, result.Error = Invalid, "e"
		}
		drops = append(drops, &Settling{File: f, Data: data, Result: result})
	}
	b.Settle(drops...)
	for i, want := range []string{"a-2.json", "", "c.json", "d.json"} {
		if d := drops[i]; d.Settled != want || (d.Err != nil) != (want == "") {
			t.Errorf("%s settled as %q, %v; want %q", d.Name, d.Settled, d.Err, want)
		}
	}
	if got := names(t, b.Dir(NewTasks)); !slices.Equal(got, []string{"b.json"}) {
		t.Errorf("the inbox holds %q", got)
	}
}

// TestArrives: a watcher of the inbox need not look when the injector takes a file out of
// the way, although that counts as delivered until it is gone.
func TestArrives(t *testing.T) {
	t.Parallel()
	drop := NewName(time.Now(), "6f1c1f6e-9c8e-4f5a-8f0e-0123456789ab")
	for name, want := range map[string]bool{drop: true, "x.json": true, takenName(drop): false, takenName("x.json"): false, ".x.json": false, "x.tmp": false} {
		if got := Arrives(name); got != want {
			t.Errorf("Arrives(%q) = %t, want %t", name, got, want)
		}
	}
	if !Delivered(takenName(drop)) {
		t.Error("a file that a crash left out of the way is not handled any more")
	}
}
