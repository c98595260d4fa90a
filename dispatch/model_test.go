package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/internal/explain"
	"otm/pipeline"
)

// TestWakingModel plays random interleavings of dispatches, wakes, lost answers,
// agents that take, finish, are silent or end, rows that leave, and restarts. It
// checks each wake against a simple model.
func TestWakingModel(t *testing.T) {
	t.Parallel()
	playModel(t, false)
}

// TestWakingModelClock (B94) is TestWakingModel with a clock that jumps: no task
// is woken for too often, and none waits for ever.
func TestWakingModelClock(t *testing.T) {
	t.Parallel()
	playModel(t, true)
}

func playModel(t *testing.T, jumps bool) {
	dir, workspace := t.TempDir(), t.TempDir()
	for _, trigger := range []pipeline.Trigger{pipeline.TriggerGateway, pipeline.TriggerExec} {
		for seed := range uint64(40) {
			m := newModel(t, dir, workspace, trigger, seed)
			m.jumps = jumps
			for range 150 {
				m.step()
			}
			m.heal()
			if t.Failed() {
				t.Fatalf("%s, seed %d:\n%s", trigger, seed, strings.Join(m.script, "\n"))
			}
		}
	}
}

// sent is a wake as the model sees it.
type sent struct {
	key      string
	first    time.Time // when it was first sent
	accepted time.Time // when the dispatcher heard that it was; zero: never
	queued   bool      // it may have been
	took     int       // how many tasks the agent had taken when it was first sent
	names    []pipeline.TaskID
}

type model struct {
	*testing.T
	rng   *rand.Rand
	dir   string
	agent *pipeline.Agent
	recs  *memRecords
	d     *Dispatcher
	now   time.Time
	jumps bool // the clock jumps

	script []string

	last      pipeline.TaskID
	onBoard   []pipeline.TaskID
	taken     int
	fruitless []time.Time // when wakes were sent since there was progress, or a person did something
	heard     time.Time
	wakes     []*sent
	mood      string
	child     bool // exec: lives
	childKey  string
}

func newModel(t *testing.T, dir, workspace string, trigger pipeline.Trigger, seed uint64) *model {
	if err := os.RemoveAll(statesDir(dir)); err != nil {
		t.Fatal(err)
	}
	m := &model{
		T: t, rng: rand.New(rand.NewPCG(seed, 1)), dir: dir, recs: newMemRecords(), now: minute(0), mood: "ok",
		agent: &pipeline.Agent{Name: "a", Label: "a", Trigger: trigger, Workspace: workspace},
	}
	m.restart()
	return m
}

func (m *model) restart() {
	m.d = &Dispatcher{
		Dir: m.dir, Records: m.recs, Agents: pipeline.Agents{*m.agent}, Times: pipeline.DefaultTimes, Now: m.tick,
		Wakers: map[pipeline.Trigger]Waker{m.agent.Trigger: m}, Log: slog.New(slog.DiscardHandler),
		saidAt: map[string]time.Time{}, waking: map[string]*pendingWake{}, unwoken: map[string]explain.Finding{}, files: &workspaces{dir: m.dir},
	}
}

// tick moves the clock: no two times are equal.
func (m *model) tick() time.Time {
	m.now = m.now.Add(time.Millisecond)
	return m.now
}

func (m *model) say(format string, args ...any) {
	m.script = append(m.script, m.now.Format("02 15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (m *model) wrong(format string, args ...any) {
	m.Helper()
	m.say("WRONG: "+format, args...)
	m.Errorf(format, args...)
}

func (m *model) records(ok func(*pipeline.Record) bool) (list []*pipeline.Record) {
	for _, id := range m.onBoard {
		r, err := m.recs.Load(id)
		if err != nil {
			m.Fatal(err)
		}
		if ok(r) {
			list = append(list, r)
		}
	}
	return list
}

func (m *model) change(id pipeline.TaskID, f func(*pipeline.Record)) {
	m.recs.Change(context.Background(), id, func(r *pipeline.Record) error {
		f(r)
		return nil
	})
}

// one picks a random record; nil: there is none.
func (m *model) one(list []*pipeline.Record) *pipeline.Record {
	if len(list) == 0 {
		return nil
	}
	return list[m.rng.IntN(len(list))]
}

// step does something at random.
func (m *model) step() {
	switch n := m.rng.IntN(100); {
	case n < 12:
		m.dispatch(0)
	case n < 40:
		m.pass()
	case n < 55:
		span := []time.Duration{time.Second, 20 * time.Second, time.Minute, 4 * time.Minute, 16 * time.Minute, 62 * time.Minute}
		m.wait(span[m.rng.IntN(len(span))])
	case n < 63:
		moods := []string{"ok", "ok", "ok", "lost", "queued", "refused", "down"}
		m.mood = moods[m.rng.IntN(len(moods))]
		m.say("the gateway is %s", m.mood)
	case n < 75:
		m.take()
	case n < 85:
		m.finish()
	case n < 88:
		m.reportStep()
	case n < 91:
		if r := m.one(m.records(func(*pipeline.Record) bool { return true })); r != nil && m.rng.IntN(3) == 0 {
			m.say("the row of %v leaves", r.TaskID)
			m.fruitless = nil
			m.onBoard = slices.DeleteFunc(m.onBoard, func(id pipeline.TaskID) bool { return id == r.TaskID })
		}
	case n < 94:
		if r := m.one(m.records(func(r *pipeline.Record) bool { return r.Status.Finished() })); r != nil {
			m.dispatch(r.TaskID)
		}
	case n < 97:
		m.endRun()
	case m.jumps && n < 99:
		jump := time.Duration(m.rng.Int64N(int64(96*time.Hour))) - 48*time.Hour
		if m.rng.IntN(2) == 0 {
			jump /= 100
		}
		m.now = m.now.Add(jump)
		m.say("the clock jumps by %v", jump)
	default:
		m.say("restart")
		m.restart()
	}
}

func (m *model) wait(d time.Duration) {
	m.now = m.now.Add(d)
	m.say("%v pass", d)
}

// dispatch dispatches a new task, or again one that was sent back.
func (m *model) dispatch(id pipeline.TaskID) {
	if id == 0 {
		m.last++
		id = m.last
		m.onBoard = append(m.onBoard, id)
	}
	now := m.tick()
	m.fruitless = nil
	m.change(id, func(r *pipeline.Record) {
		r.Attempt++
		r.RowID, r.Agent, r.Status = "Rec", "a", pipeline.Assigned
		r.Priority = pipeline.Priorities[m.rng.IntN(len(pipeline.Priorities))]
		r.Steps = []pipeline.StepRecord{{Title: "one"}, {Title: "two"}}
		r.Dispatch = &pipeline.Dispatch{Attempt: r.Attempt, Agent: "a", Workspace: m.agent.Workspace, At: now, FlippedAt: &now, EntryAt: &now}
		m.say("%v is dispatched, attempt %d, %s", id, r.Attempt, r.Priority)
	})
}

// take is an agent that takes the most urgent task, as otm next gives it.
func (m *model) take() {
	if m.agent.Trigger == pipeline.TriggerExec && !m.child || len(m.records(AtWork)) > 0 {
		return
	}
	s := &situation{agent: m.agent, records: m.records(func(*pipeline.Record) bool { return true })}
	waiting := s.waiting()
	byPriority(waiting)
	if len(waiting) == 0 {
		return
	}
	now := m.tick()
	m.change(waiting[0].TaskID, func(r *pipeline.Record) {
		r.Dispatch.TakenAt, r.Dispatch.TakenBy = &now, takenByNext
		r.Hear("a", now, func(h *pipeline.Heard) { h.Took, h.Given = now, now })
	})
	m.taken++
	m.heard = now
	m.say("it takes %v", waiting[0].TaskID)
}

func (m *model) finish() {
	r := m.one(m.records(AtWork))
	if r == nil {
		return
	}
	m.heard, m.fruitless = m.tick(), nil
	status := []pipeline.Status{pipeline.AgentDone, pipeline.Blocked, pipeline.InProgress}[m.rng.IntN(3)]
	m.change(r.TaskID, func(r *pipeline.Record) {
		if status == pipeline.InProgress {
			applied(r, m.heard, status, 1, 2)
		} else {
			applied(r, m.heard, status)
		}
	})
	m.say("it ends %v: %s", r.TaskID, status)
}

func (m *model) reportStep() {
	if r := m.one(m.records(AtWork)); r != nil && m.rng.IntN(2) == 0 {
		m.heard, m.fruitless = m.tick(), nil
		m.change(r.TaskID, func(r *pipeline.Record) { applied(r, m.heard, pipeline.InProgress, 1) })
		m.say("it reports on %v", r.TaskID)
	}
}

// endRun ends the process of an agent; its helper notes that, or is killed.
func (m *model) endRun() {
	if !m.child {
		return
	}
	m.child = false
	noted := m.rng.IntN(3) > 0
	m.say("its process ends, noted: %v", noted)
	if !noted {
		return
	}
	now := m.tick()
	ids, _ := m.recs.IDs()
	for _, id := range ids {
		m.change(id, func(r *pipeline.Record) {
			if w := wakeNamed(r, m.childKey); w != nil {
				w.Ended, w.Exit, w.Code = &now, "exit 0", new(int)
			}
		})
	}
}

// pass is the waking part of a pass.
func (m *model) pass() {
	p := waking{newRun(m.d)}
	for _, r := range m.records(func(*pipeline.Record) bool { return true }) {
		p.byName["a"] = append(p.byName["a"], &task{id: r.TaskID, rec: r, agent: m.agent})
	}
	m.say("pass")
	if err := p.wake(m.Context()); err != nil {
		m.wrong("pass: %v", err)
	}
	for _, reason := range sentences(slices.Concat(p.report.Failed, p.report.NeedsPerson), m.now) {
		m.say("  %s", reason)
	}
	m.checkKeys()
}

// checkKeys checks that no key was used for two wakes.
func (m *model) checkKeys() {
	seen := map[string]bool{}
	ids, _ := m.recs.IDs()
	for _, id := range ids {
		r, _ := m.recs.Load(id)
		for _, w := range r.Wakes {
			if seen[w.Key] {
				m.wrong("two wakes have the key %s", w.Key)
			}
			seen[w.Key] = true
		}
	}
}

// Wake implements Waker.
func (m *model) Wake(_ context.Context, r Request) error {
	i := slices.IndexFunc(m.wakes, func(w *sent) bool { return w.key == r.Key })
	m.say("  wake %s, %s", r.Key, m.mood)
	if i < 0 {
		m.checkNew(r)
		m.wakes = append(m.wakes, &sent{key: r.Key, took: m.taken, first: m.now, names: named(r.Message)})
		i = len(m.wakes) - 1
	} else {
		m.checkAgain(m.wakes[i])
	}
	w := m.wakes[i]
	if !w.queued {
		w.took, w.first, w.names = m.taken, m.now, named(r.Message)
	}
	if m.agent.Trigger == pipeline.TriggerExec {
		return m.start(w)
	}
	switch m.mood {
	case "lost", "queued":
		w.queued = true
		return ErrLost
	case "refused":
		return fmt.Errorf("%w: unknown agent", ErrRefused)
	case "down":
		return fmt.Errorf("connection refused")
	}
	w.queued, w.accepted = true, m.now
	m.fruitless = append(m.fruitless, m.now)
	return nil
}

// start is Wake for an exec agent.
func (m *model) start(w *sent) error {
	if m.child {
		m.wrong("%s: it is started beside itself", w.key)
	}
	switch m.mood {
	case "refused", "down":
		return fmt.Errorf("%w: not started", ErrRefused)
	case "lost":
		w.queued = true
		return ErrLost
	}
	w.queued, m.child, m.childKey = true, true, w.key
	m.fruitless = append(m.fruitless, m.now)
	if m.mood == "queued" {
		return ErrLost
	}
	w.accepted = m.now
	return nil
}

func named(message string) (ids []pipeline.TaskID) {
	for _, word := range strings.FieldsFunc(message, func(r rune) bool { return r == ' ' || r == ',' }) {
		if id, err := pipeline.ParseFileID(word); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// checkNew checks a new wake against the contract.
func (m *model) checkNew(r Request) {
	for _, w := range m.wakes {
		if !w.queued || m.taken > w.took || m.jumps {
			continue
		}
		exec := m.agent.Trigger == pipeline.TriggerExec
		switch {
		case exec && !m.child:
		case !w.accepted.IsZero() && m.now.Sub(w.accepted) < askAfter(&m.d.Times):
			m.wrong("%s is sent while %s is outstanding", r.Key, w.key)
		case w.accepted.IsZero() && m.now.Sub(w.first) < answerWait:
			m.wrong("%s is sent while the answer to %s is awaited", r.Key, w.key)
		}
	}
	atWork := m.records(AtWork)
	if len(atWork) > 0 && m.child {
		m.wrong("%s is sent while its process works on a task", r.Key)
	}
	work := append(m.records(isWaiting), atWork...)
	byPriority(work)
	if len(work) == 0 {
		m.wrong("%s is sent though nothing waits", r.Key)
	}
	for _, id := range named(r.Message) {
		if !slices.ContainsFunc(work, func(r *pipeline.Record) bool { return r.TaskID == id }) {
			m.wrong("%s names %v, there is %v", r.Key, id, idsOf(work))
		}
	}
	for _, w := range m.records(isWaiting)[:min(len(m.records(isWaiting)), maxNamed)] {
		if len(work) <= maxNamed && !slices.Contains(named(r.Message), w.TaskID) {
			m.wrong("%s does not name %v, which waits", r.Key, w.TaskID)
		}
	}
	m.checkPause(r)
}

// checkPause checks that each wake without progress makes the pause longer.
func (m *model) checkPause(r Request) {
	if n := len(m.fruitless); n > 0 && !m.jumps {
		pause := pauses[min(n, len(pauses))-1]
		if n >= maxFailures(&m.d.Times) {
			pause = probeEvery
		}
		if got := m.now.Sub(m.fruitless[n-1]); got < pause {
			m.wrong("%s is sent %v after the wake before, and %d brought no progress", r.Key, got, n)
		}
	}
}

func (m *model) checkAgain(w *sent) {
	switch {
	case !w.accepted.IsZero():
		m.wrong("%s is sent again after it was accepted", w.key)
	case w.queued && m.now.Sub(w.first) >= answerWait+time.Minute && !m.jumps:
		m.wrong("%s is sent again %v after it was queued: the gateway has forgotten it", w.key, m.now.Sub(w.first))
	}
}

// Ended implements Waker.
func (m *model) Ended(_ context.Context, key string) (RunEnd, bool, error) {
	if m.mood == "down" {
		return RunEnd{}, false, fmt.Errorf("connection refused")
	}
	ended := m.agent.Trigger == pipeline.TriggerExec || m.rng.IntN(2) == 0
	m.say("  asked for %s, ended: %v", key, ended)
	return RunEnd{Key: key, Outcome: pipeline.OutcomeOK}, ended, nil
}

// Running implements Waker.
func (m *model) Running(string) bool { return m.child }

// heal ends all trouble, and checks that the agent is woken for each waiting task,
// takes it and ends it.
func (m *model) heal() {
	m.say("all is well")
	m.mood = "ok"
	finishAll := func() {
		for len(m.records(AtWork)) > 0 {
			m.finish()
		}
	}
	for round := range 300 {
		finishAll()
		m.endRun()
		before := len(m.wakes)
		m.wait(time.Minute)
		m.pass()
		waiting := m.records(isWaiting)
		if len(waiting) == 0 {
			return
		}
		switch {
		case len(m.wakes) > before: // it is woken, and does what it was told
			for len(m.records(isWaiting)) > 0 {
				m.take()
				finishAll()
			}
		case round == 299:
			m.wrong("%v waits for ever", idsOf(waiting))
		}
	}
}
