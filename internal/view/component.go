package view

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"otm/heartbeat"
	"otm/internal/explain"
	"otm/internal/lock"
)

// Component is how one component is.
type Component struct {
	ID       string
	Beat     *heartbeat.Beat // nil: there is none, or it could not be read
	Err      error           // why it could not be read
	Resident bool            // a process stays for it now
	// State is the heartbeat's age in the words of the contract.
	State heartbeat.State
	// Health is the one judgement that people see, in the same words: the age,
	// and what the last run said. Green only if there is no Problem.
	Health heartbeat.State
	// Problem is what is wrong with it; nil: nothing is.
	Problem *explain.Finding
}

// Expected lists the components that should run: where timers run them, no
// watcher does.
func (r Runner) Expected() []string {
	if r.Timers {
		return []string{heartbeat.Injector, heartbeat.Dispatcher, heartbeat.Detector}
	}
	return heartbeat.Components
}

// Components reads how each component is, in the order in which people read
// them.
func Components(s Sources) []Component {
	var all []Component
	for _, id := range heartbeat.Components {
		b, err := heartbeat.Read(s.Dir, id)
		c := Component{ID: id, Beat: b, State: heartbeat.Judge(b, s.Now)}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.Err, c.State = err, heartbeat.Red
		}
		path := residentPath(s.Dir, id)
		_, c.Resident = lock.Holder(path)
		c.judge(s, lock.LastHolder(path))
		all = append(all, c)
	}
	return all
}

// residentPath is the lock that the process holds that keeps a component
// running. The watcher is a part of the injector.
func residentPath(dir, id string) string {
	if id == heartbeat.Watcher {
		id = heartbeat.Injector
	}
	return filepath.Join(dir, "locks", id+".resident")
}

// timerPause is how long timers may leave the injector alone: the specification
// has its sweeper run every ten minutes, so that it is not late at five.
const timerPause = 15 * time.Minute

// judge decides how the component is. lastPID is the process that last stayed
// for it; 0: none did.
func (c *Component) judge(s Sources, lastPID int) {
	c.Health = c.State
	about := func(code explain.Code, args ...any) {
		f := explain.New(code, append([]any{"component", c.ID, "start", s.Runner.Start}, args...)...)
		c.Problem = &f
	}
	b := c.Beat
	timely := c.State == heartbeat.Green ||
		c.State == heartbeat.Yellow && c.ID == heartbeat.Injector && s.Runner.Timers && s.Now.Sub(b.LastRun) <= timerPause
	switch {
	case c.Err != nil:
		c.Health = heartbeat.Red
		about(explain.ComponentUnknown, "error", c.Err, "path", heartbeat.Path(s.Dir, c.ID))
	case c.State == heartbeat.NotInstalled:
		about(explain.ComponentNever)
	case c.State == heartbeat.ClockError:
		about(explain.ComponentAhead, "at", b.LastRun)
	case !timely:
		about(explain.ComponentLate, "at", b.LastRun)
	case !c.Resident && !mayBeTimed(s.Runner, b, lastPID):
		c.Health = heartbeat.Red
		about(explain.ComponentEnded, "at", b.LastRun)
	default:
		c.judgeResult(s, about)
	}
}

// judgeResult judges what the last run said.
func (c *Component) judgeResult(s Sources, about func(explain.Code, ...any)) {
	b := c.Beat
	c.Health = heartbeat.Green
	var code explain.Code = explain.ComponentPartial
	for _, f := range b.Findings {
		if f.Code == explain.ConfigChanged {
			code = explain.ComponentOldConfig
		}
	}
	switch b.Result {
	case heartbeat.Success:
		return
	case heartbeat.Error:
		c.Health, code = heartbeat.Red, explain.ComponentFailing
	default:
		c.Health = heartbeat.Yellow
	}
	about(code, "at", b.LastRun, "details", b.Details, "log", s.logOf(c.ID), "apply", s.Runner.Apply)
}

func (s *Sources) logOf(id string) string {
	if id == heartbeat.Watcher {
		id = heartbeat.Injector
	}
	return filepath.Join(s.LogDir, id+".log")
}

// mayBeTimed reports whether a component that no process stays for may run
// again by itself: timers start it. Without otm install nobody knows; then it
// counts as timed unless the last process to run it was one that stayed.
func mayBeTimed(r Runner, b *heartbeat.Beat, lastPID int) bool {
	if r.Installed {
		return r.Timers
	}
	return b.PID == 0 || b.PID != lastPID
}

// Has reports whether the last run of the component noted a finding.
func (c *Component) Has(code explain.Code) bool {
	if c.Beat == nil {
		return false
	}
	for _, f := range c.Beat.Findings {
		if f.Code == code {
			return true
		}
	}
	return false
}
