// Floor does what otm-create cannot do without, and nothing else: it takes a
// counter under a lock, and delivers a file, both durably. Without a title it
// does what otm-update cannot do without: it delivers a file. Whole-process
// times of theirs are quoted as multiples of its own.
//
//	floor DIR [TITLE]
package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	var err error
	switch len(os.Args) {
	case 2:
		err = update(os.Args[1])
	case 3:
		err = create(os.Args[1], os.Args[2])
	default:
		fmt.Fprintln(os.Stderr, "usage: floor DIR [TITLE]")
		os.Exit(64)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func update(dir string) error {
	report, err := json.Marshal(map[string]any{
		"id": rand.Text(), "taskId": "T-00001", "action": "update", "createdAt": time.Now().UTC(),
		"status": nil, "subtasksDone": []string{"1"}, "reason": nil, "result": nil,
	})
	if err != nil {
		return err
	}
	return put(filepath.Join(dir, "task-updates", dropName()), report)
}

// dropName is the name of a file that is delivered.
func dropName() string {
	return time.Now().UTC().Format("20060102T150405.000000000Z") + "-" + rand.Text() + ".json"
}

func create(dir, title string) error {
	lock, err := os.OpenFile(filepath.Join(dir, "locks", "next-task-id"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	counter := filepath.Join(dir, "next-task-id.json")
	data, err := os.ReadFile(counter)
	if err != nil {
		return err
	}
	var state struct {
		Next int `json:"next"`
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return err
	}
	if err := put(counter, fmt.Appendf(nil, "{\"next\":%d}\n", state.Next+1)); err != nil {
		return err
	}
	lock.Close()
	id := fmt.Sprintf("T-%05d", state.Next)
	task, err := json.Marshal(map[string]any{
		"id": rand.Text(), "taskId": id, "title": title, "agent": "devdas", "createdAt": time.Now().UTC(),
		"priority": "normal", "project": nil, "subtasks": []string{"Confirm that task has been done"}, "type": "action", "status": "pending",
	})
	if err != nil {
		return err
	}
	if err := put(filepath.Join(dir, "new-tasks", dropName()), task); err != nil {
		return err
	}
	fmt.Println(id)
	return nil
}

// put writes a file durably: temporary file, fsync, rename, fsync of the
// directory.
func put(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
