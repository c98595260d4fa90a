package view

import (
	"errors"
	"testing"
	"time"

	"otm/heartbeat"
	"otm/internal/explain"
)

// TestC18OneJudgement: the age of a heartbeat and what it says make one word. A
// component that cron runs is not ended while it is not late.
func TestC18OneJudgement(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	timed, residents := Runner{}, Runner{Installed: true}
	for _, tt := range []struct {
		name    string
		id      string
		age     time.Duration
		runner  Runner
		result  heartbeat.Result
		want    heartbeat.State
		problem explain.Code
	}{
		{"well", heartbeat.Injector, time.Second, timed, heartbeat.Success, heartbeat.Green, ""},
		{"a run with failures", heartbeat.Injector, time.Second, timed, heartbeat.Partial, heartbeat.Yellow, explain.RunNote},
		{"a run that failed", heartbeat.Injector, time.Second, timed, heartbeat.Error, heartbeat.Red, explain.ComponentFailing},
		{"very late", heartbeat.Injector, 16 * time.Minute, timed, heartbeat.Success, heartbeat.Red, explain.ComponentLate},
		{"ahead of the clock", heartbeat.Injector, -time.Minute, timed, heartbeat.Success, heartbeat.ClockError, explain.ComponentAhead},
		{"a resident that is late", heartbeat.Injector, 9 * time.Minute, residents, heartbeat.Success, heartbeat.Yellow, explain.ComponentLate},
		{"late", heartbeat.Dispatcher, 9 * time.Minute, timed, heartbeat.Success, heartbeat.Yellow, explain.ComponentLate},
		{"a resident that ended", heartbeat.Dispatcher, time.Second, residents, heartbeat.Success, heartbeat.Red, explain.ComponentEnded},
	} {
		b := &heartbeat.Beat{LastRun: now.Add(-tt.age), Result: tt.result}
		c := Component{ID: tt.id, Beat: b, State: heartbeat.Judge(b, now)}
		c.judge(Sources{Now: now, Runner: tt.runner}, 0, 0)
		code := explain.Code("")
		if c.Problem != nil {
			code = c.Problem.Code
		} else if len(c.Found) > 0 {
			code = c.Found[0].Code
		}
		if c.Health != tt.want || code != tt.problem || (c.Health == heartbeat.Green) != (code == "") {
			t.Errorf("%s: %q with %q, want %q with %q", tt.name, c.Health, code, tt.want, tt.problem)
		}
	}
	// Where other programs run, otm up is refused: the step starts the one that does not.
	for others, want := range map[bool]string{false: "otm up", true: "otm-injector"} {
		c := Component{ID: heartbeat.Watcher, State: heartbeat.NotInstalled}
		c.judge(Sources{Now: now, Runner: Runner{Start: "otm up", Others: others}}, 0, 0)
		if next := c.Problem.Next(now); next != want {
			t.Errorf("the step beside others, %v: %q, want %q", others, next, want)
		}
	}
	// Of a late component whose process stays, another one cannot be started. On a full disk it
	// runs and cannot beat.
	full := explain.New(explain.DiskTakesNothing, "error", "no room")
	late := &heartbeat.Beat{LastRun: now.Add(-9 * time.Minute), Result: heartbeat.Success}
	for _, disk := range []*explain.Finding{nil, &full} {
		c := Component{ID: heartbeat.Injector, Beat: late, State: heartbeat.Yellow, Resident: true}
		c.judge(Sources{Now: now, Runner: Runner{Start: "otm up", Others: true}, Disk: disk}, 7, 7)
		if disk != nil && c.Problem != nil || disk == nil && (c.Problem == nil || c.Problem.Next(now) != "kill -CONT 7") || c.Health != heartbeat.Yellow {
			t.Errorf("a late resident, disk %v: %s with %v", disk, c.Health, c.Problem)
		}
	}
	// What the dispatcher reports of an agent is the agent's problem, and not its own.
	for _, tt := range []struct {
		found explain.Finding
		want  heartbeat.State
	}{
		{explain.New(explain.AgentLeftAlone, "agent", "a"), heartbeat.Green},
		{explain.New(explain.WakeFailed, "agent", "a"), heartbeat.Green},
		{explain.New(explain.TaskNoAgent, "name", "x").On(1), heartbeat.Yellow},
		{explain.New(explain.RateLimited), heartbeat.Yellow},
		{explain.New(explain.RateLimited, "until", now.Add(-time.Second)), heartbeat.Green}, // it is over
	} {
		b := &heartbeat.Beat{LastRun: now, Result: heartbeat.Partial, Findings: []explain.Finding{tt.found}}
		c := Component{ID: heartbeat.Dispatcher, Beat: b, State: heartbeat.Green}
		if c.judge(Sources{Now: now, Runner: timed}, 0, 0); c.Health != tt.want || c.Problem != nil {
			t.Errorf("%s: %q with %v, want %q", tt.found.Code, c.Health, c.Problem, tt.want)
		}
	}
	c := Component{ID: heartbeat.Injector, Err: errors.New("no"), State: heartbeat.Red}
	if c.judge(Sources{Now: now}, 0, 0); c.Health != heartbeat.Red || c.Problem.Code != explain.ComponentUnknown {
		t.Errorf("a heartbeat that cannot be read: %+v", c)
	}
}
