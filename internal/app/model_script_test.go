package app

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"otm/internal/board/boardtest"
	"otm/internal/crash"
	"otm/pipeline"
)

// act is something that is done in a script. What it needs it names by numbers
// and words, so that a script can be cut anywhere: an act that finds nothing to
// do does nothing.
type act struct {
	what   string   // see script
	who    string   // the agent
	task   int      // which one, in the order of the creates
	n      int      // how many, or how many seconds
	how    string   // in which way
	crash  string   // where it is killed; "": it is not
	hit    int      // the how manieth time that it comes there
	faults []string // what becomes of the calls, see calls
}

func (a act) String() string {
	s := map[string]string{
		"create":  fmt.Sprintf("task %d is created for %s, with %d steps", a.task, a.who, a.n),
		"again":   fmt.Sprintf("the create of task %d is dropped again", a.task),
		"sweep":   "the injector sweeps",
		"pass":    "the dispatcher passes",
		"detect":  "the detector passes",
		"next":    a.who + " calls otm next",
		"report":  fmt.Sprintf("%s reports: %s", a.who, a.how),
		"wait":    fmt.Sprintf("%v pass", time.Duration(a.n)*time.Second),
		"person":  fmt.Sprintf("a person: task %d, %s", a.task, a.how),
		"file":    fmt.Sprintf("the dispatch file of %s: %s", a.who, a.how),
		"archive": "otm archive",
		"lose":    "lost is " + a.how,
		"dies":    fmt.Sprintf("the process of %s ends without a result%s", a.who, a.how),
		"pause":   "a person pauses " + a.who,
		"resume":  "a person resumes " + a.who,
		"review":  fmt.Sprintf("%s reviews task %d: %s", a.who, a.task, a.how),
	}[a.what]
	if a.what == "sweep" || a.what == "pass" || a.what == "detect" {
		s += " (" + a.how + ")"
	}
	if a.crash != "" {
		s += fmt.Sprintf(", killed at %s:%d", a.crash, a.hit)
	}
	if len(a.faults) > 0 {
		s += "; the board: " + strings.Join(a.faults, ", ")
	}
	return s
}

// Who there is. alpha and beta share a workspace; olga is a person.
var cast = []string{"alpha", "beta", "gamma"}

// Where each may be killed. Not where the counter is put right: its lock would
// outlive the goroutine that holds it.
var (
	storePoints = []string{"store.done", "differ.done", "outbox.leased", "outbox.delivered", "snapshot.before", "snapshot.after"}
	boardPoints = append([]string{"create.before", "create.after", "create.after", "update.before", "update.after", "board.made", "board.stepped",
		"board.updated", "board.noted"}, storePoints...)
	pointsOf = map[string][]string{
		"create":  {"publish.before", "publish.after"},
		"sweep":   append([]string{"inject.done", "inject.delivered", "settle.copied", "settle.unlinking", "settle.taken", "settle.unlinked"}, boardPoints...),
		"pass":    append([]string{"dispatch.entered", "dispatch.flipped", "dispatch.file.before", "dispatch.file.after"}, boardPoints...),
		"detect":  append([]string{"update.before", "update.after", "board.updated", "board.noted"}, storePoints...),
		"next":    {"next.picked", "next.noted", "dispatch.file.before", "dispatch.file.after", "store.done", "outbox.leased", "outbox.delivered"},
		"archive": {"archive.marked", "archive.deleted", "delete.before", "delete.after", "board.deleted", "board.noted", "store.done", "outbox.leased", "snapshot.after"},
	}
)

// What may become of a call.
var calls = map[string]func() boardtest.Fault{
	"ok":               boardtest.Pass,
	"reset":            boardtest.Reset,
	"503":              func() boardtest.Fault { return boardtest.Status(503) },
	"429":              func() boardtest.Fault { return boardtest.RateLimited("30") },
	"internal_error":   func() boardtest.Fault { return boardtest.ErrorCode("internal_error") },
	"done, reset":      boardtest.ApplyThenReset,
	"done, 502":        func() boardtest.Fault { return boardtest.ApplyThenStatus(502) },
	"done, error":      func() boardtest.Fault { return boardtest.ApplyThenError("internal_error") },
	"done, half a say": boardtest.ApplyThenHalf,
	"cut off":          boardtest.Truncated,
}

var callNames = []string{"ok", "ok", "ok", "ok", "reset", "503", "429", "internal_error", "done, reset", "done, 502", "done, error", "done, half a say", "cut off"}

var personActs = []string{
	"done", "done", "cancelled", "pending", "new", "new", "assigned", "in_progress", "given to beta", "given to gamma", "given to olga", "given to queue", "id cleared", "row deleted",
	"step added", "step deleted", "step ticked", "step opened", "renamed", "row typed", "critical", "blocked", "dormant", "failed", "rejected",
}

// reviews are what reviewers decide.
var reviews = []string{"accept", "accept", "reject", "rework", "requeue", "cancel"}

// leftover is how a process ends whose child goes on.
const leftover = ", and what it started goes on"

// script makes up a script.
func script(seed uint64) []act {
	random := rand.New(rand.NewPCG(seed, 2))
	one := func(list []string) string { return list[random.IntN(len(list))] }
	var acts []act
	tasks := 0
	add := func(a act) {
		if points := pointsOf[a.what]; points != nil && random.IntN(6) == 0 {
			a.crash, a.hit = one(points), 1+random.IntN(2)
		}
		if (a.what == "sweep" || a.what == "pass" || a.what == "detect" || a.what == "archive") && random.IntN(5) == 0 {
			for range 1 + random.IntN(5) {
				a.faults = append(a.faults, one(callNames))
			}
		}
		acts = append(acts, a)
	}
	why := func() string { return one([]string{"timely", "hinted"}) }
	for range 40 + random.IntN(60) {
		switch n := random.IntN(112); {
		case n < 12:
			tasks++
			who := one(cast)
			switch n := random.IntN(10); {
			case n == 0:
				who = "olga"
			case n < 4:
				who = pipeline.SharedQueue
			}
			add(act{what: "create", who: who, task: tasks, n: 1 + random.IntN(3)})
		case n < 28:
			add(act{what: "sweep", how: why()})
		case n < 40:
			add(act{what: "pass", how: why()})
		case n < 46:
			add(act{what: "detect", how: why()})
		case n < 56:
			add(act{what: "next", who: one(cast)})
		case n < 70:
			add(act{what: "report", who: one(cast), how: one([]string{"a step", "a step", "all", "all", "done as it is", "blocked", "a note", "failed", "given up"})})
		case n < 79:
			seconds := []int{1, 6, 20, 70, 310, 1000}
			add(act{what: "wait", n: seconds[random.IntN(len(seconds))]})
		case n < 90 && tasks > 0:
			add(act{what: "person", task: 1 + random.IntN(tasks), how: one(personActs)})
		case n < 93:
			add(act{what: "file", who: one(cast), how: one([]string{"an entry goes", "an entry is picked", "no entry is picked", "garbage", "gone"})})
		case n < 95:
			add(act{what: "archive"})
		case n < 97 && tasks > 0:
			add(act{what: "again", task: 1 + random.IntN(tasks)})
		case n < 98:
			add(act{what: "lose", how: "the counter"})
		case n < 99 && tasks > 0:
			add(act{what: "lose", task: 1 + random.IntN(tasks), how: "a rendering"})
		case n < 104:
			add(act{what: "dies", who: one(cast), how: one([]string{"", "", leftover})})
		case n < 108 && tasks > 0:
			add(act{what: "review", who: one(cast), task: 1 + random.IntN(tasks), how: one(reviews)})
		case n < 110:
			add(act{what: "pause", who: one(cast)})
		case n < 112:
			add(act{what: "resume", who: one(cast)})
		}
	}
	return acts
}

// mortality kills what an act does, as far as that can be done within a
// process: its goroutine ends at the point, and what it would still do on its
// way out comes to an end at its next point.
var mortality reaper

type reaper struct {
	point string // "": nobody dies
	left  int
	dead  atomic.Bool
}

// arm installs the hook, and returns what takes it away.
func (r *reaper) arm() func() {
	crash.Hook = r.visit
	return func() { crash.Hook = nil }
}

func (r *reaper) visit(point string) {
	if strings.HasPrefix(point, "sqlite.") || strings.HasPrefix(point, "durable.") {
		return // the board's own, or one of a goroutine that commits for all
	}
	if !r.dead.Load() && point == r.point {
		if r.left--; r.left == 0 {
			r.dead.Store(true)
		}
	}
	if r.dead.Load() {
		runtime.Goexit()
	}
}

// run runs f in a goroutine that may die, and says whether it did.
func (r *reaper) run(a act, f func()) (died bool) {
	r.point, r.left = a.crash, a.hit
	r.dead.Store(false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
	died = r.dead.Load()
	r.point = ""
	r.dead.Store(false)
	return died
}
