package view

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
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
	// and what the last run said. Green only if there is no Problem and no Found,
	// and the component has read the present otm.toml.
	Health heartbeat.State
	// Problem is what is wrong with the component itself; nil: nothing is.
	Problem *explain.Finding
	// Found is what its last run reported of tasks, rows and the board, without
	// what a view judges anew: agents, workspaces, otm.toml.
	Found []explain.Finding
	// OldConfig reports whether otm.toml was changed since its process started.
	OldConfig bool
	// BrokenConfig is why the present otm.toml cannot be read; nil: it can, or nobody said.
	BrokenConfig *explain.Finding
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
		path := heartbeat.ResidentLock(s.Dir, id)
		var pid int
		pid, c.Resident = lock.Holder(path)
		if c.Resident && b != nil && b.PID == pid && b.Config != "" && s.Config != "" {
			c.OldConfig = b.Config != s.Config
		}
		c.judge(s, lock.LastHolder(path), pid)
		all = append(all, c)
	}
	return all
}

// judge decides how the component is. lastPID is the process that last stayed
// for it; 0: none did. pid stays for it now, if it is resident.
func (c *Component) judge(s Sources, lastPID, pid int) {
	c.Health = c.State
	about := func(code explain.Code, args ...any) {
		program := c.ID
		if program == heartbeat.Watcher {
			program = heartbeat.Injector // it is a part of that
		}
		c.Problem = new(explain.New(code, append([]any{"component", c.ID, "start", s.Runner.StartOf(program)}, args...)...))
	}
	b := c.Beat
	switch {
	case c.Err != nil:
		c.Health = heartbeat.Red
		about(explain.ComponentUnknown, "error", c.Err, "path", heartbeat.Path(s.Dir, c.ID))
	case c.State == heartbeat.NotInstalled:
		about(explain.ComponentNever)
	case c.State == heartbeat.ClockError:
		about(explain.ComponentAhead, "at", b.LastRun)
	case c.State != heartbeat.Green && c.Resident && s.Disk != nil: // which is why it does not beat
	case c.State != heartbeat.Green && c.Resident && !s.Runner.Installed: // nobody restarts it, and another one is refused
		about(explain.ComponentStands, "at", b.LastRun, "pid", pid)
	case c.State != heartbeat.Green:
		about(explain.ComponentLate, "at", b.LastRun)
	case !c.Resident && !mayBeTimed(s.Runner, b, lastPID):
		c.Health = heartbeat.Red
		about(explain.ComponentEnded, "at", b.LastRun)
	default:
		c.judgeResult(s, about)
	}
}

// judgeResult judges what the last run said. Where the heartbeat holds findings,
// they say all of it; its text is frozen and may repeat what stands elsewhere.
func (c *Component) judgeResult(s Sources, about func(explain.Code, ...any)) {
	b := c.Beat
	c.Health = heartbeat.Green
	failed := func(details, cause string) {
		about(explain.ComponentFailing, "at", b.LastRun, "details", details, "log", filepath.Join(s.LogDir, heartbeat.Log(c.ID)), "cause", cause)
	}
	for _, f := range b.Findings {
		switch f.Code {
		case explain.ConfigChanged:
			c.OldConfig = true
		case explain.ConfigBroken:
			c.OldConfig, c.BrokenConfig = true, &f
		case explain.RunTrouble:
			failed(f.Args["error"], f.Args["cause"])
		case explain.RunStuck:
			about(explain.ComponentStuck, "at", b.LastRun, "details", f.Args["error"], "next", f.Args["next"], "cause", f.Args["cause"])
		case explain.RateLimited:
			if until, err := time.Parse(time.RFC3339Nano, f.Args["until"]); err == nil && !until.After(s.Now) {
				continue
			}
			c.Found = append(c.Found, explain.New(explain.ComponentWaits, "component", c.ID, "method", f.Args["method"], "until", f.Args["until"]))
		case explain.AgentPaused, explain.AgentPausing, explain.AgentLater, explain.AgentLimited, explain.AgentLeftAlone, explain.AgentHangs,
			explain.AgentEnding, explain.AgentWillNotEnd, explain.AgentOrphan, explain.AgentStray, explain.WorkspaceMissing, explain.WorkspaceUnreadable, explain.WorkspaceNoDir, explain.WorkspaceSilent:
			// judged by AgentProblems
		default:
			c.Found = append(c.Found, f)
		}
	}
	switch { // a foreign heartbeat holds no findings
	case b.Result == heartbeat.Error && len(b.Findings) == 0:
		failed(b.Details, "")
	case b.Result == heartbeat.Partial && len(b.Findings) == 0:
		c.Found = append(c.Found, explain.New(explain.RunNote, "note", c.ID+": "+b.Details))
	}
	switch {
	case b.Result == heartbeat.Error:
		c.Health = heartbeat.Red
	case c.Problem != nil || c.OldConfig || slices.ContainsFunc(c.Found, func(f explain.Finding) bool { return agentOf(&f) == "" }):
		c.Health = heartbeat.Yellow
	}
}

// mayBeTimed reports whether a component that no process stays for may run
// again by itself, as cron makes it. What otm install wrote stays. Without that
// nobody knows; then it counts as timed unless the last process to run it stayed.
func mayBeTimed(r Runner, b *heartbeat.Beat, lastPID int) bool {
	return !r.Installed && (b.PID == 0 || b.PID != lastPID)
}

// Has reports whether the last run of the component noted a finding.
func (c *Component) Has(code explain.Code) bool {
	return c.Beat != nil && slices.ContainsFunc(c.Beat.Findings, func(f explain.Finding) bool { return f.Code == code })
}
