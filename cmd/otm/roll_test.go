package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// rollEnv names the roll of the house that a process belongs to. It does not
// begin with OTM_, as agents are started without those.
const rollEnv = "SOAK_ROLL"

// roll is a directory in which each process of a house, also one that an agent
// started, has a file that it keeps locked for as long as it lives: who holds
// the lock is alive, and is no stranger with the same pid.
type roll string

// enrolled keeps the lock of this process.
var enrolled *os.File

// houseFile is locked by the test whose roll it is, for as long as that lives.
const houseFile = ".house"

// openRoll makes a roll. Who is on it dies with this process.
func openRoll(dir string) (roll, *os.File, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", nil, err
	}
	f, err := os.Create(filepath.Join(dir, houseFile))
	if err != nil {
		return "", nil, err
	}
	return roll(dir), f, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// outlive ends this process when the test is gone, however that ended: what
// stays by itself would go on for ever.
func outlive(dir string) {
	f, err := os.Open(filepath.Join(dir, houseFile))
	if err != nil {
		return
	}
	for err = syscall.EINTR; err == syscall.EINTR; {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH)
	}
	if err == nil {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}

// enrol puts this process on the roll, if there is one.
func enrol() {
	dir := os.Getenv(rollEnv)
	if dir == "" {
		return
	}
	kind := filepath.Base(os.Args[0])
	if len(os.Args) > 1 && (kind == "otm" || strings.HasPrefix(os.Args[1], "__")) {
		kind = strings.Trim("otm."+os.Args[1], "_")
	}
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%s-%d", kind, os.Getpid())), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return // the house is gone
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		f.Close()
		return
	}
	enrolled = f
	go outlive(dir)
}

// living are the pids of those who live, by what they are. The files of the
// dead are removed.
func (r roll) living() map[string][]int {
	alive := map[string][]int{}
	entries, _ := os.ReadDir(string(r))
	for _, e := range entries {
		if e.Name() == houseFile {
			continue
		}
		kind, pid, ok := r.alive(e.Name())
		if ok {
			alive[kind] = append(alive[kind], pid)
		} else {
			os.Remove(filepath.Join(string(r), e.Name()))
		}
	}
	return alive
}

func (r roll) alive(name string) (kind string, pid int, alive bool) {
	i := strings.LastIndex(name, "-")
	pid, err := strconv.Atoi(name[i+1:])
	if i < 0 || err != nil {
		return "", 0, false
	}
	f, err := os.OpenFile(filepath.Join(string(r), name), os.O_RDWR, 0)
	if err != nil {
		return "", 0, false
	}
	defer f.Close()
	return name[:i], pid, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == syscall.EWOULDBLOCK
}

// killOne kills one of those who live, and says what it was. Each kind is as
// likely as the others, however many there are of it.
func (r roll) killOne(random *rand.Rand) (kind string, killed bool) {
	alive := r.living()
	var kinds []string
	for kind := range alive {
		kinds = append(kinds, kind)
	}
	if len(kinds) == 0 {
		return "", false
	}
	slices.Sort(kinds)
	kind = kinds[random.IntN(len(kinds))]
	pid := alive[kind][random.IntN(len(alive[kind]))]
	return kind, r.kill(kind, pid)
}

// killAll kills all who live, as a machine that stops, and says how many of
// what they were.
func (r roll) killAll() map[string]int {
	dead := map[string]int{}
	for kind, pids := range r.living() {
		for _, pid := range pids {
			if r.kill(kind, pid) {
				dead[kind]++
			}
		}
	}
	return dead
}

func (r roll) kill(kind string, pid int) bool {
	if _, _, alive := r.alive(fmt.Sprintf("%s-%d", kind, pid)); !alive {
		return false // it has ended by itself, and its pid may be another's
	}
	return syscall.Kill(pid, syscall.SIGKILL) == nil
}
