package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// week lives weeks under Slack's limits in virtual time. That takes Go's
// testing/synctest, so it is a test (internal/app/week_test.go), which says here
// what came of it.
func (b *bench) week() error {
	if b.quick {
		fmt.Println("weeks under Slack's limits: left out, as they take many minutes")
		return nil
	}
	path := filepath.Join(b.root, "week")
	cmd := exec.Command("go", "test", "./internal/app", "-run", "^TestWeek$", "-count=1", "-timeout=4h")
	cmd.Env = append(os.Environ(), "OTM_WEEK="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	tables, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	os.Stdout.Write(tables)
	return nil
}
