package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// peer is another program that takes tasks down. None of them syncs the disk or
// knows agents; they are what people compare the time with.
type peer struct {
	name, program, from string // from is the Debian package
	most                int    // tasks that it keeps
	env                 func(dir string) []string
	add                 []string // DIR stands for the directory
	fill                func(p *peer, dir string, n int) error
	end                 []string // stops what add left running; nil: nothing
}

var peers = []*peer{
	{name: "taskwarrior", program: "task", from: "taskwarrior", most: 10000, add: []string{"rc:DIR/rc", "add", "Fix the login page"}, fill: fillTaskwarrior},
	{name: "nq", program: "nq", from: "nq", most: 10000, env: func(dir string) []string { return []string{"NQDIR=" + dir} }, add: []string{"true"}, fill: fillNQ},
	{name: "task-spooler", program: "tsp", from: "task-spooler", most: 1000, env: func(dir string) []string { return []string{"TS_SOCKET=" + filepath.Join(dir, "socket")} },
		add: []string{"true"}, fill: (*peer).fillOneByOne, end: []string{"-K"}},
	{name: "todo.txt", program: "todo-txt", from: "todotxt-cli", most: 10000, add: []string{"-d", "DIR/cfg", "add", "Fix the login page"}, fill: fillTodoTxt},
}

// besides times otm-create in turn with what others do for one task.
func (b *bench) besides() error {
	fmt.Println("add one task, whole process, in pairs with otm-create (the others sync nothing)")
	fmt.Printf("%14s %10s %12s %12s %8s\n", "tool", "tasks", "its time", "otm-create", "ratio")
	for _, p := range peers {
		if _, err := exec.LookPath(p.program); err != nil {
			fmt.Printf("%14s is not installed (Debian: apt-get install %s)\n", p.name, p.from)
			continue
		}
		if err := b.beside(p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func (b *bench) beside(p *peer) error {
	h, err := b.newHome(b.latest(), "beside-"+p.program, "")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "otmpeer") // without a space, which some of them do not take
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if p.end != nil {
		defer p.run(dir, p.end)
	}
	have := 0
	for _, want := range sizes(b, p.most) {
		if err := h.fill(have, want); err != nil {
			return err
		}
		if err := p.fill(p, dir, want-have); err != nil {
			return err
		}
		have = want
		var theirs, ours durations
		for range b.pick(30, 5) {
			if err := theirs.time(func() error { return p.run(dir, p.add) }); err != nil {
				return err
			}
			if err := ours.time(func() error { return h.otm("otm-create", "--title", "Fix the login page", "--agent", "devdas") }); err != nil {
				return err
			}
		}
		t, o := quantile(theirs, 0.5), quantile(ours, 0.5)
		fmt.Printf("%14s %10d %12s %12s %8.2f\n", p.name, want, ms(t), ms(o), ratio(o, t))
	}
	return nil
}

func (p *peer) run(dir string, words []string) error {
	var args []string
	for _, w := range words {
		args = append(args, strings.ReplaceAll(w, "DIR", dir))
	}
	cmd := exec.Command(p.program, args...)
	cmd.Env = append(os.Environ(), "HOME="+dir)
	if p.env != nil {
		cmd.Env = append(cmd.Env, p.env(dir)...)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %.300s", cmd.Args, err, out)
	}
	return nil
}

func (p *peer) fillOneByOne(dir string, n int) error {
	for range n {
		if err := p.run(dir, p.add); err != nil {
			return err
		}
	}
	return nil
}

func fillTaskwarrior(p *peer, dir string, n int) error {
	if err := os.WriteFile(filepath.Join(dir, "rc"), []byte("data.location="+dir+"\nconfirmation=off\n"), 0o600); err != nil {
		return err
	}
	if n == 0 {
		return nil
	}
	var all []map[string]string
	for i := range n {
		all = append(all, map[string]string{"description": fmt.Sprint("Task number ", i), "status": "pending"})
	}
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "import.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	return p.run(dir, []string{"rc:DIR/rc", "import", path})
}

// fillNQ copies what a job that has ended leaves behind.
func fillNQ(p *peer, dir string, n int) error {
	if n == 0 {
		return nil
	}
	ended, err := filepath.Glob(filepath.Join(dir, ",*"))
	if err != nil || len(ended) == 0 {
		return fmt.Errorf("no job in %q: %v", dir, err)
	}
	data, err := os.ReadFile(ended[0])
	if err != nil {
		return err
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf(",%011x.%d", 0x18000000000+i, 10000+i)), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func fillTodoTxt(_ *peer, dir string, n int) error {
	cfg := fmt.Sprintf("export TODO_DIR=%s\nexport TODO_FILE=$TODO_DIR/todo.txt\nexport DONE_FILE=$TODO_DIR/done.txt\nexport REPORT_FILE=$TODO_DIR/report.txt\n", dir)
	if err := os.WriteFile(filepath.Join(dir, "cfg"), []byte(cfg), 0o600); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "todo.txt"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(strings.Repeat("One of many\n", n))
	return err
}
