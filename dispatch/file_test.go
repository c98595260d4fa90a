package dispatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/internal/durable"
	"otm/internal/ordered"
	"otm/pipeline"
)

// desktop is a workspace with a data directory beside it.
type desktop struct {
	*testing.T
	dir, workspace string
}

func newDesktop(t *testing.T) *desktop {
	return &desktop{T: t, dir: t.TempDir(), workspace: t.TempDir()}
}

func (d *desktop) path() string { return filepath.Join(d.workspace, FileName) }

func (d *desktop) write(content string) {
	d.Helper()
	if err := os.WriteFile(d.path(), []byte(content), 0o600); err != nil {
		d.Fatal(err)
	}
	d.age()
}

// age makes the file look as if no writer were at work on it.
func (d *desktop) age() {
	d.Helper()
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(d.path(), old, old); err != nil {
		d.Fatal(err)
	}
}

func (d *desktop) read() string {
	d.Helper()
	data, err := os.ReadFile(d.path())
	if err != nil {
		d.Fatal(err)
	}
	return string(data)
}

func (d *desktop) edit(f func(*File)) {
	d.Helper()
	if err := edit(d.Context(), d.dir, d.workspace, minute(0), func(file *File) error {
		f(file)
		return nil
	}); err != nil {
		d.Fatal(err)
	}
}

// names lists the workspace.
func (d *desktop) names() (names []string) {
	d.Helper()
	entries, err := os.ReadDir(d.workspace)
	if err != nil {
		d.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// entry33 is an entry, with other values for some of its members.
func entry33(with ...any) *Entry {
	at := minute(0)
	e := entryOf(&core.Task{
		ID: 33, Title: "Build login page", Priority: pipeline.High, Project: "PRJ-012 App", Type: pipeline.Action, RowID: "Rec0ALXYZ",
		Steps: []core.Step{{Title: "Create form"}, {Title: "Add validation"}}, Dispatch: &core.Dispatch{At: at, Agent: "devdas", Attempt: 1},
	})
	for i := 0; i < len(with); i += 2 {
		e.set(with[i].(string), with[i+1])
	}
	return e
}

// The form of the contract: its keys, in its order.
func TestEntryForm(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	d.edit(func(f *File) {
		f.Put(entry33())
		f.Put(entry33("taskId", pipeline.TaskID(34), "project", nil, "title", `<b>"quoted" & \ back</b>`+"\x1b\x00\u2028"))
	})
	want(t, "file", d.read(), `{"dispatched":[`+
		"\n "+`{"taskId":"T-00033","title":"Build login page","priority":"high","project":"PRJ-012 App","type":"action",`+
		`"subtasks":["Create form","Add validation"],"dispatchedAt":"2026-03-14T15:00:00Z","slackItemId":"Rec0ALXYZ","agent":"devdas","attempt":1,"run":1},`+
		"\n "+`{"taskId":"T-00034","title":"<b>\"quoted\" & \\ back</b>\u001b\u0000\u2028","priority":"high","project":null,"type":"action",`+
		`"subtasks":["Create form","Add validation"],"dispatchedAt":"2026-03-14T15:00:00Z","slackItemId":"Rec0ALXYZ","agent":"devdas","attempt":1,"run":1}`+"\n]}\n")
	d.edit(func(f *File) {
		e := f.Find(33, "DevDas") // agents are compared folded
		e.set("triggeredAt", stamp(minute(1)))
		e.set("runId", "otm-T-00033-devdas-1")
		e.set("picked", true)
	})
	if got := d.read(); !strings.Contains(got, `"attempt":1,"run":1,"triggeredAt":"2026-03-14T15:01:00Z","runId":"otm-T-00033-devdas-1","picked":true}`) {
		t.Errorf("after a wake and a mark: %s", got)
	}
	info, err := os.Stat(d.path())
	if err != nil {
		t.Fatal(err)
	}
	want(t, "mode", info.Mode(), fs.FileMode(0o600))
	want(t, "nothing else in the workspace", d.names(), []string{FileName})
}

// OTM keeps what others wrote, and its place.
func TestForeignKept(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	foreign := []string{
		`"zebra":{"z":1,"a":[1,2,{"x":null}]}`, `"Dispatched":[1]`, `"apple":1e400`, `"dup":1`, `"dup":2`, `"caf\u00e9":"\ud83d\ude00"`, `"":{}`,
	}
	items := []string{
		`"a note"`, `42`, `null`, `[]`, `{"taskId":"T-00001"}`, `{"taskId":"nonsense","agent":"x"}`, `{"agent":"devdas","todo":true}`,
		`{"taskId":7,"agent":"devdas"}`, `{"taskId":"T-00007","agent":["devdas"]}`,
	}
	d.write("\xef\xbb\xbf{" + strings.Join(foreign[:3], ",") + `, "dispatched" : [` + strings.Join(items, " ,\n") + `], ` + strings.Join(foreign[3:], ",") + "}\r\n")
	d.edit(func(f *File) { f.Put(entry33()) })
	got := d.read()
	at := 0
	for _, s := range slices.Concat(foreign[:3], []string{`"dispatched":[`}, items, []string{`"taskId":"T-00033"`}, foreign[3:]) {
		next := strings.Index(got[at:], s)
		if next < 0 {
			t.Fatalf("%s is gone, or moved, in\n%s", s, got)
		}
		at += next
	}
	// Our entry keeps what others wrote into it, malformed or not.
	ours := `{"note":"mine","taskId":"T-00033","title":["bent"],"picked":"true","subtasks":[{"title":"Create form","done":true}],` +
		`"agent":"devdas","attempt":"1","Agent":"other","progress":{"b":1,"a":2}}`
	d.write(`{"dispatched":[` + ours + `]}`)
	d.edit(func(f *File) {
		e := f.Find(33, "devdas")
		if !e.Picked || e.Attempt != 0 {
			t.Errorf("read as %+v", e)
		}
		e.refresh(recordWith(33))
		follow(e, "title", "x")
		follow(e, "subtasks", []string{"x"})
		e.set("runId", "run")
	})
	want(t, "our entry", d.read(), "{\"dispatched\":[\n "+strings.TrimSuffix(ours, "}")+`,"run":1,"runId":"run"}`+"\n]}\n")
	// A new dispatch replaces only our members.
	d.edit(func(f *File) {
		f.Put(entry33("attempt", 2))
	})
	for _, s := range []string{`{"note":"mine","taskId":"T-00033","title":"Build login page"`, `"Agent":"other","progress":{"b":1,"a":2}`, `"attempt":2`} {
		if got := d.read(); !strings.Contains(got, s) {
			t.Errorf("%s is not in\n%s", s, got)
		}
	}
}

// An edit that changes nothing writes nothing: each write may undo another
// writer's.
func TestUnchangedNotWritten(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"pretty":      "{\n  \"dispatched\": [\n    {\"taskId\": \"T-00033\", \"agent\": \"devdas\", \"picked\": 1}\n  ]\n}\n",
		"no list":     `{"mine":1}`,
		"null list":   `{"dispatched":null}`,
		"two lists":   `{"dispatched":[1],"dispatched":[2]}`,
		"empty":       "",
		"only spaces": " \r\n\t",
		"a BOM":       "\xef\xbb\xbf",
		"BOM, spaces": "\xef\xbb\xbf \n{}",
	} {
		d := newDesktop(t)
		d.write(content)
		before, _ := os.Stat(d.path())
		d.edit(func(f *File) {
			want(t, name+": set aside", f.Aside, "")
		})
		after, err := os.Stat(d.path())
		if err != nil || !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
			t.Errorf("%s: written", name)
		}
		want(t, name, d.read(), content)
	}
	d := newDesktop(t)
	d.edit(func(*File) {})
	want(t, "not there, and nothing to say", d.names(), []string(nil))
	d.write(`{"dispatched":[1],"x":3,"dispatched":[2]}`)
	d.edit(func(f *File) { f.Put(entry33()) })
	if got := d.read(); !strings.HasPrefix(got, "{\"dispatched\":[\n 1,\n 2,\n {\"taskId\"") || !strings.HasSuffix(got, "\n],\n\"x\":3}\n") {
		t.Errorf("two lists become one: %s", got)
	}
}

func TestPickedByHand(t *testing.T) {
	t.Parallel()
	for mark, want := range map[string]bool{
		`true`: true, `"true"`: true, `"True "`: true, `"yes"`: true, `1`: true, `"1"`: true,
		`false`: false, `"false"`: false, `0`: false, `null`: false, `""`: false, `[]`: false, `{}`: false, `"no"`: false,
	} {
		e := readEntry(json.RawMessage(`{"taskId":"T-00001","agent":"a","picked":` + mark + `}`))
		if e.TaskID != 1 || e.Picked != want {
			t.Errorf("picked %s is read as %+v, want %v", mark, e, want)
		}
	}
}

// B20, B19: a file that is not JSON is set aside unchanged and reported, and a new
// one is written.
func TestSetAside(t *testing.T) {
	t.Parallel()
	whole := `{"dispatched":[{"taskId":"T-00033","title":"x","agent":"devdas"},{"taskId":"T-00034","agent":"devdas"}]}`
	for name, content := range map[string]string{
		"cut off in the middle": whole[:len(whole)/2],
		"cut off at the end":    whole[:len(whole)-1],
		"NUL":                   string(make([]byte, len(whole))),
		"an array":              `[{"taskId":"T-00033"}]`,
		"a number":              `42`,
		"a text":                `"x"`,
		"null":                  `null`,
		"a list that is none":   `{"dispatched":{"taskId":"T-00033"}}`,
		"something behind it":   whole + " }",
		"two of them":           whole + whole,
		"UTF-16":                "\xff\xfe{\x00}\x00",
		"a comment":             "// mine\n" + whole,
		"a comma too many":      `{"dispatched":[1,],}`,
		"too deep":              `{"dispatched":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`,
		"a marker of git":       "<<<<<<< HEAD\n" + whole,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesktop(t)
			d.write(content)
			d.edit(func(f *File) {
				want(t, "set aside as", filepath.Base(f.Aside), FileName+".corrupt-20260314T150000Z")
				want(t, "entries", len(f.Entries()), 0)
				f.Put(entry33())
			})
			aside, err := os.ReadFile(d.path() + ".corrupt-20260314T150000Z")
			if err != nil || string(aside) != content {
				t.Errorf("set aside: %q, %v", aside, err)
			}
			want(t, "entries of the new one", len(entriesIn(t, d.path())), 1)
			// A second one in the same second gets another name.
			d.write("garbage")
			d.edit(func(f *File) { want(t, "set aside as", filepath.Base(f.Aside), FileName+".corrupt-20260314T150000Z-2") })
			want(t, "a new one, although nothing was put into it", d.read(), "{\"dispatched\":[\n]}\n")
			want(t, "files", len(d.names()), 3)
		})
	}
}

// A link, pipe or directory is set aside too, and never followed.
func TestNotAFile(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(d *desktop) error{
		"a directory": func(d *desktop) error {
			return errors.Join(os.Mkdir(d.path(), 0o700), os.WriteFile(filepath.Join(d.path(), "inside"), []byte("x"), 0o600))
		},
		"a link to a file": func(d *desktop) error {
			target := filepath.Join(d.workspace, "target")
			return errors.Join(os.WriteFile(target, []byte(`{"dispatched":[]}`), 0o600), os.Symlink(target, d.path()))
		},
		"a link to nothing": func(d *desktop) error { return os.Symlink("nowhere", d.path()) },
		"a pipe":            func(d *desktop) error { return syscall.Mkfifo(d.path(), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesktop(t)
			if err := make(d); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(d.path())
			if err != nil {
				t.Fatal(err)
			}
			d.edit(func(f *File) { f.Put(entry33()) })
			after, err := os.Lstat(d.path() + ".corrupt-20260314T150000Z")
			if err != nil || !os.SameFile(before, after) {
				t.Errorf("set aside: %v", err)
			}
			info, err := os.Lstat(d.path())
			if err != nil || info.Mode() != 0o600 {
				t.Errorf("the new one: %v, %v", info, err)
			}
			if target, err := os.ReadFile(filepath.Join(d.workspace, "target")); err == nil {
				want(t, "what the link led to", string(target), `{"dispatched":[]}`)
			}
		})
	}
	t.Run("unreadable", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.write("x")
		if err := os.Chmod(d.path(), 0); err != nil {
			t.Fatal(err)
		}
		err := edit(t.Context(), d.dir, d.workspace, minute(0), func(*File) error { return nil })
		if os.Geteuid() != 0 && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("an unreadable file: %v", err)
		}
		want(t, "nothing happened to it", d.names()[0], FileName)
	})
}

// A writer that ignores our lock and writes in place gets time to finish.
func TestWriterInTheMiddle(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	whole := `{"dispatched":[{"taskId":"T-00033","title":"Build login page","agent":"devdas","attempt":1,"picked":true}]}`
	for _, half := range []string{whole[:40], ""} {
		if err := os.WriteFile(d.path(), []byte(half), 0o600); err != nil {
			t.Fatal(err)
		}
		finish := time.AfterFunc(settlePause, func() { os.WriteFile(d.path(), []byte(whole), 0o600) })
		d.edit(func(f *File) {
			want(t, "set aside", f.Aside, "")
			want(t, "entries", len(f.Entries()), 1)
		})
		finish.Stop()
	}
}

func TestPutAndRemove(t *testing.T) {
	t.Parallel()
	f := &File{}
	f.Put(entry33())
	f.Find(33, "devdas").set("picked", true)
	f.Put(entry33("title", "again"))
	want(t, "the same attempt keeps its mark", f.Find(33, "devdas").Picked, true)
	f.Put(entry33("attempt", 2))
	want(t, "a new attempt does not", f.Find(33, "devdas").Picked, false)
	want(t, "entries", len(f.Entries()), 1)
	f.Put(entry33("agent", "other"))
	want(t, "another agent's is another", len(f.Entries()), 2)
	f.Remove(f.Find(33, "devdas"))
	want(t, "removed", f.Find(33, "devdas") == nil && f.Find(33, "other") != nil, true)
}

// A file that would become too large to read is not written.
func TestFileDoesNotOutgrow(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	d.edit(func(f *File) { f.Put(entry33()) })
	before := d.read()
	big := entry33("taskId", pipeline.TaskID(34), "title", strings.Repeat("x", maxFile))
	err := edit(t.Context(), d.dir, d.workspace, minute(0), func(f *File) error {
		f.Put(big)
		return nil
	})
	var large *TooLargeError
	want(t, "refused", errors.As(err, &large), true)
	want(t, "the file", d.read(), before)
}

// C49: two names of one directory mean one file under one lock, which belongs to
// the directory. On a disk that folds case, two spellings are both real paths.
func TestOneLockPerDirectory(t *testing.T) {
	t.Parallel()
	d := newDesktop(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(d.workspace, link); err != nil {
		t.Fatal(err)
	}
	id, err := (&workspaces{}).identity(d.workspace)
	if err != nil {
		t.Fatal(err)
	}
	moved := d.workspace + " moved"
	if err := os.Rename(d.workspace, moved); err != nil {
		t.Fatal(err)
	}
	again, err := (&workspaces{}).identity(moved)
	want(t, "under another path", words(again, err), words(id, nil))
	if err := os.Rename(moved, d.workspace); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 40)
	for i := range 40 {
		workspace := []string{d.workspace, link, d.workspace + "/../" + filepath.Base(d.workspace)}[i%3]
		go func() {
			done <- edit(t.Context(), d.dir, workspace, minute(0), func(f *File) error {
				f.Put(entry33("taskId", pipeline.TaskID(i+1)))
				return nil
			})
		}()
	}
	for range 40 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	want(t, "entries", len(entriesIn(t, d.path())), 40)
	locks, err := os.ReadDir(filepath.Join(d.dir, "locks"))
	if err != nil || len(locks) != 1 {
		t.Errorf("locks: %v, %v", locks, err)
	}
}

// B77: the time to add an entry does not grow with former entries, and the file
// does not grow with ended tasks. (The tests of passes show that entries are
// removed.)
func TestManyEntries(t *testing.T) {
	t.Parallel()
	f := &File{}
	for id := range pipeline.TaskID(2000) {
		f.Put(entry33("taskId", id+1))
	}
	data, err := f.encode()
	if err != nil {
		t.Fatal(err)
	}
	again := &File{}
	if err := again.parse(data); err != nil {
		t.Fatal(err)
	}
	for _, e := range again.Entries() {
		again.Remove(e)
	}
	if data, err = again.encode(); err != nil {
		t.Fatal(err)
	}
	want(t, "file", string(data), "{\"dispatched\":[\n]}\n")
}

// FuzzFile: reading any dispatch file does not panic. Foreign content is written
// back with the same meaning. Our entries are read back as written.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		`{"dispatched":[{"taskId":"T-00033","title":"x","priority":"high","project":null,"type":"action","subtasks":["a"],"dispatchedAt":"2026-03-14T15:00:00Z","slackItemId":"R","agent":"devdas","attempt":1,"picked":true}]}`,
		`{"z":1,"dispatched":[1,null,"x",{"taskId":"T-1"},{"taskId":"T-00001","agent":"a","subtasks":7}],"a":{"b":[]},"a":2}`,
		`{"dispatched":[],"dispatched":[3]}`, `{"dispatched":null}`, "\xef\xbb\xbf{}", "", "[]", `{"a\u0000":"\ud800"}`, `{"dispatched":[{"taskId":"T-00001","agent":"a","taskId":"T-00002"}]}`,
		"{\"\xff\":1,\"dispatched\":[{\"taskId\":\"T-00001\",\"agent\":\"\xff\"}]}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file := &File{}
		if file.parse(data) != nil {
			return
		}
		put := entry33("agent", "somebody who is not in it")
		file.Put(put)
		for _, e := range file.Entries() {
			if e.TaskID%2 == 0 {
				e.set("picked", true)
				e.set("runId", "run")
			}
		}
		out, err := file.encode()
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", data, err)
		}
		if !json.Valid(out) {
			t.Fatalf("%q becomes %q, which is not JSON", data, out)
		}
		again := &File{}
		if err := again.parse(out); err != nil {
			t.Fatalf("%q becomes %q, which is not read: %v", data, out, err)
		}
		same, err := again.encode()
		if err != nil || !bytes.Equal(out, same) {
			t.Fatalf("%q becomes %q, then %q, %v", data, out, same, err)
		}
		was := &File{}
		was.parse(data)
		checkForeign(t, was, again)
		got := again.Find(33, put.Agent)
		line, _ := put.members.Line()
		if got == nil || string(got.raw) != string(line) {
			t.Fatalf("our entry is read back as %+v, want %s", got, line)
		}
	})
}

// checkForeign checks that foreign content is the same in both files.
func checkForeign(t *testing.T, before, after *File) {
	compact := func(raw json.RawMessage) string {
		var b bytes.Buffer
		if json.Compact(&b, raw) != nil {
			t.Fatalf("%q is no JSON", raw)
		}
		return b.String()
	}
	tell := func(o ordered.Object) (list []string) {
		for _, m := range o {
			if m.Key != keyDispatched {
				list = append(list, string(m.Name)+":"+compact(m.Value))
			}
		}
		return list
	}
	want(t, "keys", tell(after.top), tell(before.top))
	for i, it := range before.items {
		got := after.items[i]
		if it.TaskID == 0 {
			want(t, "a foreign element", compact(got.raw), compact(it.raw))
			continue
		}
		if got.TaskID == 0 {
			t.Fatalf("entry %s is not one any more: %s", it.raw, got.raw)
		}
		foreign := func(e *Entry) (list []string) {
			for _, m := range e.members {
				if !slices.Contains(entryKeys, m.Key) {
					list = append(list, string(m.Name)+":"+compact(m.Value))
				}
			}
			return list
		}
		want(t, "what others wrote into an entry", foreign(got), foreign(it))
	}
}

func TestLeftoversRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alpha")
	old := filepath.Join(w.agent("alpha").Workspace, durable.TempPrefix+"1")
	young := filepath.Join(w.agent("alpha").Workspace, durable.TempPrefix+"2")
	w.write(old, nil)
	w.write(young, nil)
	ago := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(old, ago, ago); err != nil {
		t.Fatal(err)
	}
	w.pass()
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a crash left: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("what somebody is writing: %v", err)
	}
}
