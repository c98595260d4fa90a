package inject

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"otm/core"
	"otm/internal/board/boardtest"
	"otm/internal/crash/crashtest"
	"otm/pipeline"
	"otm/pipeline/counter"
	"otm/pipeline/inbox"
)

// TestC35TakingTurns: one agent drops many creates. A report and another agent's
// create that arrive meanwhile do not wait until all of them are made.
func TestC35TakingTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "x")
	w.sweepTo(1, 0, 0)
	const flood = 40
	for i := range flood {
		w.create(pipeline.TaskID(100+i), fmt.Sprint("Flood ", i))
	}
	board, made := w.eng.Board, 0
	w.eng.Board = slowBoard{board, func() {
		if made++; made == 8 {
			w.createFor("archibald", 2, "Of another agent")
			w.update(1, report{result: "r"})
		}
		w.clock.Advance(relook / 4) // each row takes so long
	}, func() {}}
	order := func() (reported, other, last int) {
		log := w.log.String()
		return strings.Index(log, "applied update"), strings.Index(log, "task=T-00002"), strings.LastIndex(log, "made row")
	}
	w.sweepTo(flood+2, 0, 0)
	reported, other, last := order()
	before := strings.Count(w.log.String()[:reported], "made row")
	if reported < 0 || before > 15 {
		t.Errorf("%d rows were made before the report was applied", before)
	}
	if other < 0 || other > last || strings.Count(w.log.String()[:other], "made row") > 15 {
		t.Errorf("%d rows were made before the other agent's", strings.Count(w.log.String()[:other], "made row"))
	}
}

// TestC35Order: reports come first; agents take turns, and tasks whose agent is not
// known. Within each the names decide. What is no report changes nothing of that.
func TestC35Order(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	put := func(kind inbox.Kind, name, data string) { w.put(kind, name, []byte(data)) }
	for i, agent := range []string{"dev", "dev", "DEV", "olga", "max"} {
		put(inbox.NewTasks, fmt.Sprintf("c%d.json", i), fmt.Sprintf(`{"taskId":"T-0000%d","title":"x","agent":%q}`, i+1, agent))
	}
	for i, id := range []int{1, 1, 2, 1, 2} {
		put(inbox.TaskUpdates, fmt.Sprintf("u%d.json", i), fmt.Sprintf(`{"taskId":"T-0001%d","result":"x"}`, id))
	}
	w.in.known = map[delivered]*waiting{}
	look := func() string {
		files, err := newLine(w.in).look(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range files {
			names = append(names, strings.TrimSuffix(f.file.Name, ".json"))
		}
		return strings.Join(names, " ")
	}
	if got, want := look(), "u0 u2 u1 u4 u3 c0 c3 c4 c1 c2"; got != want {
		t.Errorf("in the order %s, want %s", got, want)
	}
	put(inbox.TaskUpdates, "u5.json", "{")
	if got, want := look(), "u0 u2 u5 u1 u4 u3 c0 c3 c4 c1 c2"; got != want {
		t.Errorf("with a report that says nothing: %s, want %s", got, want)
	}
}

// TestC35AgentsTakeTurns: one agent reports on forty tasks, and another one later on
// one. The later report does not wait for the others, also if there is a file that is
// no report. The agents are those of the records, and of creates that wait.
func TestC35AgentsTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const flood = 40
	for i := range flood {
		w.createFor("olga", pipeline.TaskID(100+i), fmt.Sprint("Flood ", i))
	}
	w.createFor("archibald", 1, "Of another agent")
	w.sweepTo(flood+1, 0, 0)
	for i := range flood {
		w.update(pipeline.TaskID(100+i), report{result: "r"})
	}
	w.put(inbox.TaskUpdates, "z.json", []byte("{"))
	w.age(inbox.TaskUpdates, "z.json", 0)
	later := w.update(1, report{result: "r"})
	w.createFor("archibald", 2, "Waits")
	waits := w.update(2, report{result: "r"})
	files, err := newLine(w.in).look(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	place := func(name string) int {
		return slices.IndexFunc(files, func(f *waiting) bool { return f.file.Name == name })
	}
	if a, b := place(later), place(waits); a < 0 || a > 3 || b < a || b > 6 {
		t.Errorf("the later reports come at %d and %d", a, b)
	}
}

// TestC35ReportsStarveNoCreate: as long as reports come as fast as they are handled,
// creates have a turn all the same.
func TestC35ReportsStarveNoCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "x")
	w.sweepTo(1, 0, 0)
	w.createFor("olga", 2, "Waits")
	w.update(1, report{result: "first"})
	reports := 1
	w.in.Progress = func() {
		if reports < 50 {
			reports++
			w.update(1, report{result: fmt.Sprint("r", reports)})
		}
		w.clock.Advance(relook)
	}
	w.sweep()
	log := w.log.String()
	made := strings.Index(log, "task=T-00002 row=")
	if made < 0 {
		t.Fatalf("no row was made; log:\n%s", log)
	}
	if n := strings.Count(log[:made], "applied update"); n > 10 || reports < 50 {
		t.Errorf("%d of %d reports came before the create", n, reports)
	}
}

// TestC33PrintedIDIsTaken: otm-create printed an id, and a foreign file with that
// id sorts before its drop. The drop for which the counter gave the id out owns
// it; the foreign one is the conflict.
func TestC33PrintedIDIsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(inbox.NewTasks, "0.json", []byte(`{"taskId":"T-00001","title":"Foreign","agent":"devdas"}`))
	own := w.create(1, "Own", "x")
	w.put(inbox.NewTasks, "1.json", w.drop("devdas", 1, "Own", "x").Encode()) // a copy of it is the same task
	w.sweepTo(2, 1, 0)
	w.checkTask(1, "Own", "x")
	w.failed("0.json", inbox.Conflict, `T-00001 is another task: "Own"`, "otm retry --new-id 0.json")
	if r := w.processed(own); r.SlackItemID == "" {
		t.Errorf("result %+v", r)
	}
}

// TestC33CopiesOfAnOwner: a foreign file that copies the drop id or the title of a
// drop that still waits does not take its place: neither the task nor its steps are
// lost.
func TestC33CopiesOfAnOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := pipeline.DropIDInName(w.create(1, "Own", "x"))
	w.put(inbox.NewTasks, "00.json", []byte(`{"id":"`+id+`","taskId":"T-00001","title":"Fake","agent":"devdas"}`))
	w.put(inbox.NewTasks, "01.json", []byte(`{"taskId":"T-00001","title":"Own","agent":"devdas","subtasks":["evil"]}`))
	w.sweep()
	w.clock.Advance(time.Minute)
	w.sweep()
	w.checkTask(1, "Own", "x")
	w.failed("00.json", inbox.Conflict, `T-00001 is another task: "Own"`, "otm retry --new-id 00.json")
	if r := w.processed("01.json"); !r.SkippedDuplicate {
		t.Errorf("the copy: %+v", r)
	}
}

// TestC37FarIDs: drops whose ids lie far above the highest known one are refused
// and use no ids up; so do Task ID cells of the board.
func TestC37FarIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "x")
	w.sweepTo(1, 0, 0)
	for i := range 29 {
		w.put(inbox.NewTasks, fmt.Sprintf("far%d.json", i), w.drop("devdas", pipeline.MaxTaskID>>(i/2), "Far", "x").Encode())
	}
	if _, err := w.Server.AddRow("", w.ListID, titleCell(w, "typed"), boardtest.TextCell(w.Column(t, "Task ID", "text"), "T-999999998")); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(createAge)
	w.create(2, "B", "x")
	r := w.sweep()
	if r.Failed < 20 {
		t.Errorf("report %+v", r)
	}
	if next := w.counter(); next > 10*counter.MaxJump {
		t.Errorf("the counter was raised to %v", next)
	}
	w.failed("far0.json", inbox.Invalid, "more than 100000 above", "otm-create --from -")
}

// TestC44BeginsAsBlocked: a drop that says blocked with a reason is parked: it
// comes to the board as blocked, with its reason, and stays there. Another
// status is invalid.
func TestC44BeginsAsBlocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	put := func(name, more string) {
		id := map[string]string{"parked.json": "T-00001", "pending.json": "T-00002", "done.json": "T-00003", "bare.json": "T-00004"}[name]
		w.put(inbox.NewTasks, name, []byte(`{"taskId":"`+id+`","title":"A","agent":"devdas"`+more+`}`))
	}
	put("parked.json", `,"status":"blocked","reason":"waits for a key"`)
	put("pending.json", `,"status":"pending"`)
	put("done.json", `,"status":"done"`)
	put("bare.json", `,"status":"blocked"`)
	w.sweepTo(2, 2, 0)
	if row := w.row(1); row.Status != pipeline.Blocked || row.Reason != "waits for a key" {
		t.Errorf("row %+v", row)
	}
	if task := w.task(1); task.Status != pipeline.Blocked || task.Reason != "waits for a key" {
		t.Errorf("task %+v", task)
	}
	if row := w.row(2); row.Status != pipeline.New {
		t.Errorf("row %+v", row)
	}
	w.failed("done.json", inbox.Invalid, `status is "done"`)
	w.failed("bare.json", inbox.Invalid, "reason is missing")
}

// TestC45UsedUpdateID: a second update under a used id with other content is a
// conflict; the same content is skipped in silence.
func TestC45UsedUpdateID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "x")
	w.sweepTo(1, 0, 0)
	w.put(inbox.TaskUpdates, "a.json", []byte(`{"id":"u1","taskId":"T-00001","result":"first"}`))
	w.sweepTo(1, 0, 0)
	w.put(inbox.TaskUpdates, "b.json", []byte(`{"id":"u1","taskId":"T-00001","result":"first","createdAt":"2026-03-14T08:20:19Z"}`))
	w.put(inbox.TaskUpdates, "c.json", []byte(`{"id":"u1","taskId":"T-00001","result":"second"}`))
	w.sweepTo(1, 1, 0)
	if r := w.processed("b.json"); !r.SkippedDuplicate {
		t.Errorf("result %+v", r)
	}
	w.failed("c.json", inbox.Conflict, `its id belongs to another drop, "a.json"`, "otm show T-00001")
	if got := w.row(1).Result; got != "first" {
		t.Errorf("result on the board: %q", got)
	}
}

// TestC11TextsAreKept: a second attempt does not erase what the first one
// reported: the history has every result and reason with its author.
func TestC11TextsAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(1, "A", "x")
	w.sweepTo(1, 0, 0)
	w.dispatch(1)
	w.update(1, report{status: pipeline.Blocked, reason: "no key", result: "half"})
	w.update(1, report{status: pipeline.InProgress, result: "all"})
	w.sweepTo(2, 0, 0)
	var got []string
	for _, e := range w.eventsOf(1) {
		noted, _ := e.Data.(core.Noted)
		for _, text := range []*string{noted.Reason, noted.Result} {
			if text != nil && *text != "" {
				got = append(got, e.By.String()+": "+*text)
			}
		}
	}
	if want := []string{"agent devdas: no key", "agent devdas: half", "agent devdas: all"}; !slices.Equal(got, want) {
		t.Errorf("history has %q, want %q", got, want)
	}
}

// TestC42ClaimsAreClaims: a foreign drop says that a person asked for it. The
// history shows that as what the file claims, never as the person's doing.
func TestC42ClaimsAreClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(inbox.NewTasks, "a.json", []byte(`{"taskId":"T-00001","title":"A","agent":"devdas","by":"human","mood":"good"}`))
	w.sweepTo(1, 0, 0)
	e := w.eventsOf(1)[0]
	if data := e.Data.(core.TaskRequested); e.By.Kind != core.Creator || data.Claims != "human" {
		t.Errorf("event %+v", e)
	}
	if r := w.processed("a.json"); !slices.Equal(r.Ignored, []string{"mood"}) { // C14
		t.Errorf("result %+v", r)
	}
}

// An inbox that cannot be listed does not keep the other one.
func TestUnlistedInbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createFor("olga", 1, "Hers", "x")
	w.sweepTo(1, 0, 0)
	w.update(1, report{result: "r"})
	crashtest.Below(t, w.dir, func(step, path string) error {
		if step == "read directory" && path == w.box.Dir(inbox.NewTasks) {
			return syscall.EACCES
		}
		return nil
	})
	if r := w.sweep(); r.Processed != 1 || !errors.Is(r.Trouble, syscall.EACCES) || r.Due.IsZero() {
		t.Errorf("report %+v", r)
	}
}
