package dispatch

import (
	"fmt"
	"testing"
	"time"

	"otm/core"
	"otm/pipeline"
)

// minute returns a time of these tests' clock.
func minute(m float64) time.Time {
	return time.Date(2026, 3, 14, 15, 0, 0, 0, time.UTC).Add(time.Duration(m * float64(time.Minute)))
}

// recordWith returns a task that was handed out to agent a at minute 0, as the board
// shows.
func recordWith(id pipeline.TaskID, with ...func(*core.Task)) *core.Task {
	t := &core.Task{
		ID: id, RowID: "Rec", Agent: "a", Priority: pipeline.Normal, Status: pipeline.Assigned, Attempt: 1,
		Steps:    []core.Step{{ID: 1, Title: "one"}},
		Dispatch: &core.Dispatch{Attempt: 1, Agent: "a", At: minute(0), FlippedAt: minute(0)},
	}
	for _, f := range with {
		f(t)
	}
	return t
}

// hear notes that agent a did something.
func hear(t *core.Task, m float64, f func(*core.Heard)) {
	h := t.HeardOf("a")
	h.At = minute(m)
	f(&h)
	t.Heard = map[string]core.Heard{"a": h}
}

type with = func(*core.Task)

func dispatchedAt(m float64) with { return func(t *core.Task) { t.Dispatch.At = minute(m) } }

func priority(p pipeline.Priority) with { return func(t *core.Task) { t.Priority = p } }

func taken(m float64) with {
	return func(t *core.Task) {
		t.Dispatch.TakenAt = minute(m)
		hear(t, m, func(h *core.Heard) { h.Took, h.Given = minute(m), minute(m) })
	}
}

// moves is a person's change of status.
func moves(m float64, who string, s pipeline.Status) with {
	return func(t *core.Task) {
		if who == "agent a" {
			hear(t, m, func(h *core.Heard) {
				if s != pipeline.InProgress {
					h.Ended = minute(m)
				}
			})
		}
		if who != "agent a" && t.Status == pipeline.Blocked && s == pipeline.InProgress {
			t.ResumedAt = minute(m)
		}
		t.Status = s
	}
}

func ticked(m float64) with {
	return func(t *core.Task) {
		t.Steps[0].Done = true
		hear(t, m, func(h *core.Heard) { h.Progress = minute(m) })
	}
}

// wake adds a wake for this task and the named ones, sent at minute m.
func wake(m float64, change func(*core.Wake), others ...pipeline.TaskID) with {
	return func(t *core.Task) {
		w := core.Wake{
			Attempt: len(t.Wakes) + 1, Key: core.WakeKey(t.ID, "a", len(t.Wakes)+1), Agent: "a", Via: "gateway",
			Tasks: append([]pipeline.TaskID{t.ID}, others...), AskedAt: minute(m), Sent: true,
		}
		change(&w)
		t.Wakes = append(t.Wakes, w)
	}
}

func accepted(m float64) func(*core.Wake) {
	return func(w *core.Wake) { w.Accepted = minute(m) }
}

func lost(*core.Wake) {}

func unsent(w *core.Wake) { w.Sent = false }

func refused(w *core.Wake) { w.Refused = "unknown agent" }

func byExec(w *core.Wake) { w.Via, w.Accepted = "exec", w.AskedAt }

func unknown(accepted, unknown float64) func(*core.Wake) {
	return func(w *core.Wake) { w.Accepted, w.Unknown = minute(accepted), minute(unknown) }
}

func endedAt(accepted, ended float64) func(*core.Wake) {
	return func(w *core.Wake) { w.Accepted, w.Ended = minute(accepted), minute(ended) }
}

func failedAt(accepted, ended float64) func(*core.Wake) {
	return func(w *core.Wake) {
		w.Accepted, w.Ended, w.Outcome = minute(accepted), minute(ended), core.OutcomeFailed
	}
}

// reported is a report without a move.
func reported(m float64) with {
	return func(t *core.Task) { hear(t, m, func(h *core.Heard) { h.Reported = minute(m) }) }
}

// loadOf is the workload of agent a, at the gateway.
func loadOf(m float64, tasks ...*core.Task) workload {
	return workload{agent: &pipeline.Agent{Name: "a", Trigger: pipeline.TriggerGateway}, tasks: tasks, now: minute(m), times: pipeline.DefaultTimes}
}

// One case a rule of the contract's paragraph on waking, and of plan.go. B28,
// B34, B54b: what looks dead is asked for before it is started again.
func TestPlanWake(t *testing.T) {
	t.Parallel()
	type c struct {
		name    string
		now     float64
		records []*core.Task
		change  func(*situation)
		want    string // action, and of hold the minute
	}
	records := func(rs ...*core.Task) []*core.Task { return rs }
	exec := func(s *situation) { s.agent.Trigger = pipeline.TriggerExec }
	running := func(s *situation) { s.Running = true }
	notAsked := func(s *situation) { s.asked.at = time.Time{} }
	linked := func(l Link) func(*situation) {
		return func(s *situation) { s.link, s.asked = &l, question{} }
	}
	left := func(code int, failures int, next float64) func(*situation) {
		return func(s *situation) {
			s.agent.Trigger = pipeline.TriggerExec
			s.state = &core.AgentState{Agent: "a", Failures: failures, Fruitless: max(failures, 1), NextStart: minute(next), LastStart: &core.EndedStart{Key: "otm-T-00001-a-1", StartResult: core.StartResult{Ended: minute(2), Code: &code}}}
			if failures >= 3 {
				s.state.LeftAlone = minute(2)
			}
		}
	}
	cases := []c{
		// When there is nothing to do.
		{"no task", 1, nil, nil, "rest"},
		{"begun, not flipped", 1, records(recordWith(1, func(t *core.Task) { t.Dispatch.FlippedAt = time.Time{} })), nil, "rest"},
		{"never dispatched", 1, records(recordWith(1, func(t *core.Task) { t.Dispatch = nil })), nil, "rest"},
		{"taken", 1, records(recordWith(1, taken(1))), nil, "rest 61"},
		{"over", 1, records(recordWith(1, moves(1, "R1", pipeline.Cancelled))), nil, "rest"},
		{"put off by a person", 1, records(recordWith(1, moves(1, "R1", pipeline.Pending))), nil, "rest"},

		// One wake, then none while it is outstanding.
		{"waits", 1, records(recordWith(1)), nil, "send"},
		{"woken just now", 1, records(recordWith(1, wake(0, accepted(0)))), nil, "hold 3"},
		{"woken, one more came", 1, records(recordWith(1, wake(0, accepted(0))), recordWith(2, dispatchedAt(1))), nil, "hold 3"},
		{"woken, one more of a higher priority", 1, records(recordWith(1, wake(0, accepted(0))), recordWith(2, dispatchedAt(1), priority(pipeline.Critical))), nil, "hold 3"},
		{"the time counts from the acceptance", 10, records(recordWith(1, wake(0, accepted(2)))), nil, "hold 11"},
		{"another agent's wake", 1, records(recordWith(1, wake(0, accepted(0)), func(t *core.Task) { t.Wakes[0].Agent = "b" })), nil, "send"},
		{"its wake under a name in other case", 1, records(recordWith(1, wake(0, accepted(0)), func(t *core.Task) { t.Wakes[0].Agent = "A" })), nil, "hold 3"},

		// While the task that it took is unfinished.
		{"at work", 20, records(recordWith(1, wake(0, accepted(0)), taken(1)), recordWith(2, dispatchedAt(20))), nil, "hold 61"},
		{"at work, reported", 50, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(40, "agent a", pipeline.InProgress)), recordWith(2)), nil, "hold 100"},
		{"at work, its refused report is a sign of life", 50, records(recordWith(1, wake(0, accepted(0)), taken(1), func(t *core.Task) {
			hear(t, 45, func(*core.Heard) {})
		}), recordWith(2)), nil, "hold 105"},
		{"at work, woken again, still at work", 90, records(recordWith(1, taken(1), moves(85, "agent a", pipeline.InProgress), wake(62, accepted(62), 2)), recordWith(2)), nil, "hold 145"},
		{"at work, by itself, never woken", 5, records(recordWith(1, taken(1)), recordWith(2)), nil, "hold 61"},
		{"at work, a wake was refused", 5, records(recordWith(1, taken(1)), recordWith(2, wake(0, refused))), nil, "hold 61"},
		{"silent for an hour", 61, records(recordWith(1, wake(0, accepted(0)), taken(1)), recordWith(2)), nil, "send"},
		{"silent, woken since", 69, records(recordWith(1, wake(0, accepted(0)), taken(1)), recordWith(2, wake(61, accepted(61)))), nil, "hold 70"},
		{"silent with nothing else to do", 200, records(recordWith(1, wake(0, accepted(0)), taken(1))), nil, "send"},

		// After a task.
		{"just ended", 10.5, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(10, "agent a", pipeline.AgentDone)), recordWith(2)), nil, "hold 11"},
		{"just ended by its last tick", 10.5, records(recordWith(1, wake(0, accepted(0)), taken(1), ticked(10)), recordWith(2)), nil, "hold 11"},
		{"just blocked", 10.5, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(10, "agent a", pipeline.Blocked)), recordWith(2)), nil, "hold 11"},
		{"just cancelled by a person", 10.5, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(10, "R1", pipeline.Cancelled)), recordWith(2)), nil, "send"},
		{"reviewed long after its end", 30.5, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(10, "agent a", pipeline.AgentDone), moves(30, "R1", pipeline.Done)), recordWith(2)), nil, "send"},
		{"still waits after a minute", 11, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(10, "agent a", pipeline.AgentDone)), recordWith(2)), nil, "send"},
		{"looked after its task and found nothing", 10.5, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(10, "agent a", pipeline.AgentDone)), recordWith(2, dispatchedAt(10.4))),
			func(s *situation) { s.idle = idleSince(10.2) }, "send"},
		{"was idle before its task", 10.5, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(10, "agent a", pipeline.AgentDone)), recordWith(2)),
			func(s *situation) { s.idle = idleSince(-5) }, "hold 11"},
		{"ended, and sent back", 12, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(10, "agent a", pipeline.AgentDone), moves(11, "R1", pipeline.New),
			func(t *core.Task) {
				t.Attempt, t.Status = 2, pipeline.Assigned
				t.Dispatch = &core.Dispatch{Attempt: 2, Agent: "a", At: minute(11.5), FlippedAt: minute(11.5)}
			})), nil, "send"},

		// When nothing is taken.
		{"took nothing", 9, records(recordWith(1, wake(0, accepted(0)))), nil, "ask"},
		{"not acknowledged for a minute", 1, records(recordWith(1, wake(0, accepted(0)))), notAsked, "ask"},
		{"not acknowledged for three minutes, asked after one", 3, records(recordWith(1, wake(0, accepted(0)))), func(s *situation) { s.asked.at = minute(1) }, "ask"},
		{"not acknowledged, asked after three minutes", 4, records(recordWith(1, wake(0, accepted(0)))), func(s *situation) { s.asked.at = minute(3) }, "hold 9"},
		{"acknowledged: nothing is to be asked", 5, records(recordWith(1, wake(0, accepted(0)), taken(0.5))), notAsked, "rest 60.5"},
		{"not acknowledged, the gateway is away", 5, records(recordWith(1, wake(0, accepted(0)))), linked(Link{Since: minute(0.5)}), "hold 13.5"},
		{"not acknowledged, the gateway was away", 5, records(recordWith(1, wake(0, accepted(0)))), linked(Link{Up: true, Since: minute(4.75), Outages: []Outage{{minute(0.5), minute(4.75)}}}), "ask"},
		{"acknowledged, the gateway is back", 30, records(recordWith(1, wake(0, accepted(0)), taken(0.5))), linked(Link{Up: true, Since: minute(20), Outages: []Outage{{minute(10), minute(20)}}}), "ask 70.5"},
		{"silent for an hour in which the gateway was away", 65, records(recordWith(1, wake(0, accepted(0)), taken(1)), recordWith(2)), func(s *situation) {
			linked(Link{Up: true, Since: minute(20), Outages: []Outage{{minute(10), minute(20)}}})(s)
			s.asked.at = minute(20)
		}, "hold 71"},
		{"its run has ended", 15, records(recordWith(1, wake(0, endedAt(0, 15)))), nil, "send"},
		{"its run is unknown", 16, records(recordWith(1, wake(0, unknown(0, 15)))), nil, "hold 30"},
		{"its run is unknown for as long again", 30, records(recordWith(1, wake(0, unknown(0, 15)))), nil, "send"},

		// Without an answer.
		{"answer lost", 1, records(recordWith(1, wake(0, lost))), nil, "resend"},
		{"answer lost for three minutes", 3, records(recordWith(1, wake(0, lost))), nil, "send"},
		{"answer lost, but it took a task", 2, records(recordWith(1, wake(0, lost, 2), taken(1)), recordWith(2)), nil, "hold 61"},
		{"answer lost, it took a task and ended it", 12, records(recordWith(1, wake(0, lost, 2), taken(1), moves(5, "agent a", pipeline.AgentDone)), recordWith(2)), nil, "send"},
		{"refused", 100, records(recordWith(1, wake(0, refused))), nil, "resend"},
		{"not sent", 100, records(recordWith(1, wake(0, unsent))), nil, "resend"},
		{"not sent, and its first task is over", 100, records(recordWith(1, wake(0, unsent, 2), moves(5, "R1", pipeline.Cancelled)), recordWith(2)), nil, "send"},
		{"not sent, ever so often, is no wake", 100, records(recordWith(1, wake(0, unsent), wake(1, refused), wake(2, unsent), wake(3, refused), wake(50, endedAt(50, 70)))), nil, "send"},

		// Processes.
		{"its process runs", 5, records(recordWith(1, wake(0, byExec))), running, "hold 15"},
		{"its process runs and has taken one", 100, records(recordWith(1, wake(0, byExec), taken(1)), recordWith(2)), running, "hold"},
		{"its process runs, never woken", 100, records(recordWith(1)), running, "hold"},
		{"its process runs, its answer was lost", 100, records(recordWith(1, wake(0, lost))), running, "hold"},
		{"its process runs and takes nothing", 15, records(recordWith(1, wake(0, byExec))), running, "hangs"},
		{"its process ended without taking anything", 1, records(recordWith(1, wake(0, byExec))), exec, "send"},
		{"its process ended, before the answer came", 1, records(recordWith(1, wake(0, func(w *core.Wake) { w.Via, w.Ended = "exec", minute(1) }))), exec, "send"},
		{"its process ended after a task", 10.1, records(recordWith(1, wake(0, byExec), taken(1), moves(10, "agent a", pipeline.AgentDone)), recordWith(2)), exec, "send"},
		{"its process ended in the middle of a task", 10, records(recordWith(1, wake(0, byExec), taken(1)), recordWith(2)), exec, "send"},

		// C1, C3: the end of its last run was judged, and brought no progress.
		{"a run ended in the middle of a task, a pause", 2.1, records(recordWith(1, wake(0, byExec), taken(1))), left(1, 1, 2.2), "hold 2.2"},
		{"a run ended in the middle of a task, after the pause", 2.2, records(recordWith(1, wake(0, byExec), taken(1))), left(1, 1, 2.2), "send"},
		{"another task does not wait behind the unfinished one", 2.2, records(recordWith(1, wake(0, byExec), taken(1)), recordWith(2)), left(1, 1, 2.2), "send"},
		{"asked to be tried later", 16, records(recordWith(1, wake(0, byExec))), left(core.TryLater, 0, 17), "hold 17"},
		{"left alone", 20, records(recordWith(1, wake(0, byExec), taken(1)), recordWith(2, dispatchedAt(19))), left(1, 3, 32), "hold 32"},
		{"left alone, time for a probe", 32, records(recordWith(1, wake(0, byExec), taken(1))), left(1, 3, 32), "send"},
		{"left alone, and nothing waits", 20, records(recordWith(1, wake(0, byExec), taken(1), moves(3, "R1", pipeline.Cancelled))), left(1, 3, 32), "rest"},
		{"left alone, and the clock was set back by a year", -600000, records(recordWith(1, wake(0, byExec), taken(1))), left(1, 3, 32), "send"},
		{"moved by hand after the end of its run", 20, records(recordWith(1, wake(0, byExec), taken(1), moves(10, "agent a", pipeline.InProgress)), recordWith(2)), left(1, 1, 2.2), "send"},
		{"moved by hand, and no process was ever started", 5, records(recordWith(1, taken(1))), exec, "send"},
		{"moved by hand while its pause lasts", 2.15, records(recordWith(1, wake(0, byExec), taken(1), moves(2.1, "agent a", pipeline.InProgress))), left(1, 1, 2.2), "hold 2.2"},
		{"moved by hand, its start was refused", 5, records(recordWith(1, wake(0, refused, 2), func(t *core.Task) { t.Wakes[0].Via = "exec" }, taken(1))), exec, "send"},
		{"its helper was killed before the start was noted", 5, records(recordWith(1, wake(0, func(w *core.Wake) { w.Via = "exec" }), taken(1))), exec, "send"},
		{"moved by hand after the known end of its run at the gateway", 5, records(recordWith(1, wake(0, endedAt(0, 2)), taken(1), moves(4, "agent a", pipeline.InProgress))), nil, "rest 12"},
		{"at work at the gateway, the trigger was changed", 5, records(recordWith(1, wake(0, accepted(0)), taken(1))), exec, "rest"},
		{"at work at the gateway, a person resumes it", 5, records(recordWith(1, wake(0, accepted(0)), taken(1))), func(s *situation) { s.state.Resumed = minute(4) }, "send"},
		{"woken since a person resumed it", 5, records(recordWith(1, wake(0, accepted(0)), taken(1), wake(4, accepted(4)))), func(s *situation) { s.state.Resumed = minute(3) }, "rest 7"},
		{"its process runs when a person resumes it", 5, records(recordWith(1, wake(0, byExec), taken(1))), func(s *situation) { s.Running, s.state.Resumed = true, minute(4) }, "rest"},

		// A turn at the gateway ended well in the middle of a task.
		{"a turn ended in the middle of a task", 2, records(recordWith(1, wake(0, endedAt(0, 2)), taken(1))), nil, "rest 12"},
		{"a turn ended, and a report came later", 12, records(recordWith(1, wake(0, endedAt(0, 2)), taken(1), reported(5))), nil, "rest 15"},
		{"a turn ended, others wait", 5, records(recordWith(1, wake(0, endedAt(0, 2)), taken(1)), recordWith(2)), nil, "hold 12"},
		{"ten minutes after the end of its turn", 12, records(recordWith(1, wake(0, endedAt(0, 2)), taken(1)), recordWith(2)), nil, "send"},
		{"its turn failed", 2, records(recordWith(1, wake(0, failedAt(0, 2)), taken(1))), nil, "send"},
		{"a turn ended, then a person resumed it", 5, records(recordWith(1, wake(0, endedAt(0, 2)), taken(1))), func(s *situation) { s.state.Resumed = minute(4) }, "send"},
		{"a turn ended, the clock was set back by a year", -600000, records(recordWith(1, wake(0, endedAt(0, 2)), taken(1))), nil, "send"},

		// C4: a person moves a blocked task back to in progress.
		{"resumed by a person, its process is gone", 10, records(recordWith(1, wake(0, byExec), taken(1), moves(2, "agent a", pipeline.Blocked), moves(9, "R1", pipeline.InProgress))), exec, "send"},
		{"resumed by a person, its process runs", 10, records(recordWith(1, wake(0, byExec), taken(1), moves(2, "agent a", pipeline.Blocked), moves(9, "R1", pipeline.InProgress))), running, "hold"},
		{"resumed by a person, over the gateway", 10, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(2, "agent a", pipeline.Blocked), moves(9, "R1", pipeline.InProgress))), nil, "send"},
		{"resumed by a person, and woken since", 10, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(2, "agent a", pipeline.Blocked), moves(9, "R1", pipeline.InProgress), wake(9.5, accepted(9.5)))), nil, "hold 10.5"},
		{"resumed by a person, and the agent is at it again", 10, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(2, "agent a", pipeline.Blocked), moves(9, "R1", pipeline.InProgress), taken(9.5)), recordWith(2)), nil, "hold 69.5"},

		// The trigger was changed.
		{"woken by the gateway, now by a command", 5, records(recordWith(1, wake(0, accepted(0)))), exec, "hold 9"},
		{"woken by the gateway, now by a command, took nothing", 15, records(recordWith(1, wake(0, accepted(0)))), exec, "ask"},
		{"answer of the gateway lost, now by a command", 1, records(recordWith(1, wake(0, lost))), exec, "send"},
		{"refused by the gateway, now by a command", 1, records(recordWith(1, wake(0, refused))), exec, "send"},
		{"started, now by the gateway", 1, records(recordWith(1, wake(0, byExec))), nil, "send"},

		// The clock.
		{"set back a little", -5, records(recordWith(1, wake(0, accepted(0)))), nil, "hold 1"},
		{"set back by a year: the wake counts as long ago", -600000, records(recordWith(1, wake(0, accepted(0)))), nil, "ask 1"},
		{"set back by a year: an unknown run too", -600000, records(recordWith(1, wake(0, unknown(0, 0)))), nil, "send"},
		{"set back by a year, at work", -600000, records(recordWith(1, taken(0)), recordWith(2)), nil, "send"},
		{"set back by a year, answer lost", -600000, records(recordWith(1, wake(0, lost))), nil, "send"},
		{"set back by a year, just ended", -600000, records(recordWith(1, taken(0), moves(1, "agent a", pipeline.AgentDone)), recordWith(2)), nil, "send"},
		{"set back by a year, woken since", -600000, records(recordWith(1, wake(0, accepted(0))), recordWith(2, wake(-600001, accepted(-600001)))), nil, "hold -599998"},
		{"set back after a take: that is no reason to wake at each pass", -1, records(recordWith(1, taken(0), moves(0.5, "agent a", pipeline.AgentDone)), recordWith(2, wake(-2, accepted(-2)))), nil, "hold 1"},
		{"far ahead", 600000, records(recordWith(1, wake(0, accepted(0)))), nil, "ask"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &situation{
				workload: loadOf(c.now, c.records...), state: &core.AgentState{Agent: "a"}, idle: never, asked: question{at: minute(c.now)},
			}
			if c.change != nil {
				c.change(s)
			}
			want(t, c.name, plainly(s.planWake()), c.want)
		})
	}
}

func never() time.Time { return time.Time{} }

func idleSince(m float64) func() time.Time { return func() time.Time { return minute(m) } }

// plainly describes a plan in a word, and the minute of a hold that has one.
func plainly(p plan) string {
	name := map[action]string{rest: "rest", hold: "hold", send: "send", resend: "resend", ask: "ask", hangs: "hangs"}[p.action]
	if p.action != send && !p.due.IsZero() {
		return fmt.Sprintf("%s %v", name, p.due.Sub(minute(0)).Minutes())
	}
	return name
}

// A wake counts also after its task left the board or was given away.
func TestPlanWakeOfTasksThatLeft(t *testing.T) {
	t.Parallel()
	away := func(t *core.Task) {
		t.Dispatch = &core.Dispatch{Attempt: 2, Agent: "b", At: minute(1), FlippedAt: minute(1), TakenAt: minute(2)}
	}
	for _, c := range []struct {
		name string
		now  float64
		gone *core.Task
		want string
	}{
		{"outstanding, its row was deleted", 5, recordWith(1, wake(0, accepted(0))), "hold 9"},
		{"outstanding, its task was given to another, who took it", 5, recordWith(1, wake(0, accepted(0)), away), "hold 9"},
		{"taken, and its row was deleted", 5, recordWith(1, wake(0, accepted(0)), taken(1)), "send"},
		{"just taken, and its row was deleted", 1.5, recordWith(1, wake(0, accepted(0)), taken(1)), "hold 2"},
		{"took nothing, its row was deleted", 15, recordWith(1, wake(0, accepted(0))), "ask"},
		{"answer lost, its row was deleted", 1, recordWith(1, wake(0, lost)), "resend"},
		{"not sent, its row was deleted", 1, recordWith(1, wake(0, unsent)), "send"},
	} {
		s := &situation{
			workload: loadOf(c.now, recordWith(2)), state: &core.AgentState{Agent: "a"}, idle: never, asked: question{at: minute(c.now)},
		}
		s.gone = []*core.Task{c.gone}
		want(t, c.name, plainly(s.planWake()), c.want)
	}
}

func TestWaitingOrder(t *testing.T) {
	t.Parallel()
	s := &situation{
		workload: loadOf(1, recordWith(4), recordWith(3, priority(pipeline.Low)), recordWith(2, priority("medium")), recordWith(5, priority(pipeline.Critical)), recordWith(1, priority(pipeline.Batchable))),
		state:    &core.AgentState{Agent: "a"}, idle: never,
	}
	want(t, "most urgent first, then oldest", idsOf(s.planWake().tasks), "[T-00005 T-00002 T-00004 T-00003 T-00001]")
}

func TestReached(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		since, now float64
		want       bool
	}{
		{0, 9.99, false}, {0, 10, true}, {0, 10000, true},
		{0, -9.99, false}, {0, -10, false}, {0, -10.01, true}, // ahead of the clock, by no more than the wait itself
	} {
		want(t, fmt.Sprint(c), reached(minute(c.since), 10*time.Minute, minute(c.now)), c.want)
	}
	want(t, "never", reached(time.Time{}, time.Minute, minute(0)), true)
}
