package dispatch

import (
	"fmt"
	"testing"
	"time"

	"otm/pipeline"
)

// minute returns a time of these tests' clock.
func minute(m float64) time.Time {
	return time.Date(2026, 3, 14, 15, 0, 0, 0, time.UTC).Add(time.Duration(m * float64(time.Minute)))
}

func at(m float64) *time.Time {
	t := minute(m)
	return &t
}

// recordWith returns a task that was dispatched to agent a at minute 0 and
// flipped.
func recordWith(id pipeline.TaskID, with ...func(*pipeline.Record)) *pipeline.Record {
	r := &pipeline.Record{
		TaskID: id, RowID: "Rec", Agent: "a", Priority: pipeline.Normal, Status: pipeline.Assigned, Attempt: 1,
		Steps:    []pipeline.StepRecord{{Title: "one"}},
		Dispatch: &pipeline.Dispatch{Attempt: 1, Agent: "a", At: minute(0), EntryAt: at(0), FlippedAt: at(0)},
	}
	for _, f := range with {
		f(r)
	}
	return r
}

type with = func(*pipeline.Record)

func dispatchedAt(m float64) with { return func(r *pipeline.Record) { r.Dispatch.At = minute(m) } }

func priority(p pipeline.Priority) with { return func(r *pipeline.Record) { r.Priority = p } }

func taken(m float64) with {
	return func(r *pipeline.Record) {
		r.Dispatch.TakenAt = at(m)
		r.Hear("a", minute(m), func(h *pipeline.Heard) { h.Took, h.Given = minute(m), minute(m) })
	}
}

// moves is a person's change of status.
func moves(m float64, who string, s pipeline.Status) with {
	return func(r *pipeline.Record) {
		if who == "agent a" {
			r.Hear("a", minute(m), func(h *pipeline.Heard) {
				if s != pipeline.InProgress {
					h.Ended = minute(m)
				}
			})
		}
		if who != "agent a" && r.Status == pipeline.Blocked && s == pipeline.InProgress {
			r.ResumedAt = minute(m)
		}
		r.Status = s
	}
}

func ticked(m float64) with {
	return func(r *pipeline.Record) {
		r.Steps[0].Done = true
		r.Hear("a", minute(m), func(h *pipeline.Heard) { h.Progress = minute(m) })
	}
}

// wake adds a wake for this task and the named ones, sent at minute m.
func wake(m float64, change func(*pipeline.Wake), others ...pipeline.TaskID) with {
	return func(r *pipeline.Record) {
		w := pipeline.Wake{
			Attempt: len(r.Wakes) + 1, Key: Key(r.TaskID, "a", len(r.Wakes)+1), Agent: "a", Via: "gateway",
			Tasks: append([]pipeline.TaskID{r.TaskID}, others...), AskedAt: minute(m), Sent: true,
		}
		change(&w)
		r.Wakes = append(r.Wakes, w)
	}
}

func accepted(m float64) func(*pipeline.Wake) {
	return func(w *pipeline.Wake) { w.Accepted = at(m) }
}

func lost(*pipeline.Wake) {}

func unsent(w *pipeline.Wake) { w.Sent = false }

func refused(w *pipeline.Wake) { w.Refused = "unknown agent" }

func byExec(w *pipeline.Wake) { w.Via, w.Accepted = "exec", &w.AskedAt }

func unknown(accepted, unknown float64) func(*pipeline.Wake) {
	return func(w *pipeline.Wake) { w.Accepted, w.Unknown = at(accepted), at(unknown) }
}

func endedAt(accepted, ended float64) func(*pipeline.Wake) {
	return func(w *pipeline.Wake) { w.Accepted, w.Ended = at(accepted), at(ended) }
}

// One case a rule of the contract's paragraph on waking, and of plan.go. B28,
// B34, B54b: what looks dead is asked for before it is started again.
func TestPlanWake(t *testing.T) {
	t.Parallel()
	type c struct {
		name    string
		now     float64
		records []*pipeline.Record
		change  func(*situation)
		want    string // action, and of hold the minute
	}
	records := func(rs ...*pipeline.Record) []*pipeline.Record { return rs }
	exec := func(s *situation) { s.agent.Trigger = pipeline.TriggerExec }
	running := func(s *situation) { s.running = true }
	left := func(code int, failures int, next float64) func(*situation) {
		return func(s *situation) {
			s.agent.Trigger = pipeline.TriggerExec
			s.state = AgentState{Agent: "a", Failures: failures, Fruitless: max(failures, 1), NextStart: minute(next), LastRun: &EndedRun{Key: "otm-T-00001-a-1", Ended: minute(2), Code: &code}}
			if failures >= 3 {
				s.state.LeftAlone = minute(2)
			}
		}
	}
	cases := []c{
		// When there is nothing to do.
		{"no task", 1, nil, nil, "rest"},
		{"begun, not flipped", 1, records(recordWith(1, func(r *pipeline.Record) { r.Dispatch.FlippedAt = nil })), nil, "rest"},
		{"never dispatched", 1, records(recordWith(1, func(r *pipeline.Record) { r.Dispatch = nil })), nil, "rest"},
		{"taken", 1, records(recordWith(1, taken(1))), nil, "rest"},
		{"over", 1, records(recordWith(1, moves(1, "R1", pipeline.Cancelled))), nil, "rest"},
		{"put off by a person", 1, records(recordWith(1, moves(1, "R1", pipeline.Pending))), nil, "rest"},

		// One wake, then none while it is outstanding.
		{"waits", 1, records(recordWith(1)), nil, "send"},
		{"woken just now", 1, records(recordWith(1, wake(0, accepted(0)))), nil, "hold 9"},
		{"woken, one more came", 1, records(recordWith(1, wake(0, accepted(0))), recordWith(2, dispatchedAt(1))), nil, "hold 9"},
		{"woken, one more of a higher priority", 1, records(recordWith(1, wake(0, accepted(0))), recordWith(2, dispatchedAt(1), priority(pipeline.Critical))), nil, "hold 9"},
		{"the time counts from the acceptance", 10, records(recordWith(1, wake(0, accepted(2)))), nil, "hold 11"},
		{"another agent's wake", 1, records(recordWith(1, wake(0, accepted(0)), func(r *pipeline.Record) { r.Wakes[0].Agent = "b" })), nil, "send"},
		{"its wake under a name in other case", 1, records(recordWith(1, wake(0, accepted(0)), func(r *pipeline.Record) { r.Wakes[0].Agent = "A" })), nil, "hold 9"},

		// While the task that it took is unfinished.
		{"at work", 20, records(recordWith(1, wake(0, accepted(0)), taken(1)), recordWith(2, dispatchedAt(20))), nil, "hold 61"},
		{"at work, reported", 50, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(40, "agent a", pipeline.InProgress)), recordWith(2)), nil, "hold 100"},
		{"at work, its refused report is a sign of life", 50, records(recordWith(1, wake(0, accepted(0)), taken(1), func(r *pipeline.Record) {
			r.Hear("a", minute(45), nil)
		}), recordWith(2)), nil, "hold 105"},
		{"at work, woken again, still at work", 90, records(recordWith(1, taken(1), moves(85, "agent a", pipeline.InProgress), wake(62, accepted(62), 2)), recordWith(2)), nil, "hold 145"},
		{"at work, by itself, never woken", 5, records(recordWith(1, taken(1)), recordWith(2)), nil, "hold 61"},
		{"at work, a wake was refused", 5, records(recordWith(1, taken(1)), recordWith(2, wake(0, refused))), nil, "hold 61"},
		{"silent for an hour", 61, records(recordWith(1, wake(0, accepted(0)), taken(1)), recordWith(2)), nil, "send"},
		{"silent, woken since", 69, records(recordWith(1, wake(0, accepted(0)), taken(1)), recordWith(2, wake(61, accepted(61)))), nil, "hold 70"},
		{"silent with nothing else to do", 200, records(recordWith(1, wake(0, accepted(0)), taken(1))), nil, "rest"},

		// After a task.
		{"just ended", 10.5, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(10, "agent a", pipeline.AgentDone)), recordWith(2)), nil, "hold 11"},
		{"just ended by its last tick", 10.5, records(recordWith(1, wake(0, accepted(0)), taken(1), ticked(10)), recordWith(2)), nil, "hold 11"},
		{"just blocked", 10.5, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(10, "agent a", pipeline.Blocked)), recordWith(2)), nil, "hold 11"},
		{"just cancelled by a person", 10.5, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(10, "R1", pipeline.Cancelled)), recordWith(2)), nil, "send"},
		{"reviewed long after its end", 30.5, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(10, "agent a", pipeline.AgentDone), moves(30, "R1", pipeline.Done)), recordWith(2)), nil, "send"},
		{"still waits after a minute", 11, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(10, "agent a", pipeline.AgentDone)), recordWith(2)), nil, "send"},
		{"looked after its task and found nothing", 10.5, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(10, "agent a", pipeline.AgentDone)), recordWith(2, dispatchedAt(10.4))),
			func(s *situation) { s.idle = minute(10.2) }, "send"},
		{"was idle before its task", 10.5, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(10, "agent a", pipeline.AgentDone)), recordWith(2)),
			func(s *situation) { s.idle = minute(-5) }, "hold 11"},
		{"ended, and sent back", 12, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(10, "agent a", pipeline.AgentDone), moves(11, "R1", pipeline.New),
			func(r *pipeline.Record) {
				r.Attempt, r.Status = 2, pipeline.Assigned
				r.Dispatch = &pipeline.Dispatch{Attempt: 2, Agent: "a", At: minute(11.5), FlippedAt: at(11.5)}
			})), nil, "send"},

		// When nothing is taken.
		{"took nothing", 9, records(recordWith(1, wake(0, accepted(0)))), nil, "ask"},
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
		{"its process ended, before the answer came", 1, records(recordWith(1, wake(0, func(w *pipeline.Wake) { w.Via, w.Ended = "exec", at(1) }))), exec, "send"},
		{"its process ended after a task", 10.1, records(recordWith(1, wake(0, byExec), taken(1), moves(10, "agent a", pipeline.AgentDone)), recordWith(2)), exec, "send"},
		{"its process ended in the middle of a task", 10, records(recordWith(1, wake(0, byExec), taken(1)), recordWith(2)), exec, "send"},

		// C1, C3: the end of its last run was judged, and brought no progress.
		{"a run ended in the middle of a task, a pause", 2.1, records(recordWith(1, wake(0, byExec), taken(1))), left(1, 1, 2.2), "pausing 2.2"},
		{"a run ended in the middle of a task, after the pause", 2.2, records(recordWith(1, wake(0, byExec), taken(1))), left(1, 1, 2.2), "send"},
		{"another task does not wait behind the unfinished one", 2.2, records(recordWith(1, wake(0, byExec), taken(1)), recordWith(2)), left(1, 1, 2.2), "send"},
		{"asked to be tried later", 16, records(recordWith(1, wake(0, byExec))), left(TryLater, 0, 17), "pausing 17"},
		{"left alone", 20, records(recordWith(1, wake(0, byExec), taken(1)), recordWith(2, dispatchedAt(19))), left(1, 3, 32), "leftAlone 32"},
		{"left alone, time for a probe", 32, records(recordWith(1, wake(0, byExec), taken(1))), left(1, 3, 32), "send"},
		{"left alone, and nothing waits", 20, records(recordWith(1, wake(0, byExec), taken(1), moves(3, "R1", pipeline.Cancelled))), left(1, 3, 32), "rest"},
		{"left alone, and the clock was set back by a year", -600000, records(recordWith(1, wake(0, byExec), taken(1))), left(1, 3, 32), "send"},
		{"moved by hand after the end of its run", 20, records(recordWith(1, wake(0, byExec), taken(1), moves(10, "agent a", pipeline.InProgress)), recordWith(2)), left(1, 1, 2.2), "send"},
		{"moved by hand, and no process was ever started", 5, records(recordWith(1, taken(1))), exec, "send"},
		{"moved by hand while its pause lasts", 2.15, records(recordWith(1, wake(0, byExec), taken(1), moves(2.1, "agent a", pipeline.InProgress))), left(1, 1, 2.2), "pausing 2.2"},
		{"moved by hand, its start was refused", 5, records(recordWith(1, wake(0, refused, 2), func(r *pipeline.Record) { r.Wakes[0].Via = "exec" }, taken(1))), exec, "send"},
		{"its helper was killed before the start was noted", 5, records(recordWith(1, wake(0, func(w *pipeline.Wake) { w.Via = "exec" }), taken(1))), exec, "send"},
		{"moved by hand after the known end of its run at the gateway", 5, records(recordWith(1, wake(0, endedAt(0, 2)), taken(1), moves(4, "agent a", pipeline.InProgress))), nil, "send"},
		{"at work at the gateway, the trigger was changed", 5, records(recordWith(1, wake(0, accepted(0)), taken(1))), exec, "rest"},
		{"at work at the gateway, a person resumes it", 5, records(recordWith(1, wake(0, accepted(0)), taken(1))), func(s *situation) { s.state.Resumed = minute(4) }, "send"},
		{"woken since a person resumed it", 5, records(recordWith(1, wake(0, accepted(0)), taken(1), wake(4, accepted(4)))), func(s *situation) { s.state.Resumed = minute(3) }, "rest"},
		{"its process runs when a person resumes it", 5, records(recordWith(1, wake(0, byExec), taken(1))), func(s *situation) { s.running, s.state.Resumed = true, minute(4) }, "rest"},
		{"its last reports are not applied yet", 2, records(recordWith(1, wake(0, byExec), taken(1))), func(s *situation) { exec(s); s.unread = true }, "hold"},
		{"a run at the gateway ended in the middle of a task", 2, records(recordWith(1, wake(0, endedAt(0, 2)), taken(1))), nil, "send"},

		// C4: a person moves a blocked task back to in progress.
		{"resumed by a person, its process is gone", 10, records(recordWith(1, wake(0, byExec), taken(1), moves(2, "agent a", pipeline.Blocked), moves(9, "R1", pipeline.InProgress))), exec, "send"},
		{"resumed by a person, its process runs", 10, records(recordWith(1, wake(0, byExec), taken(1), moves(2, "agent a", pipeline.Blocked), moves(9, "R1", pipeline.InProgress))), running, "hold"},
		{"resumed by a person, over the gateway", 10, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(2, "agent a", pipeline.Blocked), moves(9, "R1", pipeline.InProgress))), nil, "send"},
		{"resumed by a person, and the agent is at it again", 10, records(recordWith(1, wake(0, accepted(0)), taken(1), moves(2, "agent a", pipeline.Blocked), moves(9, "R1", pipeline.InProgress), taken(9.5)), recordWith(2)), nil, "hold 69.5"},

		// The trigger was changed.
		{"woken by the gateway, now by a command", 5, records(recordWith(1, wake(0, accepted(0)))), exec, "hold 9"},
		{"woken by the gateway, now by a command, took nothing", 15, records(recordWith(1, wake(0, accepted(0)))), exec, "ask"},
		{"answer of the gateway lost, now by a command", 1, records(recordWith(1, wake(0, lost))), exec, "send"},
		{"refused by the gateway, now by a command", 1, records(recordWith(1, wake(0, refused))), exec, "send"},
		{"started, now by the gateway", 1, records(recordWith(1, wake(0, byExec))), nil, "send"},

		// The clock.
		{"set back a little", -5, records(recordWith(1, wake(0, accepted(0)))), nil, "hold 9"},
		{"set back by a year: the wake counts as long ago", -600000, records(recordWith(1, wake(0, accepted(0)))), nil, "ask"},
		{"set back by a year: an unknown run too", -600000, records(recordWith(1, wake(0, unknown(0, 0)))), nil, "send"},
		{"set back by a year, at work", -600000, records(recordWith(1, taken(0)), recordWith(2)), nil, "send"},
		{"set back by a year, answer lost", -600000, records(recordWith(1, wake(0, lost))), nil, "send"},
		{"set back by a year, just ended", -600000, records(recordWith(1, taken(0), moves(1, "agent a", pipeline.AgentDone)), recordWith(2)), nil, "send"},
		{"set back by a year, woken since", -600000, records(recordWith(1, wake(0, accepted(0))), recordWith(2, wake(-600001, accepted(-600001)))), nil, "hold -599992"},
		{"set back after a take: that is no reason to wake at each pass", -1, records(recordWith(1, taken(0), moves(0.5, "agent a", pipeline.AgentDone)), recordWith(2, wake(-2, accepted(-2)))), nil, "hold 7"},
		{"far ahead", 600000, records(recordWith(1, wake(0, accepted(0)))), nil, "ask"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &situation{
				agent:   &pipeline.Agent{Name: "a", Trigger: pipeline.TriggerGateway},
				records: c.records, now: minute(c.now), times: pipeline.DefaultTimes,
			}
			if c.change != nil {
				c.change(s)
			}
			want(t, c.name, plainly(s.planWake()), c.want)
		})
	}
}

// plainly describes a plan in a word, and the minute of a hold that has one.
func plainly(p plan) string {
	name := map[action]string{rest: "rest", hold: "hold", send: "send", resend: "resend", ask: "ask", pausing: "pausing", leftAlone: "leftAlone", hangs: "hangs"}[p.action]
	if p.action != send && !p.due.IsZero() {
		return fmt.Sprintf("%s %v", name, p.due.Sub(minute(0)).Minutes())
	}
	return name
}

// A wake counts also after its task left the board or was given away.
func TestPlanWakeOfTasksThatLeft(t *testing.T) {
	t.Parallel()
	away := func(r *pipeline.Record) {
		r.Dispatch = &pipeline.Dispatch{Attempt: 2, Agent: "b", At: minute(1), FlippedAt: at(1), TakenAt: at(2)}
	}
	for _, c := range []struct {
		name string
		now  float64
		gone *pipeline.Record
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
			agent:   &pipeline.Agent{Name: "a", Trigger: pipeline.TriggerGateway},
			records: []*pipeline.Record{recordWith(2)}, gone: []*pipeline.Record{c.gone}, now: minute(c.now), times: pipeline.DefaultTimes,
		}
		want(t, c.name, plainly(s.planWake()), c.want)
	}
}

func TestWaitingOrder(t *testing.T) {
	t.Parallel()
	s := &situation{
		agent: &pipeline.Agent{Name: "a", Trigger: pipeline.TriggerGateway}, now: minute(1), times: pipeline.DefaultTimes,
		records: []*pipeline.Record{recordWith(4), recordWith(3, priority(pipeline.Low)), recordWith(2, priority("medium")), recordWith(5, priority(pipeline.Critical)), recordWith(1, priority(pipeline.Batchable))},
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

func TestSetBack(t *testing.T) {
	t.Parallel()
	changed := func(who, detail string) pipeline.Event {
		return pipeline.Event{Who: who, What: pipeline.EventChanged, Detail: detail}
	}
	again := pipeline.Event{Who: Who, What: eventAgain}
	for _, c := range []struct {
		name    string
		history []pipeline.Event
		want    bool
	}{
		{"nothing happened", nil, false},
		{"by a person, from the end", []pipeline.Event{changed("human", "agent_done to assigned")}, true},
		{"by a person, from the middle", []pipeline.Event{changed("human", "in_progress to assigned")}, true},
		{"by a person, unblocked", []pipeline.Event{changed("human", "blocked to assigned")}, true},
		{"by a person, resumed", []pipeline.Event{changed("human", "pending to assigned"), {Who: "x", What: "note"}}, true},
		{"by a person, who dispatched by hand", []pipeline.Event{changed("human", "new to assigned")}, false},
		{"by nobody knows whom", []pipeline.Event{changed(pipeline.WhoBoard, "in_progress to assigned")}, false},
		{"by us", []pipeline.Event{{Who: Who, What: pipeline.EventStatus, Detail: "in_progress to assigned"}}, false},
		{"dispatched since", []pipeline.Event{changed("human", "agent_done to assigned"), again}, false},
		{"dispatched since, and again", []pipeline.Event{changed("human", "agent_done to assigned"), again, changed("human", "blocked to assigned")}, true},
		{"moved on", []pipeline.Event{changed("human", "assigned to done")}, false},
		{"no detail", []pipeline.Event{changed("human", "assigned")}, false},
	} {
		want(t, c.name, setBack(&pipeline.Record{History: c.history}), c.want)
	}
}
