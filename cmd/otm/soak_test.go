package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"otm/core/store/pgtest"
	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// What a soak is told by the environment.
const (
	soakKills = "OTM_SOAK_KILLS" // how many processes TestSoak kills
	soakHands = "OTM_SOAK_HANDS" // how many people, and as many agents, act at once in TestManyHands
	soakFor   = "OTM_SOAK_FOR"   // for how long TestSoak goes on, such as 2h; instead of the kills
	soakTasks = "OTM_SOAK_TASKS" // how many tasks TestSoakFaults brings through
	soakShare = "OTM_SOAK_SHARE" // of how many calls one goes wrong in it
	soakSeed  = "OTM_SOAK_SEED"  // what the choices begin from
)

// roundKills is how many kills a directory of TestSoak lives through before it
// is looked at; the next round has one of its own, and the next seed.
const roundKills = 200

// TestSoak kills processes of all kinds at random moments while people, scripts
// and agents work; then everything is started once more, comes to its end, and
// is as it must be. Times make each run another one: a seed repeats the
// choices, not the moments.
func TestSoak(t *testing.T) {
	t.Parallel()
	soakFrom(t, 12, func(testing.TB) string { return "" })
}

// TestSoakPostgres is TestSoak with the store in PostgreSQL.
func TestSoakPostgres(t *testing.T) {
	soakFrom(t, 6, func(t testing.TB) string { return pgtest.New(t).URL })
}

// soakFrom kills so many processes, unless the environment says otherwise. storeURL gives
// each directory its store.
func soakFrom(t *testing.T, usual int, storeURL func(testing.TB) string) {
	crashtest.Long(t, "goes on for ten seconds")
	kills, seed := setting(t, soakKills, usual), setting(t, soakSeed, int(time.Now().UnixNano()%1e6))
	long, err := time.ParseDuration(cmp.Or(os.Getenv(soakFor), "0s"))
	if err != nil {
		t.Fatalf("%s: %v", soakFor, err)
	}
	end := time.Now().Add(long)
	for left := kills; (left > 0 || time.Now().Before(end)) && !t.Failed(); seed++ {
		n := roundKills
		if long == 0 {
			n = min(n, left)
		}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newSoak(t, uint64(seed), storeURL(t))
			if kills == usual {
				s.room, s.block = 10, 4 // what the kills leave open takes longer than they do
			}
			s.live(func() { s.killing(func(dead int) bool { return dead >= n }, 200*time.Millisecond) })
		})
		left -= n
	}
}

func setting(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// soak is a house under load.
type soak struct {
	*house
	storeURL string // "": otm.db
	seed     uint64
	roll     roll
	desk     *desk
	store    tasks
	agents   []string     // those that work; "olga" is a person
	shapes   [][][]string // the sets of daemons that can run, each a command line
	room     int          // tasks that are open at once
	block    int          // tasks that are created at once, at most
	most     int          // tasks that are created in all; 0: no matter
	env      []string

	mu      sync.Mutex // guards what follows
	dead    map[string]int
	titles  map[string]string // title → id that was printed; "": nobody was told
	touched map[string][]string
	over    map[pipeline.TaskID]bool

	load  atomic.Bool // people may do what is not their duty
	shape func(n int) // ends the daemons by force, and starts those of another shape
}

// soakTimes make what takes minutes take seconds.
const soakTimes = `
[times]
settle_after = "1s"
adopt_after = "1s"
redeliver_after = "1s"
rewake_after = "1s"
silent_after = "2s"
[gateway]
rewake_max = 1000
`

func newSoak(t *testing.T, seed uint64, storeURL string) *soak {
	t.Helper()
	s := &soak{
		house: newHouse(t), seed: seed, agents: []string{"alpha", "beta", "gamma", "delta"}, room: 40, block: 12,
		dead: map[string]int{}, titles: map[string]string{}, touched: map[string][]string{}, over: map[pipeline.TaskID]bool{},
	}
	s.storeURL = storeURL
	s.store, s.desk = storeOf(t, s.dir, storeURL), deskOf(s.dir)
	var alive *os.File
	var err error
	if s.roll, alive, err = openRoll(filepath.Join(s.root, "roll")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.logDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(s.bin, "otm"), filepath.Join(s.bin, soakAgentName)); err != nil {
		t.Fatal(err)
	}
	s.shapes = [][][]string{
		{{"otm", "up"}},
		{{"otm", "board"}, {"otm-injector"}, {"otm-dispatcher", "--every", "2s"}, {"otm-completion-detector", "--every", "2s"}},
	}
	s.configure("[board]\nlisten = \"127.0.0.1:0\"\n")
	t.Cleanup(func() { // whoever still lives would write into what is being removed
		for len(s.roll.living()) > 0 {
			s.roll.killAll()
		}
		alive.Close()
	})
	return s
}

// configure writes otm.toml: alpha and beta share a workspace and are started,
// as is gamma; delta looks by itself; olga is a person.
func (s *soak) configure(more string) {
	text := more + soakTimes + "[agents.olga]\nkind = \"human\"\n"
	for _, name := range s.agents {
		text += fmt.Sprintf("[agents.%s]\nworkspace = %q\n", name, s.workspace(name))
		if name != "delta" {
			line := strings.ReplaceAll(fmt.Sprintf("%q", s.agentLine(name)), `" "`, `", "`)
			text += "command = " + line + "\n"
		}
	}
	if s.storeURL != "" {
		text += fmt.Sprintf("[store]\nurl = %q\n", s.storeURL)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "otm.toml"), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

func (s *soak) workspace(agent string) string {
	if agent == "alpha" || agent == "beta" {
		return filepath.Join(s.root, "ws")
	}
	dir := filepath.Join(s.root, "ws "+agent)
	os.MkdirAll(dir, 0o700)
	return dir
}

// boardDies reports whether the board is one of the processes that are killed.
func (s *soak) boardDies() bool { return len(s.shapes[0]) == 1 }

func (s *soak) logDir() string { return filepath.Join(s.root, "agents") }

// agentLine is how an agent is started.
func (s *soak) agentLine(name string) []string {
	return []string{filepath.Join(s.bin, soakAgentName), s.bin, filepath.Join(s.logDir(), name), name}
}

// random is the source of choices of one who acts.
func (s *soak) random(who string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(who))
	return rand.New(rand.NewPCG(s.seed, h.Sum64()))
}

// live runs everything under load while the trouble lasts, and then to its end.
func (s *soak) live(trouble func()) {
	s.Helper()
	began := time.Now()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	load := s.begin(ctx, s.creator("cora"), s.creator("carl"), s.housekeeper, s.vandal("gamma"))
	people := s.begin(ctx, s.people("pat"))
	poll := s.begin(ctx, func(ctx context.Context) { s.keep(ctx, s.workspace("delta"), syscall.SIGKILL, s.agentLine("delta")...) })
	crew := s.crew(ctx, 0)
	s.shape = func(n int) {
		crew.end()
		crew = s.crew(ctx, n)
	}
	s.load.Store(true)
	trouble()
	s.load.Store(false)
	load.end()
	s.Logf("%v under load; killed %v", time.Since(began).Round(time.Second), s.dead)
	s.ringBells()
	s.comeToRest()
	people.end()
	s.comeToRest() // whatever they did last
	poll.end()
	s.until("the agents to end", func() string {
		alive := s.roll.living()
		delete(alive, "otm.up")
		maps.DeleteFunc(alive, func(kind string, _ []int) bool { return s.isDaemon(kind) })
		return strings.Join(slices.Sorted(maps.Keys(alive)), ", ")
	})
	crew.signal = syscall.SIGTERM
	crew.end()
	s.atRest()
	s.check()
	s.Logf("%v in all; %d tasks, %d of them touched by people", time.Since(began).Round(time.Second), len(s.titles), len(s.touched))
}

// group are those who act until they are told to end.
type group struct {
	wg     sync.WaitGroup
	cancel context.CancelFunc
	signal syscall.Signal // of a crew: how it is ended
}

func (g *group) end() {
	g.cancel()
	g.wg.Wait()
}

func (s *soak) begin(ctx context.Context, who ...func(context.Context)) *group {
	ctx, cancel := context.WithCancel(ctx)
	g := &group{cancel: cancel}
	for _, act := range who {
		g.wg.Go(func() { act(ctx) })
	}
	return g
}

// crew keeps the daemons of a shape running.
func (s *soak) crew(ctx context.Context, shape int) *group {
	ctx, cancel := context.WithCancel(ctx)
	g := &group{cancel: cancel, signal: syscall.SIGKILL}
	for _, line := range s.shapes[shape%len(s.shapes)] {
		g.wg.Go(func() { s.keepUntil(ctx, s.root, func() syscall.Signal { return g.signal }, line...) })
	}
	return g
}

func (s *soak) isDaemon(kind string) bool {
	for _, shape := range s.shapes {
		for _, line := range shape {
			if strings.HasPrefix(strings.Join(line, "."), kind) {
				return true
			}
		}
	}
	return false
}

func (s *soak) keep(ctx context.Context, dir string, end syscall.Signal, line ...string) {
	s.keepUntil(ctx, dir, func() syscall.Signal { return end }, line...)
}

// keepUntil keeps a process running: whoever kills it, it is started again. It
// must not end by itself with an error.
func (s *soak) keepUntil(ctx context.Context, dir string, end func() syscall.Signal, line ...string) {
	for ctx.Err() == nil {
		var out bytes.Buffer
		cmd := s.process(line...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
		if err := cmd.Start(); err != nil {
			s.Errorf("%v: %v", line, err)
			return
		}
		stop := context.AfterFunc(ctx, func() { cmd.Process.Signal(end()) })
		cmd.Wait()
		stop()
		if code := s.judge(cmd.ProcessState, out.String(), line); code > 0 {
			s.Errorf("%v: exit %d\n%s", line, code, &out)
			return
		}
		if strings.HasSuffix(line[0], soakAgentName) {
			pause(ctx, 500*time.Millisecond) // it looks from time to time
		}
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (s *soak) process(line ...string) *exec.Cmd {
	cmd := s.command("", filepath.Base(line[0]), line[1:]...)
	cmd.Env = append(cmd.Env, rollEnv+"="+string(s.roll))
	cmd.Env = append(cmd.Env, s.env...)
	return cmd
}

// judge returns the exit code of a process, -1 where it was killed, and reports
// one that broke down by itself.
func (s *soak) judge(state *os.ProcessState, said string, line []string) int {
	status := state.Sys().(syscall.WaitStatus)
	broken := state.ExitCode() == 2 || status.Signaled() && status.Signal() != syscall.SIGKILL
	for _, word := range []string{"panic:", "fatal error:", "internal error", "DATA RACE"} {
		broken = broken || strings.Contains(said, word)
	}
	if broken {
		s.Errorf("%v broke down: %v\n%s", line, state, said)
	}
	return state.ExitCode()
}

// do runs a command and returns what it printed; a code of -1 says that it was
// killed.
func (s *soak) do(stdin string, line ...string) (out string, said string, code int) {
	var stdout, stderr bytes.Buffer
	cmd := s.process(line...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		s.Errorf("%v: %v", line, err)
		return "", "", -1
	}
	return stdout.String(), stderr.String(), s.judge(cmd.ProcessState, stderr.String(), line)
}

// killing kills processes, each after a random time, until it was enough.
func (s *soak) killing(enough func(dead int) bool, mean time.Duration) {
	random := s.random("killer")
	shape, dead := 0, 0
	for !enough(dead) && !s.Failed() {
		pause(s.Context(), time.Duration(random.Int64N(int64(2*mean))))
		switch dice := random.IntN(100); {
		case dice < 4:
			dead += s.buried(s.roll.killAll())
		case dice < 8:
			shape++
			s.shape(shape) // everything is killed that the other shape would be in the way of
		default:
			for range 1 + dice/85*2 {
				if kind, killed := s.roll.killOne(random); killed {
					dead += s.buried(map[string]int{kind: 1})
				}
			}
		}
	}
}

func (s *soak) buried(dead map[string]int) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind, more := range dead {
		s.dead[kind] += more
		n += more
	}
	return n
}

// until waits for something that other processes bring about: look says what is
// still in the way.
func (s *soak) until(what string, look func() string) {
	s.Helper()
	left := "?"
	for last := ""; left != last; { // it gets on
		last = left
		soon(patience, func() bool { left = look(); return left == "" || left != last || s.Failed() })
		if left == "" || s.Failed() {
			return
		}
	}
	for _, line := range [][]string{{"otm", "status"}, {"otm", "agents"}, {"otm", "why", "--all"}, {"otm", "doctor"}} {
		out, said, code := s.do("", line...)
		s.Logf("%v: exit %d\n%s%s", line, code, out, said)
	}
	s.Fatalf("waited in vain for %s; left: %s", what, left)
}
