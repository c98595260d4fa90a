package inbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/internal/durable"
	"otm/pipeline/drop"
)

func TestNewNameSortsByTime(t *testing.T) {
	t.Parallel()
	var got []string
	for _, d := range []time.Duration{0, 1, 999 * time.Millisecond, time.Second, time.Hour, 24 * time.Hour, 300 * 24 * time.Hour} {
		got = append(got, NewName(at.Add(d).In(time.FixedZone("", 7200)), "id"))
	}
	if want := "20260314T082019.000000000Z-id.json"; got[0] != want {
		t.Errorf("NewName = %q, want %q", got[0], want)
	}
	if !slices.IsSorted(got) {
		t.Errorf("names are not in the order of their times: %q", got)
	}
}

func TestPublish(t *testing.T) {
	t.Parallel()
	b := Open(filepath.Join(t.TempDir(), "data dir")) // the inbox is missing and is made
	if err := os.Mkdir(b.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(NewTasks, "a.json", []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(NewTasks, "a.json", []byte("two")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Publish under a taken name: %v, want fs.ErrExist", err)
	}
	path := filepath.Join(b.Dir(NewTasks), "a.json")
	if got := read(t, path); got != "one" {
		t.Errorf("the file holds %q, want the first drop", got)
	}
	if got := names(t, b.Dir(NewTasks)); !reflect.DeepEqual(got, []string{"a.json"}) {
		t.Errorf("the inbox holds %q, want the drop alone", got)
	}
	for path, want := range map[string]fs.FileMode{path: 0o600, b.Dir(NewTasks): 0o700 | fs.ModeDir} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, %v; want %v", filepath.Base(path), info.Mode(), err, want)
		}
	}
	if !waits(t, b, NewTasks, "a.json") || waits(t, b, TaskUpdates, "a.json") {
		t.Error("Waiting does not tell where the drop stands")
	}
}

func TestPublishAll(t *testing.T) {
	t.Parallel()
	b := box(t)
	var drops []durable.NewFile
	for i := range 20 {
		drops = append(drops, durable.NewFile{Name: fmt.Sprintf("%02d.json", i), Data: []byte(fmt.Sprint(i))})
	}
	if err := b.PublishAll(NewTasks, drops); err != nil {
		t.Fatal(err)
	}
	for _, d := range drops {
		if got := read(t, filepath.Join(b.Dir(NewTasks), d.Name)); got != string(d.Data) {
			t.Errorf("%s holds %q, want %q", d.Name, got, d.Data)
		}
	}
	// A name in the middle is taken.
	write(t, filepath.Join(b.Dir(TaskUpdates), "10.json"), "mine")
	if err := b.PublishAll(TaskUpdates, drops); !errors.Is(err, fs.ErrExist) {
		t.Errorf("PublishAll over a taken name: %v, want fs.ErrExist", err)
	}
	if got := read(t, filepath.Join(b.Dir(TaskUpdates), "10.json")); got != "mine" {
		t.Errorf("the file that was there holds %q now", got)
	}
	for _, name := range names(t, b.Dir(TaskUpdates)) {
		if strings.HasPrefix(name, ".") {
			t.Errorf("the temporary file %q was left", name)
		}
	}
}

// TestCaseB11DroppingsAreNoDrops lists what editors, sync programs and Finder
// leave beside files.
func TestCaseB11DroppingsAreNoDrops(t *testing.T) {
	t.Parallel()
	b := box(t)
	droppings := []string{
		".x.json.swp", ".x.json", "x.json~", ".#x.json", "#x.json#", "4913", ".DS_Store", "x.json.tmp", "x.json.part", "._x.json",
		"x.JSON", "x.jsonl", "json", ".json", durable.TempPrefix + "1", "x.json.bak", "x", "x.json ",
	}
	for _, name := range droppings {
		write(t, filepath.Join(b.Dir(NewTasks), name), "{}")
	}
	write(t, filepath.Join(b.Dir(NewTasks), "x.json"), "{}")
	f, _ := only(t, b, NewTasks)
	if f.Name != "x.json" {
		t.Errorf("delivered is %q, want x.json", f.Name)
	}
	sweep(t, b, NewTasks)
	slices.Sort(droppings)
	if got := names(t, b.Dir(NewTasks)); !reflect.DeepEqual(got, droppings) {
		t.Errorf("after a sweep the inbox holds %q, want %q", got, droppings)
	}
}

func TestListIsInOrderOfNames(t *testing.T) {
	t.Parallel()
	b := box(t)
	want := []string{"!.json", "-x.json", "10.json", "9.json", "B.json", "a b.json", "a.json", "ä.json"}
	for _, i := range []int{3, 0, 7, 5, 1, 6, 2, 4} {
		write(t, filepath.Join(b.Dir(TaskUpdates), want[i]), "{}")
	}
	files, err := b.List(TaskUpdates)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Name)
		if f.Kind != TaskUpdates || !f.Regular() {
			t.Errorf("%q is listed as %+v", f.Name, f)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("List = %q, want %q", got, want)
	}
}

// TestMissingInbox looks at an inbox that is missing, which makes nothing, and
// has it made.
func TestMissingInbox(t *testing.T) {
	t.Parallel()
	b := box(t)
	if err := os.Remove(b.Dir(NewTasks)); err != nil {
		t.Fatal(err)
	}
	if files, err := b.List(NewTasks); len(files) != 0 || err != nil {
		t.Errorf("List of a missing inbox = %v, %v", files, err)
	}
	if got := names(t, b.dir); !reflect.DeepEqual(got, []string{string(TaskUpdates)}) {
		t.Errorf("the directory holds %q: looking made something", got)
	}
	if err := b.Ensure(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, b.dir); !reflect.DeepEqual(got, []string{string(NewTasks), string(TaskUpdates)}) {
		t.Errorf("the directory holds %q, want both inboxes", got)
	}
}

// TestNoDataDirectory is about one that has gone: nothing makes it again.
func TestNoDataDirectory(t *testing.T) {
	t.Parallel()
	b := Open(filepath.Join(t.TempDir(), "data"))
	_, settle := settleOne(b, File{Kind: NewTasks, Name: "a.json", At: "a.json"}, []byte("{}"), Result{At: at})
	for _, err := range []error{b.Ensure(), b.Publish(NewTasks, "a.json", nil), settle} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v, want fs.ErrNotExist", err)
		}
	}
	if _, err := os.Stat(b.dir); err == nil {
		t.Error("the data directory was made")
	}
}

// TestInboxLinkLeadsNowhere is about an inbox on a volume that is not mounted
// for a while: nothing stops, and nothing counts as delivered.
func TestInboxLinkLeadsNowhere(t *testing.T) {
	t.Parallel()
	b := box(t)
	volume := filepath.Join(t.TempDir(), "volume")
	if err := os.Remove(b.Dir(NewTasks)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(volume, b.Dir(NewTasks)); err != nil {
		t.Fatal(err)
	}
	if files, err := b.List(NewTasks); len(files) != 0 || err != nil {
		t.Errorf("List = %v, %v; want an empty inbox", files, err)
	}
	if err := b.Ensure(); err != nil {
		t.Errorf("Ensure: %v", err)
	}
	if err := b.Publish(NewTasks, "a.json", nil); err == nil || errors.Is(err, fs.ErrExist) {
		t.Errorf("Publish: %v, want an error that does not say that the name is taken", err)
	}
	if err := os.Mkdir(volume, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(NewTasks, "a.json", []byte("{}")); err != nil {
		t.Errorf("Publish once it is back: %v", err)
	}
	if files, err := b.List(NewTasks); len(files) != 1 || err != nil {
		t.Errorf("List once it is back = %v, %v", files, err)
	}
}

func TestListOf20000(t *testing.T) {
	t.Parallel()
	b := box(t)
	const n = 20_000
	first := filepath.Join(b.Dir(NewTasks), "00000.json")
	write(t, first, "{}")
	for i := range n - 1 {
		if err := os.Link(first, filepath.Join(b.Dir(NewTasks), fmt.Sprintf("%05d.json", n-i))); err != nil {
			t.Fatal(err)
		}
	}
	files, err := b.List(NewTasks)
	if err != nil || len(files) != n {
		t.Fatalf("List = %d files, %v; want %d", len(files), err, n)
	}
	if !slices.IsSortedFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the files are not in the order of their names")
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	b := box(t)
	dir := b.Dir(NewTasks)
	write(t, filepath.Join(dir, "plain.json"), "text")
	write(t, filepath.Join(dir, "large.json"), strings.Repeat("x", drop.MaxSize+1000))
	write(t, filepath.Join(dir, "locked.json"), "locked")
	if err := os.Chmod(filepath.Join(dir, "locked.json"), 0); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(b.dir, "secret"), "secret")
	if err := os.Symlink(filepath.Join(b.dir, "secret"), filepath.Join(dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "dir.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	files, err := b.List(NewTasks)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"plain.json": "text", "locked.json": "locked", "large.json": strings.Repeat("x", drop.MaxSize+1)}
	for _, f := range files {
		data, read, err := b.Read(f) // also of those that the injector would not read
		text, readable := want[f.Name]
		if readable != (err == nil) || string(data) != text {
			t.Errorf("Read(%q) = %d bytes, %v; want %d bytes", f.Name, len(data), err, len(text))
		}
		if err == nil && read.Info.Size() < int64(len(text)) {
			t.Errorf("Read(%q) tells of a file of %d bytes", f.Name, read.Info.Size())
		}
	}
	if _, _, err := b.Read(File{Kind: NewTasks, Name: "gone.json", At: "gone.json"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read of a file that has gone: %v, want fs.ErrNotExist", err)
	}
}

// C1: the writer of a drop sets the time in its name, and that of its last change. A
// time ahead would make what is known of its agent lie ahead for ever.
func TestC1DroppedIsNeverAhead(t *testing.T) {
	t.Parallel()
	ahead := time.Now().AddDate(100, 0, 0)
	for _, name := range []string{NewName(ahead, "id"), "foreign.json"} {
		b := box(t)
		f, _ := deliver(t, b, TaskUpdates, name, "{}")
		if err := os.Chtimes(b.path(f), ahead, ahead); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(b.path(f))
		if err != nil {
			t.Fatal(err)
		}
		f.Info = info
		now := f.Changed().Add(-time.Hour) // the clock was set back
		if got := f.Dropped(now); !got.Equal(now) {
			t.Errorf("%s: dropped %v, now %v", name, got, now)
		}
	}
	f, _ := deliver(t, box(t), TaskUpdates, NewName(time.Now(), "id"), "{}") // within one tick
	if at, _ := TimeOf(f.Name); !f.Dropped(time.Now()).Equal(at) {
		t.Errorf("dropped %v, want %v", f.Dropped(time.Now()), at)
	}
	before := time.Date(2020, 1, 2, 3, 4, 5, 6, time.UTC)
	f, _ = deliver(t, box(t), TaskUpdates, NewName(before, "id"), "{}")
	if got := f.Dropped(time.Now()); !got.Equal(before) {
		t.Errorf("dropped %v, want %v", got, before)
	}
}
