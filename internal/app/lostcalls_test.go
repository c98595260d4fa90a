package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"otm/dispatch"
	"otm/dispatch/gateway/gatewaytest"
	"otm/internal/board/boardtest"
	"otm/internal/cli"
	"otm/internal/crash/crashtest"
	"otm/pipeline"
)

// outsideCall is one kind of call to something that is not ours.
type outsideCall struct {
	name   string
	way    pipeline.Trigger  // how the agent is woken in the lives that make it; "": not at all
	made   func(l *life) int // how often a life made it
	most   int               // of so many, each is let fail; 0: of those that a plain life makes
	faults []outsideFault    // how it fails
	with   string            // a plain run lets it fail in one life with others that say the same; "": with none
}

// outsideFault is one way in which a call fails. again: what comes after it
// fails in other ways.
type outsideFault struct {
	name string
	set  func(l *life, nth int, again bool)
}

// lost is one case: a call that fails.
type lost struct {
	call  *outsideCall
	nth   int // from 0
	fault outsideFault
	again bool
}

func (c lost) String() string {
	return fmt.Sprintf("%s %d %s again %t", c.call.name, c.nth+1, c.fault.name, c.again)
}

// lostCases are all cases of the calls, a life each; or, where not the whole is
// wanted, one of each call and each way to fail, several in one life.
func lostCases(t *testing.T, plain map[pipeline.Trigger]*life, whole bool) (lives [][]lost, all int) {
	t.Helper()
	shared := map[string]int{} // lives by what the calls in them say
	for i, c := range outsideCalls(plain[pipeline.TriggerNone]) {
		times := cmp.Or(c.most, c.made(plain[c.trigger()]))
		if times == 0 {
			t.Errorf("a life makes no call of %s", c.name)
			continue
		}
		all += times * len(c.faults) * 2
		for j, f := range c.faults {
			if whole {
				for nth := range times {
					lives = append(lives, []lost{{&c, nth, f, false}}, []lost{{&c, nth, f, true}})
				}
				continue
			}
			some := times
			if c.with != "" {
				some = max(1, times-2) // with other failures, there may be less of it
			}
			one := lost{&c, (5*i + 3*j) % some, f, (i+j)%2 == 0}
			key := fmt.Sprint(c.with, j)
			if at, ok := shared[key]; ok && c.with != "" {
				one.again = one.again && !slices.ContainsFunc(lives[at], func(o lost) bool { return o.again })
				lives[at] = append(lives[at], one)
				continue
			}
			shared[key] = len(lives)
			lives = append(lives, []lost{one})
		}
	}
	return lives, all
}

// trigger is how the agent is woken in the lives that make it.
func (c *outsideCall) trigger() pipeline.Trigger { return cmp.Or(c.way, pipeline.TriggerNone) }

// outsideCalls are all calls. There is none of chat.postMessage: no component
// makes one.
func outsideCalls(plain *life) []outsideCall {
	calls := []outsideCall{
		boardCall("create row", "slackLists.items.create", 0, 1).together("making and deleting"),
		boardCall("create step", "slackLists.items.create", 1, 0),
		boardCall("update cells", "slackLists.items.update", 0, 0),
		boardCall("list page", "slackLists.items.list", 0, 0).together("looking"),
		boardCall("delete rows", "slackLists.items.deleteMultiple", 0, 0).together("making and deleting"),
		infoCall().together("looking"),
		boardCall("who we are", "auth.test", 0, 0).together("looking"),
		gatewayCall(),
		execCall(),
	}
	const lives = 24 // for steps on files, those with like names far from each other
	for i, step := range slices.Sorted(maps.Keys(plain.disk.counts())) {
		calls = append(calls, fileCall(step).together(fmt.Sprint("files ", i%lives)))
	}
	return calls
}

func (c outsideCall) together(with string) outsideCall {
	c.with = with
	return c
}

// boardCall is a method of the board, from its first call on that is meant, and
// most of them; 0: all.
func boardCall(name, method string, first, most int) outsideCall {
	c := outsideCall{name: name}
	c.made = func(l *life) int {
		n := -first
		for _, call := range l.b.Faults.Calls() {
			if call.Method == method {
				n++
			}
		}
		if most > 0 {
			n = min(n, most)
		}
		return n
	}
	for _, make := range boardFaults(method) {
		c.faults = append(c.faults, outsideFault{make(nil).Name, func(l *life, nth int, again bool) {
			faults := append(slices.Repeat([]boardtest.Fault{boardtest.Pass()}, first+nth), make(l))
			if again {
				faults = append(faults, boardtest.RateLimited("3"), boardtest.Status(500), boardtest.HTML())
			}
			l.b.Faults.Next(method, faults...)
		}})
	}
	return c
}

// infoCall asks for the list's columns, as is done where a page of rows comes
// without them.
func infoCall() outsideCall {
	c := boardCall("info", "files.info", 0, 0)
	c.most = 1 // a plain life makes none; what was answered once is kept
	for i, f := range c.faults {
		c.faults[i].set = func(l *life, nth int, again bool) {
			l.b.Server.SetQuirks(boardtest.Quirks{IgnoreIncludeList: true})
			f.set(l, nth, again)
		}
	}
	return c
}

// boardFaults are the ways in which a call to the board fails.
func boardFaults(method string) []func(l *life) boardtest.Fault {
	var faults []func(*life) boardtest.Fault
	add := func(more ...boardtest.Fault) {
		for _, f := range more {
			faults = append(faults, func(*life) boardtest.Fault { return f })
		}
	}
	add(boardtest.Reset(), boardtest.Status(500), boardtest.NoError(), boardtest.HTML(), boardtest.RateLimited("1"))
	switch method {
	case "slackLists.items.list", "files.info", "auth.test":
		add(boardtest.Truncated(), boardtest.ErrorCode("internal_error"))
		return faults
	case "slackLists.items.create":
		faults = append(faults, hiddenRow)
	case "slackLists.items.update", "slackLists.items.deleteMultiple":
		faults = append(faults, hiddenChange)
	}
	add(boardtest.ApplyThenReset(), boardtest.ApplyThenStatus(502), boardtest.ApplyThenHalf(), boardtest.ApplyThenError("internal_error"))
	return faults
}

// hiddenRow makes a row, says nothing, and does not show it for a while.
func hiddenRow(l *life) boardtest.Fault {
	f := boardtest.Pick(func(string) boardtest.Fault {
		l.hide(l.b.Faults.Reveal)
		return boardtest.ApplyAndHide(0)
	})
	f.Name = "apply, unseen"
	return f
}

// hiddenChange changes rows, says nothing, and shows for a while how they were.
func hiddenChange(l *life) boardtest.Fault {
	f := boardtest.Pick(func(string) boardtest.Fault {
		page, err := json.Marshal(l.b.Must(l, "slackLists.items.list", map[string]any{"list_id": l.b.ListID, "limit": 1000, "include_list": true}))
		if err != nil {
			l.Error(err)
		}
		l.hide(l.b.Faults.Always("slackLists.items.list", boardtest.Body("stale page", string(page))))
		return boardtest.ApplyThenReset()
	})
	f.Name = "apply, unseen"
	return f
}

// gatewayCall is the request to the gateway to wake the agent.
func gatewayCall() outsideCall {
	c := outsideCall{name: "gateway request", way: pipeline.TriggerGateway, made: func(l *life) int { return len(l.g.Runs()) }}
	for _, fault := range []gatewaytest.Fault{
		gatewaytest.DropUnqueued, gatewaytest.DropUnqueued.By(gatewaytest.CutReset), gatewaytest.Unavailable, // not applied
		gatewaytest.DropQueued, gatewaytest.DropExecuted, gatewaytest.AcceptDropBefore, // applied
	} {
		c.faults = append(c.faults, outsideFault{fault.String(), func(l *life, nth int, again bool) {
			l.g.Inject(append(slices.Repeat([]gatewaytest.Fault{gatewaytest.None}, nth), fault)...)
			if again {
				l.g.Inject(gatewaytest.DropQueued.By(1012), gatewaytest.Unavailable)
			}
		}})
	}
	// Applied, and nothing is to be seen of the gateway for a while.
	c.faults = append(c.faults, outsideFault{"DropQueued, unseen", func(l *life, nth int, again bool) {
		if nth == 0 { // else those that dial would meet it before
			l.g.InjectDial(gatewaytest.DialReset(), gatewaytest.DialFault{}, gatewaytest.DialStatus(503), gatewaytest.DialStarting(), gatewaytest.DialCut(1012, "service restart"))
		}
		l.g.Inject(append(slices.Repeat([]gatewaytest.Fault{gatewaytest.None}, nth), gatewaytest.DropQueued)...)
		if again {
			l.g.Inject(gatewaytest.Unavailable)
		}
	}})
	return c
}

// What befalls helpers that start agents, in the order of their starts, stands
// in execFaults, a word a line; muteFile is there once one has met "mute".
const (
	execFaults = "exec-faults"
	muteFile   = "mute"
)

// execCall is the start of the agent's process. What was started holds a lock
// from then on, so there is no time in which it is not visible.
func execCall() outsideCall {
	c := outsideCall{name: "exec", way: pipeline.TriggerExec, made: func(l *life) int { return l.woken() }}
	for _, word := range []string{"dies", "mute"} {
		c.faults = append(c.faults, outsideFault{word, func(l *life, nth int, again bool) {
			words := append(slices.Repeat([]string{"well"}, nth), word)
			if again {
				words = append(words, "dies", "dies")
			}
			put(l, filepath.Join(l.root, execFaults), strings.Join(words, "\n")+"\n")
		}})
	}
	return c
}

func init() {
	if len(os.Args) == 2 && os.Args[1] == dispatch.HelperCommand {
		os.Exit(spoiltHelper())
	}
}

// spoiltHelper is the helper that starts an agent, and what befalls it.
func spoiltHelper() int {
	path := filepath.Join("..", execFaults) // we are in the data directory
	data, _ := os.ReadFile(path)
	word, rest, _ := strings.Cut(string(data), "\n")
	os.WriteFile(path, []byte(rest), 0o600)
	s := cli.OSStreams()
	switch word {
	case "dies": // it started nothing
		return 1
	case "mute": // it starts the agent, and nobody hears of it
		s.Out = io.Discard
		os.WriteFile(filepath.Join("..", muteFile), nil, 0o600)
	}
	return Main(os.Args, s)
}

// disk is where the steps on the files of a life are counted, and fail.
type disk struct {
	root string

	mu   sync.Mutex
	done map[string]int // steps so far
	bad  []*badStep     // those that fail
	off  bool           // none counts or fails: the test itself looks
}

// badStep is a step that fails.
type badStep struct {
	at   string
	left int     // at its so-manieth time
	errs []error // and then the steps that follow, with these; empty: none fails any more
}

// rest has the disk be well until the returned function is called.
func (d *disk) rest() (on func()) {
	set := func(off bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.off = off
	}
	set(true)
	return func() { set(false) }
}

func diskAt(t *testing.T, root string) *disk {
	d := &disk{root: root, done: map[string]int{}}
	crashtest.Below(t, root, func(step, path string) error {
		return d.step(step, strings.TrimPrefix(path, root+string(filepath.Separator)))
	})
	return d
}

// digits are what differs between the files of one kind.
var digits = regexp.MustCompile(`(taken-|dispatch-|[0-9])[^/]*`)

func (d *disk) step(step, rel string) error {
	kind := step + " " + digits.ReplaceAllString(strings.TrimPrefix(rel, "data/"), "N")
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return nil
	}
	d.done[kind]++
	var err error
	for _, b := range d.bad {
		if kind == b.at {
			b.left--
		}
		if b.left <= 0 && len(b.errs) > 0 && err == nil {
			err, b.errs = b.errs[0], b.errs[1:]
		}
	}
	return err
}

func (d *disk) counts() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.done)
}

// fileCall is a step on the files of one kind: one is not looked at, read, opened
// or removed; before it has its name (up to "rename") it is not there, after it
// ("renamed", "sync directory") it is, and its writer is told that it failed. A
// local disk shows at once what it did.
func fileCall(step string) outsideCall {
	c := outsideCall{name: step, made: func(l *life) int { return min(l.disk.counts()[step], 12) }}
	c.faults = []outsideFault{{"fails", func(l *life, nth int, again bool) {
		l.mayFail = true
		errs := []error{syscall.EIO}
		if again {
			errs = append(errs, syscall.ENOSPC, syscall.EROFS, syscall.EDQUOT)
		}
		l.disk.mu.Lock()
		defer l.disk.mu.Unlock()
		clear(l.disk.done)
		l.disk.bad = append(l.disk.bad, &badStep{step, nth + 1, errs})
	}}}
	return c
}
