package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"otm/pipeline"
)

var (
	devdas = ByAgent("devdas")
	ada    = ByPerson("Ada")
	boss   = Component("otm-dispatcher")
)

func ptr[T any](v T) *T { return &v }

// moveTo puts task 1 into a status, as a person on the board does.
func (w *world) moveTo(s pipeline.Status) {
	w.t.Helper()
	w.must(Command{Task: 1, By: ada, Do: Edits{Seen: true, Status: &s}})
}

// taken has task 1 in progress with its agent.
func (w *world) taken() {
	w.t.Helper()
	w.handedOut()
	w.must(Command{Task: 1, By: devdas, Do: Take{TakenByNext}})
	w.show()
}

// archived has task 1 in the history.
func (w *world) archived() {
	w.t.Helper()
	w.taken()
	w.moveTo(pipeline.Done)
	w.must(Command{Task: 1, By: boss, Do: Archive{Row: pipeline.Row{ID: "Rec1"}}})
}

// gone has task 1 without its row.
func (w *world) gone() {
	w.t.Helper()
	w.taken()
	w.must(Command{Task: 1, By: ada, Do: LoseRow{"Rec1"}})
}

// in returns a preparation that ends in a status, after the task was taken.
func in(s pipeline.Status) func(*world) {
	return func(w *world) {
		w.taken()
		w.moveTo(s)
	}
}

// story is what happened since, in one line: types of events, and moves with their codes.
func story(events []Event) string {
	var all []string
	for i := range events {
		e := &events[i]
		switch data := e.Data.(type) {
		case TaskMoved:
			all = append(all, fmt.Sprintf("%s→%s(%s)", data.From, data.To, data.Move))
		case EditedByPerson:
			all = append(all, fmt.Sprintf("Edited(%s)", data.Field))
		default:
			all = append(all, e.Type())
		}
	}
	return strings.Join(all, " ")
}

// refusal is the name of an error of a command.
func refusal(err error) string {
	var refused *Refused
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		return string(refused.Rule)
	case errors.Is(err, ErrNotYet):
		return "not yet"
	case errors.Is(err, ErrOutdated):
		return "outdated"
	case errors.Is(err, ErrNoTask):
		return "no task"
	}
	return err.Error()
}

// Each command: what happens by it, and when it is refused.
func TestCommands(t *testing.T) {
	t.Parallel()
	same := pipeline.Task{ID: 1, Title: " BUILD it", Agent: "devdas"}
	other := pipeline.Task{ID: 1, Title: "Test it", Agent: "devdas"}
	report := func(r Report) Command { return Command{ID: "u", Task: 1, By: devdas, Do: r} }
	edit := func(e Edits) Command { return Command{Task: 1, By: ada, Do: e} }
	for _, tt := range []struct {
		name    string
		from    func(*world) // nil: there is no task
		command Command
		want    string // story, or the refusal after "!"
	}{
		{"a parked task", nil, Command{ID: "d", Task: 1, By: boss, Do: Request{Task: other, Parked: "disk"}}, "TaskRequested"},
		{"a task whose row stands there", nil, Command{ID: "d", Task: 1, By: boss, Do: Request{Task: other, Found: &RowFound{Row: "R"}}}, "TaskRequested RowFound"},
		{"the same drop", (*world).requested, Command{ID: "d1", Task: 1, By: boss, Do: Request{Task: other}}, ""},
		{"the same task in another drop", (*world).requested, Command{ID: "d2", Task: 1, By: boss, Do: Request{Task: same}}, "DuplicateSkipped"},
		{"another task of this id", (*world).requested, Command{ID: "d2", Task: 1, By: boss, Do: Request{Task: other}}, "!otherTask"},

		{"a typed row", nil, Command{Task: 1, By: boss, Do: Adopt{Task: other, Status: pipeline.New, Typed: ada, TypedAt: t0, Row: RowFound{Row: "R"}}}, "TaskRequested RowFound"},
		{"its own row", (*world).requested, Command{Task: 1, By: boss, Do: Adopt{Task: other, Row: RowFound{Row: "Rec1"}}}, ""},
		{"a row with the id of a task", (*world).requested, Command{Task: 1, By: boss, Do: Adopt{Task: other, Row: RowFound{Row: "R"}}}, "!otherTask"},

		{"a report without a task", nil, report(Report{}), "!not yet"},
		{"a report before the hand-out", (*world).requested, report(Report{Status: pipeline.InProgress}), "!not yet"},
		{"a note takes the task", (*world).handedOut, report(Report{Message: pipeline.Message{Text: "x"}}), "Acknowledged RunStarted assigned→in_progress(TT-02) Noted Said"},
		{"a note of before the hand-out", (*world).handedOut, report(Report{Dropped: t0, Message: pipeline.Message{Text: "x"}}), "Noted Said"},
		{"a SURE of before the hand-out", (*world).handedOut, report(Report{Dropped: t0, Status: pipeline.InProgress, Result: "half of it"}), "Noted"},
		{"a step of before the hand-out", (*world).handedOut, report(Report{Dropped: t0, Steps: []string{"one"}}), "Acknowledged RunStarted StepDone assigned→in_progress(TT-02) Noted"},
		{"a note later", (*world).taken, report(Report{Message: pipeline.Message{Text: "x"}}), "Noted Said"},
		{"a note after the end", in(pipeline.AgentDone), report(Report{Message: pipeline.Message{Text: "x"}}), "Noted Said"},
		{"a note on what is over", in(pipeline.Done), report(Report{Message: pipeline.Message{Text: "x"}}), "!over"},
		{"a person's note before the hand-out", (*world).requested, Command{ID: "u", Task: 1, By: Actor{Kind: Worker, Name: "ada"}, Do: Report{Message: pipeline.Message{Text: "x"}}}, "Noted Said"},
		{"a message", (*world).requested, Command{Task: 1, By: ada, Do: Say{pipeline.Message{Text: "x"}}}, "Said"},
		{"a message on what is over", in(pipeline.Done), Command{Task: 1, By: ada, Do: Say{pipeline.Message{Text: "x"}}}, "Said"},
		{"a message about nothing", nil, Command{Task: 1, By: ada, Do: Say{pipeline.Message{Text: "x"}}}, "!no task"},
		{"a message on an archived task", (*world).archived, Command{Task: 1, By: ada, Do: Say{pipeline.Message{Text: "x"}}}, "!archived"},
		{"a person's report before the hand-out", (*world).requested, Command{Task: 1, By: Actor{Kind: Worker, Name: "ada"}, Do: Report{Steps: []string{"one"}}}, "StepDone new→in_progress(TT-02) Noted"},
		{"the first step", (*world).handedOut, report(Report{Steps: []string{"one"}}), "Acknowledged RunStarted StepDone assigned→in_progress(TT-02) Noted"},
		{"a step by number and title", (*world).taken, report(Report{Steps: []string{"2", "ONE"}}), "StepDone StepDone Noted"},
		{"a step twice", (*world).taken, report(Report{Steps: []string{"one", "1"}}), "StepDone Noted"},
		{"a step that was done before", func(w *world) { w.taken(); w.must(report(Report{Steps: []string{"one"}})) }, report(Report{Steps: []string{"one", "two"}}), "StepDone StepRepeated Noted"},
		{"a step that is not there", (*world).taken, report(Report{Steps: []string{"one", "three"}}), "!noStep"},
		{"words only", (*world).taken, report(Report{Result: "half of it"}), "Noted"},
		{"blocked", (*world).taken, report(Report{Status: pipeline.Blocked, Reason: "why?"}), "in_progress→blocked(TT-16) RunPaused Noted"},
		{"goes on", in(pipeline.Blocked), report(Report{Status: pipeline.InProgress}), "RunStarted blocked→in_progress(TT-17) Noted"},
		{"a repeated status", (*world).taken, report(Report{Status: pipeline.InProgress}), "Noted"},
		{"done at once", (*world).handedOut, report(Report{Status: pipeline.AgentDone}), "Acknowledged RunStarted assigned→agent_done(TT-04) RunSucceeded Noted"},
		{"a result after the end", in(pipeline.AgentDone), report(Report{Status: pipeline.AgentDone, Result: "see there"}), "Noted"},
		{"a status after the end", in(pipeline.AgentDone), report(Report{Status: pipeline.Blocked}), "!move"},
		{"a step after the end", in(pipeline.AgentDone), report(Report{Steps: []string{"one"}}), "!stepsStay"},
		{"a report on a task set aside", in(pipeline.Dormant), report(Report{Status: pipeline.InProgress}), "!over"},
		{"a report in the shell of another agent", (*world).taken, report(Report{Claims: "mira", Status: pipeline.AgentDone}), "!other"},
		{"a report in its agent's shell", (*world).taken, report(Report{Claims: "DevDas", Status: pipeline.AgentDone}), "in_progress→agent_done(TT-04) RunSucceeded Noted"},
		{"a report on a done task", in(pipeline.Done), report(Report{Result: "x"}), "!over"},
		{"a report on a deleted row", (*world).gone, report(Report{Result: "x"}), "!rowGone"},
		{"a report on the history", (*world).archived, report(Report{Result: "x"}), "!archived"},
		{"a refused report is noted", (*world).taken, Command{Task: 1, By: devdas, Do: FailedReport{Drop: "u.json", Why: "no step"}}, "ReportFailed"},
		{"a refused report without a task", nil, Command{Task: 1, By: devdas, Do: FailedReport{}}, ""},

		{"an edit without a task", nil, edit(Edits{}), "!no task"},
		{"no edit", (*world).taken, edit(Edits{Title: ptr("Build it"), Priority: ptr(pipeline.Normal), Agent: ptr("DevDas"), Status: ptr(pipeline.InProgress)}), ""},
		{"fields", (*world).taken, edit(Edits{Title: ptr("Do it"), Priority: ptr(pipeline.High), Reason: ptr("soon")}), "Edited(title) Edited(priority) Edited(reason)"},
		{"another agent", (*world).taken, edit(Edits{Agent: ptr("mira")}), "Edited(assignee) in_progress→new(TT-24) RunCanceled"},
		{"another agent before the hand-out", (*world).requested, edit(Edits{Agent: ptr("mira")}), "Edited(assignee)"},
		{"sent back to another agent", in(pipeline.AgentDone), edit(Edits{Agent: ptr("mira"), Status: ptr(pipeline.New)}), "agent_done→new(TT-26) Edited(assignee)"},
		{"accepted", in(pipeline.AgentDone), edit(Edits{From: []pipeline.Status{pipeline.AgentDone}, Status: ptr(pipeline.Done), Accept: true}), "Approved agent_done→done(TT-06)"},
		{"accepted too late", in(pipeline.Cancelled), edit(Edits{From: []pipeline.Status{pipeline.AgentDone}, Status: ptr(pipeline.Done), Accept: true}), "!moved"},
		{"an override", in(pipeline.Cancelled), edit(Edits{Status: ptr(pipeline.InProgress)}), "cancelled→in_progress()"},
		{"a step ticked, renamed, added and deleted", (*world).taken, edit(Edits{
			Steps: []StepEdit{{Row: "Stepone", Title: ptr("1st"), Done: ptr(true)}, {Row: "unknown", Done: ptr(true)}},
			Added: []AddedStep{{FoundStep{Row: "S3", Title: "three"}, ByPerson("robin")}, {FoundStep: FoundStep{Row: "Stepone"}}}, Gone: []string{"Steptwo", "unknown"},
		}), "StepGone StepDone Edited(title) StepAdded"},

		{"steps added and dropped", in(pipeline.AgentDone), edit(Edits{Status: ptr(pipeline.New), AddSteps: []string{"three"}, DropSteps: []string{"1", "one"}}), "StepGone StepAdded agent_done→new(TT-26)"},
		{"a step dropped that is not there", (*world).taken, edit(Edits{AddSteps: []string{"three"}, DropSteps: []string{"four"}}), "!noStep"},

		{"its agent says on the board that it is done", (*world).handedOut, Command{Task: 1, By: devdas, Do: Edits{Seen: true, Status: ptr(pipeline.AgentDone)}}, "Acknowledged RunStarted assigned→agent_done(TT-04) RunSucceeded"},
		{"its agent accepts it on the board", in(pipeline.AgentDone), Command{Task: 1, By: devdas, Do: Edits{Seen: true, Status: ptr(pipeline.Done)}}, "ReconciliationDrift"},
		{"another agent ends it on the board", (*world).taken, Command{Task: 1, By: ByAgent("mira"), Do: Edits{Seen: true, Status: ptr(pipeline.AgentDone), Agent: ptr("mira")}}, "ReconciliationDrift ReconciliationDrift"},
		{"a row deleted", (*world).taken, Command{Task: 1, By: ada, Do: LoseRow{"Rec1"}}, "RowGone RunCanceled"},
		{"another row deleted", (*world).taken, Command{Task: 1, By: ada, Do: LoseRow{"R"}}, ""},
		{"a row deleted twice", (*world).gone, Command{Task: 1, By: ada, Do: LoseRow{"Rec1"}}, ""},
		{"a row restored", (*world).gone, Command{Task: 1, By: ada, Do: RestoreRow{Row: "Rec1"}}, "RowBack"},
		{"a row that was there", (*world).taken, Command{Task: 1, By: ada, Do: RestoreRow{Row: "Rec1"}}, ""},
		{"an archived row restored", (*world).archived, Command{Task: 1, By: ada, Do: RestoreRow{Row: "Rec1"}}, ""},
		{"an archived row opened", (*world).archived, Command{Task: 1, By: ada, Do: RestoreRow{Row: "Rec1", Opened: true}}, "RowBack"},
		{"drift", (*world).taken, Command{Task: 1, By: boss, Do: Drifted{Fields: []pipeline.Field{pipeline.FieldTaskID}}}, "ReconciliationDrift"},
		{"no drift", (*world).taken, Command{Task: 1, By: boss, Do: Drifted{}}, ""},
		{"written without a task", nil, Command{Task: 1, By: boss, Do: Written{}}, ""},
		{"archive", in(pipeline.Done), Command{Task: 1, By: boss, Do: Archive{Row: pipeline.Row{ID: "Rec1"}}}, "Archived"},
		{"archive an open task", (*world).taken, Command{Task: 1, By: boss, Do: Archive{Row: pipeline.Row{ID: "Rec1"}}}, "!moved"},
		{"archive another row", in(pipeline.Done), Command{Task: 1, By: boss, Do: Archive{Row: pipeline.Row{ID: "R"}}}, ""},
		{"archive no task", nil, Command{Task: 1, By: boss, Do: Archive{}}, "!no task"},

		{"hand out", (*world).requested, Command{Task: 1, By: boss, Do: HandOut{Agent: "devdas", Workspace: "/w"}}, "HandedOut new→assigned(TT-01)"},
		{"hand out again by hand", func(w *world) { in(pipeline.Blocked)(w); w.moveTo(pipeline.Assigned) }, Command{Task: 1, By: boss, Do: HandOut{Agent: "devdas"}}, "HandedOut"},
		{"hand out twice", (*world).handedOut, Command{Task: 1, By: boss, Do: HandOut{Agent: "devdas"}}, ""},
		{"hand out to another", (*world).requested, Command{Task: 1, By: boss, Do: HandOut{Agent: "mira"}}, "!outdated"},
		{"hand out no task", nil, Command{Task: 1, By: boss, Do: HandOut{}}, "!no task"},
		{"hand out without steps", func(w *world) {
			w.taken()
			w.must(edit(Edits{Status: ptr(pipeline.New), DropSteps: []string{"1", "2"}}))
		}, Command{Task: 1, By: boss, Do: HandOut{Agent: "devdas", Workspace: "/w"}}, "HandedOut new→assigned(TT-01)"},
		{"hand out without a row", func(w *world) {
			w.must(Command{ID: "d", Task: 1, By: boss, Do: Request{Task: other}})
		}, Command{Task: 1, By: boss, Do: HandOut{Agent: "devdas"}}, "!notOn"},
		{"take", (*world).handedOut, Command{Task: 1, By: devdas, Do: Take{TakenByNext}}, "Acknowledged RunStarted assigned→in_progress(TT-02)"},
		{"take by the mark", (*world).handedOut, Command{Task: 1, By: devdas, Do: Take{TakenByFile}}, "Acknowledged RunStarted"},
		{"take by the mark twice", (*world).taken, Command{Task: 1, By: devdas, Do: Take{TakenByFile}}, ""},
		{"given again", (*world).taken, Command{Task: 1, By: devdas, Do: Take{TakenByNext}}, "Acknowledged"},
		{"take another's task", (*world).handedOut, Command{Task: 1, By: ByAgent("mira"), Do: Take{TakenByNext}}, "!outdated"},
		{"take a deleted task", (*world).gone, Command{Task: 1, By: devdas, Do: Take{TakenByNext}}, "!outdated"},
		{"take a task that is over", in(pipeline.Cancelled), Command{Task: 1, By: devdas, Do: Take{TakenByNext}}, "!outdated"},
		{"take no task", nil, Command{Task: 1, By: devdas, Do: Take{}}, "!no task"},
		{"another workspace", (*world).handedOut, Command{Task: 1, By: boss, Do: MoveWorkspace{"/v"}}, "WorkspaceMoved"},
		{"the same workspace", (*world).handedOut, Command{Task: 1, By: boss, Do: MoveWorkspace{"/w"}}, ""},
		{"promote", func(w *world) {
			w.taken()
			w.must(report(Report{Steps: []string{"1", "2"}}))
		}, Command{Task: 1, By: boss, Do: Promote{}}, "in_progress→agent_done(TT-04) RunSucceeded"},
		{"promote with open steps", (*world).taken, Command{Task: 1, By: boss, Do: Promote{}}, ""},
		{"promote no task", nil, Command{Task: 1, By: boss, Do: Promote{}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tt.from != nil {
				tt.from(w)
			}
			state, n := mustJSON(t, w.state.Tasks), len(w.events)
			err := w.do(tt.command)
			got := story(w.events[n:])
			if err != nil {
				got = "!" + refusal(err)
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if now := mustJSON(t, w.state.Tasks); (err != nil || got == "") && now != state {
				t.Errorf("it changed the state:\n%s\nwas:\n%s", now, state)
			}
			w.checkRebuild()
		})
	}
}

// What a person's reason means goes by the status in which he gives it.
func TestMeaningOfAReason(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		from pipeline.Status
		to   *pipeline.Status
		want string
	}{
		{pipeline.Blocked, ptr(pipeline.New), AnswerTo},
		{pipeline.Blocked, nil, AnswerTo},
		{pipeline.InProgress, ptr(pipeline.Blocked), Explains},
		{pipeline.AgentDone, ptr(pipeline.New), SentBack},
		{pipeline.AgentDone, nil, ""},
		{pipeline.InProgress, nil, ""},
		{pipeline.InProgress, ptr(pipeline.Cancelled), Explains},
		{pipeline.Cancelled, nil, Explains},
		{pipeline.Cancelled, ptr(pipeline.New), ""},
		{pipeline.New, ptr(pipeline.Dormant), Explains},
	} {
		w := newWorld(t)
		w.taken()
		if tt.from == pipeline.Blocked {
			w.must(Command{Task: 1, By: devdas, Do: Report{Status: tt.from, Reason: "Which?"}})
		} else {
			w.moveTo(tt.from)
		}
		w.must(Command{Task: 1, By: ada, Do: Edits{Status: tt.to, Reason: ptr("because")}})
		e, ok := w.events[len(w.events)-1].Data.(EditedByPerson)
		if !ok || e.Means != tt.want || w.task().Answered != (tt.want != Explains) {
			t.Errorf("from %s: %+v, want %q", tt.from, e, tt.want)
		}
	}
}

// A step that somebody added is that person's, whoever touched the row of its task last.
func TestWhoAddedAStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.taken()
	rob := ByPerson("U0ROB")
	w.must(Command{Task: 1, By: ByPerson(""), Do: Edits{Seen: true, Added: []AddedStep{{FoundStep{Row: "S3", Title: "three"}, rob}}}})
	if e := w.events[len(w.events)-1]; e.Type() != "StepAdded" || e.By != rob {
		t.Errorf("%s by %v", e.Type(), e.By)
	}
}

// Why a person holds a task up is no question of its agent, and nothing that it is to do
// once the task goes on.
func TestHeldUpByAPerson(t *testing.T) {
	t.Parallel()
	for _, seen := range []bool{false, true} {
		w := newWorld(t)
		w.taken()
		set := func(status pipeline.Status, reason *string) {
			t.Helper()
			w.must(Command{Task: 1, By: ada, Do: Edits{Seen: seen, Status: &status, Reason: reason}})
		}
		set(pipeline.Blocked, ptr("wait for the designer"))
		set(pipeline.InProgress, nil)
		if got := w.task(); got.Reason != "" || seen && got.Shown.Reason == "" {
			t.Errorf("sent on without words: %q, the board shows %q", got.Reason, got.Shown.Reason)
		}
		set(pipeline.Blocked, ptr("wait for the designer"))
		set(pipeline.InProgress, ptr("the designer is back"))
		if got := w.task(); got.Reason != "the designer is back" || !got.Answered || got.Question != "" {
			t.Errorf("sent on with words: %+v", got)
		}
		set(pipeline.Blocked, ptr("wait for the designer"))
		w.must(Command{Task: 1, By: ada, Do: Edits{Seen: seen, Reason: ptr("use blue")}})
		set(pipeline.New, nil)
		if got := w.task(); got.Reason != "use blue" || !got.Answered || got.Question != "" {
			t.Errorf("words before the move: %+v", got)
		}
	}
}

// A task whose type needs no review is done with the report that ends it, and with the
// pass that finds all its steps done.
func TestNoReview(t *testing.T) {
	t.Parallel()
	types := pipeline.Types{pipeline.Action: {}}
	report := func(r Report) Command { return Command{Task: 1, By: devdas, Do: r} }
	ends := func(c Command) string {
		w := newWorld(t)
		w.taken()
		if _, ok := c.Do.(Promote); ok {
			w.must(report(Report{Steps: []string{"1", "2"}}))
		}
		n := len(w.events)
		w.must(c)
		w.checkRebuild()
		if got := w.task(); got.StatusBy != Component("otm") || got.CompletedAt.IsZero() || got.ValidatedAt.IsZero() {
			t.Errorf("ended by %v, completed %v, validated %v", got.StatusBy, got.CompletedAt, got.ValidatedAt)
		}
		return story(w.events[n:])
	}
	if got := ends(report(Report{Status: pipeline.AgentDone, Types: types})); got != "in_progress→agent_done(TT-04) RunSucceeded Noted agent_done→done(TT-06)" {
		t.Errorf("a report: %s", got)
	}
	if got := ends(Command{Task: 1, By: boss, Do: Promote{types}}); got != "in_progress→agent_done(TT-04) RunSucceeded agent_done→done(TT-06)" {
		t.Errorf("a pass: %s", got)
	}
	w := newWorld(t)
	w.taken()
	w.must(report(Report{Status: pipeline.AgentDone, Types: pipeline.Types{pipeline.Review: {}}}))
	w.want(pipeline.AgentDone)
}

// An agent that reviews makes the moves of a reviewer on the tasks of others, and none on a
// task that it has or has worked on.
func TestReviewer(t *testing.T) {
	t.Parallel()
	mira := ByReviewer("Mira")
	review := func(to pipeline.Status) Command {
		return Command{Task: 1, By: mira, Do: Edits{Status: &to, Reason: ptr("because")}}
	}
	w := newWorld(t)
	w.taken()
	w.must(Command{Task: 1, By: devdas, Do: Report{Status: pipeline.AgentDone}})
	if err := w.do(review(pipeline.Failed)); refusal(err) != "move" {
		t.Errorf("a move that the table does not have: %v", err)
	}
	w.must(review(pipeline.New))
	if got := w.task(); got.StatusBy != mira || !got.Answered || got.Reviewer != "Mira" || got.Reason != "because" {
		t.Errorf("sent back: by %v, answered %v, %q", got.StatusBy, got.Answered, got.Reason)
	}
	w.must(Command{Task: 1, By: mira, Do: Edits{Agent: ptr("mira")}})
	if err := w.do(review(pipeline.Cancelled)); refusal(err) != "own" || !strings.Contains(err.Error(), "T-00001 is Mira's own task") {
		t.Errorf("the task was given to it: %v", err)
	}
	w.show()
	w.must(Command{Task: 1, By: boss, Do: HandOut{Agent: "mira", Workspace: "/m"}})
	w.must(Command{Task: 1, By: ByAgent("mira"), Do: Take{TakenByNext}})
	w.must(Command{Task: 1, By: ada, Do: Edits{Agent: ptr("devdas")}})
	if err := w.do(review(pipeline.Cancelled)); refusal(err) != "own" {
		t.Errorf("it worked on the task: %v", err)
	}
	w.checkRebuild()
}

// A person who sends a task back, or gives it to another agent, takes it away from its
// agent: it is handed out anew, with another attempt.
func TestHandedOutAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.taken()
	w.must(Command{Task: 1, By: ada, Do: Edits{Agent: ptr("mira")}})
	w.want(pipeline.New)
	if w.task().Dispatch != nil || !w.task().Ready(w.now) {
		t.Fatalf("the task is still with its agent: %+v", w.task().Dispatch)
	}
	w.must(Command{Task: 1, By: boss, Do: HandOut{Agent: "mira", Workspace: "/m"}})
	w.want(pipeline.Assigned)
	if d := w.task().Dispatch; d.Attempt != 2 || d.Agent != "mira" || w.task().Taken() {
		t.Errorf("handed out as %+v", d)
	}
}

// Whoever gives a task to another agent that failed or was rejected has it handed out
// again; not if he sets its status too.
func TestGivenToAnother(t *testing.T) {
	t.Parallel()
	for _, status := range []pipeline.Status{pipeline.Failed, pipeline.Rejected} {
		w := newWorld(t)
		w.taken()
		w.moveTo(status)
		w.must(Command{Task: 1, By: ada, Do: Edits{Agent: ptr("mira")}})
		w.want(pipeline.New)
		w.must(Command{Task: 1, By: ada, Do: Edits{Status: &status, Agent: ptr("devdas")}})
		w.want(status)
		w.checkRebuild()
	}
}

// Wakes: each has a key of its own; an answer settles it for all tasks that it names.
func TestWakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.handedOut()
	begin := func(key string, version int64) error {
		return w.do(Command{Task: 1, Agent: "devdas", By: boss, Do: BeginWake{Version: version, Key: key, Via: pipeline.TriggerExec, Tasks: []pipeline.TaskID{1}, AskedAt: w.now}})
	}
	if err := begin("", w.task().Version-1); !errors.Is(err, ErrOutdated) {
		t.Errorf("a wake planned on an older state: %v", err)
	}
	if err := begin("", w.task().Version); err != nil {
		t.Fatal(err)
	}
	key := w.task().Wakes[0].Key
	w.must(Command{Task: 1, By: boss, Do: SettleWake{Key: key, Answer: WakeUnsent}})
	if wake := w.task().WakeNamed(key); wake.Sent || wake.MaybeQueued() {
		t.Errorf("a wake that was not sent: %+v", wake)
	}
	if err := begin(key, w.task().Version); err != nil {
		t.Fatal(err)
	}
	w.must(Command{Task: 1, By: boss, Do: SettleWake{Key: key, Answer: WakeAccepted}})
	if t1 := w.task(); len(t1.Wakes) != 1 || t1.Wakes[0].Accepted.IsZero() || t1.Woken == nil || t1.Woken.Key != key {
		t.Errorf("an accepted wake: %+v, %+v", t1.Wakes, t1.Woken)
	}
	if err := begin("", w.task().Version); err != nil {
		t.Fatal(err)
	}
	if keys := w.task().Wakes; keys[1].Key == keys[0].Key || keys[1].Attempt <= keys[0].Attempt {
		t.Errorf("two wakes of one key: %+v", keys)
	}
	if err := w.do(Command{Task: 1, By: boss, Do: SettleWake{Key: "otm-x", Answer: WakeAccepted}}); !errors.Is(err, ErrOutdated) {
		t.Errorf("an answer to no wake: %v", err)
	}

	// Its run ends: with success by one report, and with a failure by another, which counts.
	end := func(r EndStart) string {
		n := len(w.events)
		w.must(Command{Task: 1, By: boss, Do: r})
		return story(w.events[n:])
	}
	w.must(Command{Task: 1, By: boss, Do: LoseStart{key}})
	for _, tt := range []struct {
		run  EndStart
		want string
	}{
		{EndStart{Key: key, Outcome: OutcomeOK}, "StartEnded"},
		{EndStart{Key: key, Outcome: OutcomeOK}, ""},
		{EndStart{Key: key, Outcome: OutcomeFailed, Detail: "no model", RetryAfter: time.Minute}, "StartEnded"},
		{EndStart{Key: key, Outcome: OutcomeOK, LastWords: "I am done"}, "StartEnded"},
		{EndStart{Key: key, Outcome: OutcomeOK, LastWords: "or not"}, ""},
		{EndStart{Key: "of another", Outcome: OutcomeOK}, ""},
	} {
		if got := end(tt.run); got != tt.want {
			t.Errorf("%+v made %q, want %q", tt.run, got, tt.want)
		}
	}
	if wake := w.task().WakeNamed(key); wake.Outcome != OutcomeFailed || wake.Exit != "no model" || wake.LastWords != "I am done" || wake.RetryAt.IsZero() || wake.Unknown.IsZero() {
		t.Errorf("the wake ended as %+v", wake)
	}
	w.checkRebuild()
}

// An agent whose runs fail is left alone, until a person resumes it.
func TestJudgeRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	judge := func(j JudgeStart) *AgentState {
		j.MaxFailures = 2
		j.Setup = Setup{Config: "c", Program: "/bin/a"}
		w.must(Command{By: boss, Agent: "Dev Das", Do: j})
		return w.state.Agents["dev_das"]
	}
	ended := func(key string, progress bool) *StartEnd {
		return &StartEnd{Start: EndedStart{Key: key, StartResult: StartResult{Ended: w.now}}, Progress: progress}
	}
	if a := judge(JudgeStart{End: ended("k1", false)}); a.Failures != 1 || !a.LeftAlone.IsZero() || !a.NextStart.Equal(a.LastStart.Ended.Add(pauses[0])) {
		t.Errorf("after one failure: %+v", a)
	}
	n := len(w.events)
	if judge(JudgeStart{End: ended("k1", false)}); len(w.events) != n {
		t.Error("a run is judged twice")
	}
	if a := judge(JudgeStart{End: ended("k2", false)}); a.Failures != 2 || a.LeftAlone.IsZero() {
		t.Errorf("after two failures: %+v", a)
	}
	w.must(Command{By: ada, Agent: "dev das", Do: ResumeAgent{}})
	a := w.state.Agents["dev_das"]
	if a.Failures != 0 || !a.LeftAlone.IsZero() || a.Resumed.IsZero() {
		t.Errorf("after it was resumed: %+v", a)
	}
	if a := judge(JudgeStart{Started: a.Resumed}); !a.Resumed.IsZero() {
		t.Errorf("after its start: %+v", a)
	}
	judge(JudgeStart{End: ended("k3", false)})
	if a := judge(JudgeStart{Asked: true}); a.Failures != 0 {
		t.Errorf("after a person sent a task out again: %+v", a)
	}
	judge(JudgeStart{End: ended("k4", false)})
	w.must(Command{By: ada, Agent: "dev das", Do: PauseAgent{Reason: "not now"}})
	if a := judge(JudgeStart{End: ended("k5", true)}); a.Failures != 0 || a.LastStart.Key != "k5" || a.Paused == nil || a.Paused.By != ada || a.Paused.Reason != "not now" {
		t.Errorf("after progress, paused: %+v", a)
	}
	w.must(Command{By: ada, Agent: "dev das", Do: ResumeAgent{}})
	if a := w.state.Agents["dev_das"]; a.Paused != nil {
		t.Errorf("resumed: %+v", a)
	}
}

// Effects: which sinks a change concerns.
func TestEffects(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		from    func(*world)
		command Command
		stale   string
	}{
		{"a new task", nil, Command{ID: "d", Task: 1, By: boss, Do: Request{Task: pipeline.Task{ID: 1, Title: "a", Agent: "b", Steps: []string{"c"}}}}, "render board"},
		{"a title before the hand-out", (*world).requested, Command{Task: 1, By: ada, Do: Edits{Title: ptr("x")}}, "render board"},
		{"a title of a task that an agent has", (*world).taken, Command{Task: 1, By: ada, Do: Edits{Title: ptr("x")}}, "render entry board"},
		{"a title of a task that is over", in(pipeline.Done), Command{Task: 1, By: ada, Do: Edits{Seen: true, Title: ptr("x")}}, "render"},
		{"the hand-out", (*world).requested, Command{Task: 1, By: boss, Do: HandOut{Agent: "devdas", Workspace: "/w"}}, "render entry board"},
		{"the hand-out to a person", (*world).requested, Command{Task: 1, By: boss, Do: HandOut{Agent: "devdas"}}, "render board"},
		{"an end that the board shows", (*world).taken, Command{Task: 1, By: ada, Do: Edits{Seen: true, Status: ptr(pipeline.Rejected)}}, "render entry board"},
		{"a result", (*world).taken, Command{Task: 1, By: devdas, Do: Report{Result: "x"}}, "board"},
		{"a refused report", (*world).taken, Command{Task: 1, By: devdas, Do: FailedReport{Why: "x"}}, ""},
		{"a deleted row", (*world).taken, Command{Task: 1, By: ada, Do: LoseRow{"Rec1"}}, "entry"},
		{"the history", func(w *world) { in(pipeline.Done)(w); w.show() }, Command{Task: 1, By: boss, Do: Archive{Row: pipeline.Row{ID: "Rec1"}}}, "board"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tt.from != nil {
				tt.from(w)
			}
			before := w.task()
			if before != nil && before.Unshown() {
				w.show()
				before = w.task()
			}
			w.must(tt.command)
			stale, settled := Effects(before, w.task())
			var names []string
			for _, s := range stale {
				names = append(names, string(s))
			}
			if got := strings.Join(names, " "); got != tt.stale {
				t.Errorf("%q are stale, want %q", got, tt.stale)
			}
			if shown := len(settled) > 0; shown == strings.Contains(tt.stale, "board") {
				t.Errorf("settled: %v", settled)
			}
		})
	}
}

// Statuses that a task passed are known until the board shows the present one.
func TestPassedStatuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.requested()
	w.must(Command{Task: 1, By: boss, Do: HandOut{Agent: "devdas", Workspace: "/w"}})
	w.must(Command{Task: 1, By: devdas, Do: Take{TakenByNext}})
	if got := w.task().Passed; !slices.Equal(got, []pipeline.Status{pipeline.Assigned}) {
		t.Errorf("passed %v", got)
	}
	w.show()
	if got := w.task().Passed; got != nil {
		t.Errorf("passed %v, and the board shows it", got)
	}
}

// A person who blocks a task that nobody has, and gives it to somebody, means both.
func TestBlockedAndGivenAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.requested()
	w.must(Command{Task: 1, By: ada, Do: Edits{Status: ptr(pipeline.Blocked), Agent: ptr("archibald")}})
	if got := w.task(); got.Status != pipeline.Blocked || got.Agent != "archibald" {
		t.Errorf("it is %s, of %s", got.Status, got.Agent)
	}
}

// C8: a report that is older than the hand-out counts as one of the agent that had the task
// before, if there was one.
func TestReportOfAFormerAgent(t *testing.T) {
	t.Parallel()
	taken := func(w *world) {
		w.handedOut()
		w.must(Command{Task: 1, By: devdas, Do: Take{TakenByNext}})
	}
	woken := func(w *world) {
		w.handedOut()
		w.must(Command{Task: 1, By: boss, Agent: "devdas", Do: BeginWake{Version: w.task().Version, AskedAt: w.now}})
	}
	for _, tt := range []struct {
		name   string
		before func(*world)
		to     string        // who gets the task
		age    time.Duration // of the report, at the hand-out
		back   time.Duration // by which the clock is set back after the hand-out
		want   string
	}{
		{"of who took it", taken, "mira", time.Second, 0, "former"},
		{"of who was woken", woken, "mira", time.Second, 0, "former"},
		{"of the new agent", taken, "mira", -time.Second, 0, ""},
		{"nothing was heard of who had it", (*world).handedOut, "mira", time.Second, 0, ""},
		{"handed out again", taken, "devdas", time.Second, 0, ""},
		{"clock set back", taken, "mira", time.Minute, time.Hour, ""},
	} {
		w := newWorld(t)
		tt.before(w)
		w.show()
		if tt.to == "devdas" {
			w.moveTo(pipeline.New)
		} else {
			w.must(Command{Task: 1, By: ada, Do: Edits{Agent: &tt.to}})
		}
		w.now = w.now.Add(time.Hour)
		w.must(Command{Task: 1, By: boss, Do: HandOut{Agent: tt.to, Workspace: "/work"}})
		dropped := w.now.Add(-tt.age)
		w.now = w.now.Add(time.Minute - tt.back)
		err := w.do(Command{ID: "u", Task: 1, By: ByAgent(tt.to), Do: Report{Drop: "u.json", Dropped: dropped, Status: pipeline.AgentDone}})
		if got := refusal(err); got != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
		}
		if tt.want != "" && !strings.Contains(err.Error(), "T-00001 was handed out to mira at ") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
