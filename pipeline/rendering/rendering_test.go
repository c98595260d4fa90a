package rendering

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"otm/internal/leak"
	"otm/pipeline"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

func TestWriteRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Read(dir, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it was written: %v", err)
	}
	for _, title := range []string{"first", "second"} { // the directory is missing at first
		want := pipeline.Rendering{TaskID: 1, Title: title, Agent: "devdas", Status: pipeline.New, Steps: []pipeline.Step{{Title: "one", Done: true}}}
		if err := Write(dir, want); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(dir, 1); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("read %+v, %v, want %+v", got, err, want)
		}
	}
	if files, err := os.ReadDir(filepath.Join(dir, "tasks")); err != nil || len(files) != 1 {
		t.Errorf("files: %v, %v", files, err)
	}
}

// A missing file is written, and none that is there is replaced.
func TestWriteMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, title := range []string{"first", "second"} {
		if err := WriteMissing(dir, pipeline.Rendering{TaskID: 1, Title: title}); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(dir, 1); err != nil || got.Title != "first" {
			t.Errorf("read %+v, %v", got, err)
		}
	}
}

// A file that a power failure left empty, or that belongs to another task, tells nothing.
func TestDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := Write(dir, pipeline.Rendering{TaskID: 1}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{", `{"taskId": "T-00002"}`} {
		if err := os.WriteFile(Path(dir, 1), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := Read(dir, 1); err == nil || errors.Is(err, fs.ErrNotExist) || r.TaskID != 0 {
			t.Errorf("%q is read as %+v, %v", text, r, err)
		}
	}
}

// A data directory that is gone is not made again.
func TestNoDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gone")
	if err := Write(dir, pipeline.Rendering{TaskID: 1}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("written: %v", err)
	}
}
