// Floor does what otm-create cannot do without, and nothing else: it takes a
// counter under a lock, and delivers a file, both durably. Whole-process times
// of otm-create are quoted as multiples of its own.
//
//	floor DIR TITLE
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
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: floor DIR TITLE")
		os.Exit(64)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(dir, title string) error {
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
	name := time.Now().UTC().Format("20060102T150405.000000000Z") + "-" + rand.Text() + ".json"
	if err := put(filepath.Join(dir, "new-tasks", name), task); err != nil {
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
