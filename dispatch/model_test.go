package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/core"
	"otm/core/coretest"
	"otm/internal/crash/crashtest"
	"otm/internal/explain"
	"otm/internal/lock"
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
		for seed := range uint64(crashtest.Fewer(40)) {
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
	refused  time.Time // when it was refused last; zero: never
	ended    time.Time // when the gateway said that its run ended well; zero: it did not
	queued   bool      // it may have been
	took     int       // how many tasks the agent had taken when it was first sent
	names    []pipeline.TaskID
}

type model struct {
	*testing.T
	rng   *rand.Rand
	dir   string
	agent *pipeline.Agent
	store *coretest.Store
	d     *Dispatcher
	now   time.Time
	jumps bool // the clock jumps

	script []string

	last      pipeline.TaskID
	drops     int
	onBoard   []pipeline.TaskID
	taken     int
	fruitless []time.Time // when wakes were sent since there was progress, or a person did something
	heard     time.Time
	wakes     []*sent
	mood      string
	child     *lock.Lock // exec: its process lives; nil: none does
	childKey  string
}

func newModel(t *testing.T, dir, workspace string, trigger pipeline.Trigger, seed uint64) *model {
	m := &model{
		T: t, rng: rand.New(rand.NewPCG(seed, 1)), dir: dir, store: &coretest.Store{}, now: minute(0), mood: "ok",
		agent: &pipeline.Agent{Name: "a", Label: "a", Trigger: trigger, Workspace: workspace},
	}
	m.restart()
	return m
}

func (m *model) restart() {
	m.d = newDispatcher(m.dir, m.store, &board{store: m.store, now: m.tick}, pipeline.Agents{*m.agent}, m.tick, slog.New(slog.DiscardHandler))
	m.d.Wakers[m.agent.Trigger] = m
	m.d.Outbox = delivered{m.store}
	m.d.loggedAt, m.d.waking, m.d.unwoken = map[string]time.Time{}, map[string]*pendingWake{}, map[string]explain.Finding{}
	m.d.asked = map[string]question{}
	m.d.Deliver = func(context.Context, ...pipeline.TaskID) (map[pipeline.TaskID]error, error) { return nil, nil }
}

// delivered is an outbox in which nothing is to be delivered.
type delivered struct{ core.Outbox }

func (delivered) Pending(context.Context, core.Sink, ...pipeline.TaskID) ([]core.Pending, error) {
	return nil, nil
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

func (m *model) task(id pipeline.TaskID) *core.Task {
	t, err := m.store.Task(context.Background(), id)
	if err != nil {
		m.Fatal(err)
	}
	return t
}

func (m *model) tasks(ok func(*core.Task) bool) (list []*core.Task) {
	for _, id := range m.onBoard {
		if t := m.task(id); ok(t) {
			list = append(list, t)
		}
	}
	return list
}

func (m *model) do(c core.Command) {
	if c.At.IsZero() {
		c.At = m.tick()
	}
	outcomes, err := m.store.Do(context.Background(), c)
	if err == nil {
		err = outcomes[0].Err
	}
	if err != nil {
		m.Fatalf("%+v: %v", c, err)
	}
}

// one picks a random task; nil: there is none.
func (m *model) one(list []*core.Task) *core.Task {
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
		if r := m.one(m.tasks(func(*core.Task) bool { return true })); r != nil && m.rng.IntN(3) == 0 {
			m.say("the row of %v leaves", r.ID)
			m.fruitless = nil
			m.onBoard = slices.DeleteFunc(m.onBoard, func(id pipeline.TaskID) bool { return id == r.ID })
		}
	case n < 94:
		if r := m.one(m.tasks(func(r *core.Task) bool { return r.Status.Finished() })); r != nil {
			m.dispatch(r.ID)
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

// dispatch hands out a new task, or again one that was sent back.
func (m *model) dispatch(id pipeline.TaskID) {
	m.fruitless = nil
	if id == 0 {
		m.last++
		id = m.last
		m.onBoard = append(m.onBoard, id)
		priority := pipeline.Priorities[m.rng.IntN(len(pipeline.Priorities))]
		m.do(core.Command{By: core.Actor{Kind: core.Creator}, Task: id, Do: core.Request{
			Task: pipeline.Task{ID: id, Title: "x", Agent: "a", Priority: priority, Type: pipeline.Action, Steps: []string{"one", "two"}}, CreatedAt: m.now,
		}})
	} else {
		status := pipeline.New
		m.do(core.Command{By: core.ByPerson("robin"), Task: id, Do: core.Edits{Seen: true, Status: &status}})
		for _, s := range m.task(id).Steps {
			open := false
			m.do(core.Command{By: core.ByPerson("robin"), Task: id, Do: core.Edits{Seen: true, Steps: []core.StepEdit{{Row: s.RowID, Done: &open}}}})
		}
	}
	m.show(id)
	m.handOut(id)
}

// show makes the board show a task.
func (m *model) show(id pipeline.TaskID) {
	if err := (&board{store: m.store, now: m.tick}).write(context.Background(), m.task(id)); err != nil {
		m.Fatal(err)
	}
}

func (m *model) handOut(id pipeline.TaskID) {
	behind := len(m.tasks(func(t *core.Task) bool { return t.ID != id && t.Out() && t.Status != pipeline.Blocked })) > 0
	m.do(core.Command{By: by(), Task: id, Do: core.HandOut{Agent: "a", Workspace: m.agent.Workspace, Queue: behind}})
	m.show(id)
	t := m.task(id)
	m.say("%v is dispatched, attempt %d, %s", id, t.Attempt, t.Priority)
}

// isPending reports whether a task waits for its next run.
func isPending(t *core.Task) bool { return t.Status == pipeline.Pending }

// take is an agent that takes the most urgent task, as otm next gives it.
func (m *model) take() {
	if m.agent.Trigger == pipeline.TriggerExec && m.child == nil || len(m.tasks((*core.Task).AtWork)) > 0 {
		return
	}
	waiting := m.tasks((*core.Task).Waiting)
	ByPriority(waiting)
	if len(waiting) == 0 {
		return
	}
	now := m.tick()
	m.do(core.Command{At: now, By: core.ByAgent("a"), Task: waiting[0].ID, Do: core.Take{By: core.TakenByNext}})
	m.taken++
	m.heard = now
	m.say("it takes %v", waiting[0].ID)
}

func (m *model) finish() {
	t := m.one(m.tasks((*core.Task).AtWork))
	if t == nil {
		return
	}
	m.heard, m.fruitless = m.tick(), nil // one that fails its only task has nothing left to do
	status := []pipeline.Status{pipeline.AgentDone, pipeline.Blocked, pipeline.InProgress, pipeline.Failed}[m.rng.IntN(4)]
	if status == pipeline.InProgress {
		m.do(reportOf(t, m.heard, m.nextDrop(), status, 1, 2))
	} else {
		m.do(reportOf(t, m.heard, m.nextDrop(), status))
	}
	m.say("it ends %v: %s", t.ID, status)
}

func (m *model) nextDrop() int {
	m.drops++
	return m.drops
}

func (m *model) reportStep() {
	if t := m.one(m.tasks((*core.Task).AtWork)); t != nil && m.rng.IntN(2) == 0 {
		m.heard, m.fruitless = m.tick(), nil
		m.do(reportOf(t, m.heard, m.nextDrop(), pipeline.InProgress, 1))
		m.say("it reports on %v", t.ID)
	}
}

// endRun ends the process of an agent; its helper notes that, or is killed. At the gateway
// a turn ends well.
func (m *model) endRun() {
	if w := m.lastAccepted(); m.agent.Trigger == pipeline.TriggerGateway && w != nil && w.ended.IsZero() {
		w.ended = m.tick()
		m.say("the turn %s ends", w.key)
		if id, err := m.store.TaskOfWake(context.Background(), w.key); err == nil {
			m.do(core.Command{By: by(), Task: id, Do: core.EndStart{Key: w.key, Outcome: core.OutcomeOK}})
		}
		m.excuse(w)
		return
	}
	if m.child == nil {
		return
	}
	m.child.Release()
	m.child = nil
	noted := m.rng.IntN(3) > 0
	m.say("its process ends, noted: %v", noted)
	if !noted {
		return
	}
	if id, err := m.store.TaskOfWake(context.Background(), m.childKey); err == nil {
		m.do(core.Command{By: by(), Task: id, Do: core.EndStart{Key: m.childKey, Process: true, Detail: "exit 0", ExitCode: new(int)}})
	}
}

// pass hands pending tasks out again, and is the waking part of a pass.
func (m *model) pass() {
	for _, t := range m.tasks(isPending) {
		if t.Ready(m.now) {
			m.handOut(t.ID)
		}
	}
	p := waking{run: newRun(m.d)}
	p.byName = map[string][]*core.Task{"a": m.tasks(func(*core.Task) bool { return true })}
	m.say("pass")
	if err := p.wake(m.Context()); err != nil {
		m.wrong("pass: %v", err)
	}
	for _, reason := range sentences(slices.Concat(p.report.Failed, p.report.NeedsPerson), m.now) {
		m.say("  %s", reason)
	}
	m.checkKeys()
	m.checkQueue()
}

// checkQueue checks that after a pass at most one task that nobody took is assigned.
func (m *model) checkQueue() {
	assigned := m.tasks(func(t *core.Task) bool { return t.Waiting() && !t.Queued() })
	if len(assigned) > 1 {
		m.wrong("%v are assigned at once", idsOf(assigned))
	}
}

// checkKeys checks that no key was used for two wakes.
func (m *model) checkKeys() {
	seen := map[string]bool{}
	all, err := m.store.Tasks(context.Background(), core.Filter{})
	if err != nil {
		m.Fatal(err)
	}
	for _, t := range all {
		for _, w := range t.Wakes {
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
	if m.mood == "refused" {
		w.refused = m.now
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
	if m.child != nil {
		m.wrong("%s: it is started beside itself", w.key)
	}
	switch m.mood {
	case "refused", "down":
		return fmt.Errorf("%w: not started", ErrRefused)
	case "lost":
		w.queued = true
		return ErrLost
	}
	child, err := lock.Acquire(context.Background(), execLock(m.dir, "a"), time.Minute)
	if err != nil {
		m.Fatal(err)
	}
	w.queued, m.child, m.childKey = true, child, w.key
	m.fruitless = append(m.fruitless, m.now)
	if m.mood == "queued" {
		return ErrLost
	}
	w.accepted = m.now
	return nil
}

// excuse forgets a wake without progress if its turn ended well, and was for a task that the
// agent has.
func (m *model) excuse(w *sent) {
	for _, t := range m.tasks((*core.Task).AtWork) {
		if n := len(m.fruitless); n > 0 && slices.Contains(w.names, t.ID) {
			m.fruitless = m.fruitless[:n-1]
			return
		}
	}
}

// lastAccepted is the last wake that was accepted; nil: none was.
func (m *model) lastAccepted() *sent {
	for _, w := range slices.Backward(m.wakes) {
		if !w.accepted.IsZero() {
			return w
		}
	}
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
		case exec && m.child == nil, !w.ended.IsZero():
		case !w.accepted.IsZero() && m.now.Sub(w.accepted) < askAfter(&m.d.Times):
			m.wrong("%s is sent while %s is outstanding", r.Key, w.key)
		case w.accepted.IsZero() && m.now.Sub(w.first) < answerWait:
			m.wrong("%s is sent while the answer to %s is awaited", r.Key, w.key)
		}
	}
	atWork := m.tasks((*core.Task).AtWork)
	if len(atWork) > 0 && m.child != nil {
		m.wrong("%s is sent while its process works on a task", r.Key)
	}
	work := append(m.tasks((*core.Task).Waiting), atWork...)
	ByPriority(work)
	if len(work) == 0 {
		m.wrong("%s is sent though nothing waits", r.Key)
	}
	for _, id := range named(r.Message) {
		if !slices.ContainsFunc(work, func(r *core.Task) bool { return r.ID == id }) {
			m.wrong("%s names %v, there is %v", r.Key, id, idsOf(work))
		}
		if i := slices.IndexFunc(atWork, func(r *core.Task) bool { return r.ID == id }); i >= 0 {
			m.checkContinue(r, atWork[i])
		}
	}
	for _, w := range m.tasks((*core.Task).Waiting)[:min(len(m.tasks((*core.Task).Waiting)), maxNamed)] {
		if len(work) <= maxNamed && !slices.Contains(named(r.Message), w.ID) {
			m.wrong("%s does not name %v, which waits", r.Key, w.ID)
		}
	}
	m.checkPause(r)
}

// checkContinue checks that the agent is woken for a task that it has only after a turn that
// ended ten minutes ago, and so long after its last report; or after an hour of silence.
func (m *model) checkContinue(r Request, t *core.Task) {
	w, h := m.lastAccepted(), t.HeardOf("a")
	if m.jumps || m.agent.Trigger != pipeline.TriggerGateway || m.now.Sub(h.At) >= time.Hour {
		return
	}
	if w == nil || w.ended.IsZero() || m.now.Sub(w.ended) < continueAfter || m.now.Sub(h.Reported) < continueAfter {
		m.wrong("%s is sent for %v, on which the agent may be at work", r.Key, t.ID)
	}
}

// pausesOfRuns are the pauses after runs in a row without progress.
var pausesOfRuns = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute}

// checkPause checks that each wake without progress makes the pause longer.
func (m *model) checkPause(r Request) {
	if n := len(m.fruitless); n > 0 && !m.jumps {
		pause := pausesOfRuns[min(n, len(pausesOfRuns))-1]
		if n >= m.d.Times.RewakeMax {
			pause = core.ProbeEvery
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
	case !w.refused.IsZero() && !w.queued && m.now.Sub(w.refused) < 10*time.Second && !m.jumps:
		m.wrong("%s is sent again %v after it was refused", w.key, m.now.Sub(w.refused))
	case w.queued && m.now.Sub(w.first) >= answerWait+time.Minute && !m.jumps:
		m.wrong("%s is sent again %v after it was queued: the gateway has forgotten it", w.key, m.now.Sub(w.first))
	}
}

// Ended implements Waker.
func (m *model) Ended(_ context.Context, _ *pipeline.Agent, key string) (core.EndStart, bool, error) {
	if m.mood == "down" {
		return core.EndStart{}, false, fmt.Errorf("connection refused")
	}
	ended := m.agent.Trigger == pipeline.TriggerExec || m.rng.IntN(2) == 0
	if i := slices.IndexFunc(m.wakes, func(w *sent) bool { return w.key == key }); i >= 0 && ended {
		m.wakes[i].ended = m.now
		if m.agent.Trigger == pipeline.TriggerGateway {
			m.excuse(m.wakes[i])
		}
	}
	m.say("  asked for %s, ended: %v", key, ended)
	return core.EndStart{Key: key, Outcome: core.OutcomeOK}, ended, nil
}

// Ready implements Waker.
func (m *model) Ready(context.Context, *pipeline.Agent) error { return nil }

// heal ends all trouble, and checks that the agent is woken for each waiting task,
// takes it and ends it.
func (m *model) heal() {
	m.say("all is well")
	m.mood = "ok"
	finishAll := func() {
		for len(m.tasks((*core.Task).AtWork)) > 0 {
			m.finish()
		}
	}
	for round := range 300 {
		finishAll()
		m.endRun()
		before := len(m.wakes)
		m.wait(time.Minute)
		m.pass()
		waiting := append(m.tasks((*core.Task).Waiting), m.tasks(isPending)...)
		if len(waiting) == 0 {
			return
		}
		switch {
		case len(m.wakes) > before: // it is woken, and does what it was told
			for len(m.tasks((*core.Task).Waiting)) > 0 {
				m.take()
				finishAll()
			}
		case round == 299:
			m.wrong("%v waits for ever", idsOf(waiting))
		}
	}
}
