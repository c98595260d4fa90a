package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// life counts the syncs and renames of all processes while one task with three
// steps goes from its drop to agent_done, without those of the embedded board's own
// file. A task before it has made the directories.
func (b *bench) life() error {
	if _, err := exec.LookPath("strace"); err != nil {
		fmt.Println("a task's life is not counted: install strace")
		return nil
	}
	header("one task with three steps, create to agent_done, trigger none")
	homes, err := b.newHomes("life", func(v *build) string { return listen + b.agent(v, "devdas", `trigger = "none"`) })
	if err != nil {
		return err
	}
	syncs, renames := samples{}, samples{}
	var written []string
	for _, v := range b.builds {
		t := &traced{home: homes[v]}
		if err := t.live(b.pick(5, 2)); err != nil {
			return err
		}
		for _, c := range t.counts[1:] {
			syncs[v], renames[v] = append(syncs[v], float64(c.syncs)), append(renames[v], float64(c.renames))
		}
		written = t.counts[len(t.counts)-1].written
	}
	b.print("syncs", "", syncs, 0.5)
	b.print("renames", "", renames, 0.5)
	for _, line := range written {
		fmt.Println("   ", line)
	}
	return nil
}

// traced is a home whose commands run under strace.
type traced struct {
	*home
	counts []counted // of each life
}

// counted is what the processes did.
type counted struct {
	syncs, renames int
	written        []string // the files of the syncs and renames, with how often
}

func (t *traced) trace() string { return filepath.Join(filepath.Dir(t.dir), "trace") }

// strace runs a command, and appends its system calls to the trace.
func (t *traced) strace(words ...string) *exec.Cmd {
	args := append([]string{"-f", "-qq", "-y", "-A", "-s", "0", "-e", "signal=none", "-e", "trace=fsync,fdatasync,rename,renameat,renameat2", "-o", t.trace(),
		filepath.Join(t.bin, words[0])}, words[1:]...)
	cmd := exec.Command("strace", args...)
	cmd.Env = t.env
	return cmd
}

// live brings tasks through their lives, one after the other.
func (t *traced) live(lives int) error {
	up := t.strace("otm", "up")
	if err := up.Start(); err != nil {
		return err
	}
	defer func() {
		out, _ := exec.Command("pgrep", "-P", strconv.Itoa(up.Process.Pid)).Output()
		exec.Command("kill", "-INT", strings.TrimSpace(string(out))).Run()
		up.Wait()
	}()
	if _, err := t.endpoint(); err != nil {
		return err
	}
	for n := range lives {
		before, err := os.ReadFile(t.trace())
		if err != nil {
			return err
		}
		if err := t.oneLife(fmt.Sprintf("T-%05d", n+1)); err != nil {
			return err
		}
		after, err := os.ReadFile(t.trace())
		if err != nil {
			return err
		}
		t.counts = append(t.counts, tally(string(after[len(before):])))
	}
	return nil
}

// oneLife brings a task from its drop to agent_done, as an agent would.
func (t *traced) oneLife(id string) error {
	steps := [][]string{
		{"otm-create", "--title", "Live " + id, "--agent", "devdas", "--subtask", "a", "--subtask", "b", "--subtask", "c"},
		{"otm", "next", "--agent", "devdas"},
		{"otm-update", "--task-id", id, "--subtask-done", "1", "--wait"},
		{"otm-update", "--task-id", id, "--subtask-done", "2", "--wait"},
		{"otm-update", "--task-id", id, "--subtask-done", "3", "--wait"},
	}
	for i, words := range steps {
		if out, err := t.strace(words...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", words, err, out)
		}
		if i == 0 {
			if err := t.awaitStatus(id, "assigned"); err != nil {
				return err
			}
		}
		time.Sleep(300 * time.Millisecond) // what follows from it ends: an agent takes longer
	}
	if err := t.awaitStatus(id, "agent_done"); err != nil {
		return err
	}
	time.Sleep(2 * time.Second)
	return nil
}

var (
	syncCall   = regexp.MustCompile(`f(?:data)?sync\(\d+<([^>]*)>`)
	renameCall = regexp.MustCompile(`rename(?:at2?)?\(.*"([^"]*)"`)
	// rowsOfBoard is the embedded board's own file, of the new version and of the old.
	rowsOfBoard = regexp.MustCompile(`/board/(board|rows)\.`)
	changing    = regexp.MustCompile(`\.otm-[-\w.]*|\d{8}T[-\w.]*`)
)

// tally counts the calls of a trace.
func tally(trace string) counted {
	var c counted
	names := map[string]int{}
	for line := range strings.Lines(trace) {
		kind, found := "sync", syncCall.FindStringSubmatch(line)
		if found == nil {
			kind, found = "rename", renameCall.FindStringSubmatch(line)
		}
		if found == nil || rowsOfBoard.MatchString(found[1]) {
			continue
		}
		if kind == "sync" {
			c.syncs++
		} else {
			c.renames++
		}
		path := changing.ReplaceAllString(found[1], "*")
		names[kind+" "+filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path))]++
	}
	for _, name := range sortedKeys(names) {
		c.written = append(c.written, fmt.Sprint(names[name], " ", name))
	}
	return c
}
