package before

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"otm/core"
	"otm/core/store"
	"otm/internal/crash"
	"otm/internal/lock"
	"otm/pipeline"
	"otm/pipeline/rendering"
)

// now is when the tests import.
var now = time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)

func at(minute int) time.Time { return time.Date(2026, 3, 14, 9, minute, 0, 0, time.UTC) }

// records are files of format 1, with a task in every status.
var records = map[pipeline.TaskID]string{
	1: `{"taskId":"T-00001","dropId":"d1","drop":"d1.json","title":"Fresh","agent":"devdas","priority":"high","project":"p","type":"review","createdAt":"2026-03-14T09:00:00Z",
		"rowId":"Rec1","dedupUnverified":true,"steps":[{"title":"a","rowId":"Rec1a"},{"title":"b","rowId":"Rec1b"}],"status":"new",
		"history":[{"at":"2026-03-14T09:00:00Z","who":"otm-create","what":"dropped","detail":"d1.json"},{"at":"2026-03-14T09:01:00Z","who":"otm-injector","what":"row created","detail":"Rec1"}]}`,
	2: `{"taskId":"T-00002","dropId":"d2","drop":"d2.json","title":"Waits","agent":"devdas","priority":"normal","type":"action","createdAt":"2026-03-14T09:00:00Z",
		"rowId":"Rec2","steps":[{"title":"a","rowId":"Rec2a"}],"status":"assigned","attempt":2,
		"dispatch":{"attempt":1,"agent":"devdas","workspace":"/ws","at":"2026-03-14T09:02:00Z","entryAt":"2026-03-14T09:02:00Z","flippedAt":"2026-03-14T09:03:00Z"},
		"wakes":[{"attempt":2,"key":"otm-T-00002-devdas-2","agent":"devdas","via":"gateway","tasks":["T-00002"],"askedAt":"2026-03-14T09:03:00Z","sent":true,"acceptedAt":"2026-03-14T09:03:00Z"}],
		"history":[{"at":"2026-03-14T09:03:00Z","who":"otm-dispatcher","what":"status","detail":"new to assigned"}]}`,
	3: `{"taskId":"T-00003","dropId":"d3","drop":"d3.json","title":"At work","agent":"devdas","priority":"normal","type":"action","createdAt":"2026-03-14T09:00:00Z",
		"rowId":"Rec3","steps":[{"title":"a","rowId":"Rec3a","done":true},{"title":"b","rowId":"Rec3b"}],"status":"in_progress","attempt":1,
		"updates":[{"id":"u1","drop":"u1.json"},{"id":"u2","drop":"u2.json","sum":"s2"}],
		"dispatch":{"attempt":1,"agent":"devdas","workspace":"/ws","at":"2026-03-14T09:02:00Z","flippedAt":"2026-03-14T09:03:00Z","takenAt":"2026-03-14T09:04:00Z","takenBy":"otm next"},
		"heard":{"devdas":{"at":"2026-03-14T09:05:00Z","tookAt":"2026-03-14T09:04:00Z","givenAt":"2026-03-14T09:04:00Z","progressAt":"2026-03-14T09:05:00Z"}},
		"history":[{"at":"2026-03-14T09:03:00Z","who":"otm-dispatcher","what":"status","detail":"new to assigned"},{"at":"2026-03-14T09:04:00Z","who":"agent devdas","what":"taken","detail":"otm next"},
			{"at":"2026-03-14T09:05:00Z","who":"agent devdas","what":"status","detail":"assigned to in_progress"},{"at":"2026-03-14T09:05:00Z","who":"agent devdas","what":"step done","detail":"a"}]}`,
	4: `{"taskId":"T-00004","dropId":"d4","drop":"d4.json","title":"Asks","agent":"devdas","priority":"normal","type":"action","createdAt":"2026-03-14T09:00:00Z",
		"rowId":"Rec4","steps":[{"title":"a","rowId":"Rec4a"}],"status":"blocked","reason":"which one?","resumedAt":"2026-03-14T09:05:00Z",
		"history":[{"at":"2026-03-14T09:06:00Z","who":"agent devdas","what":"status","detail":"in_progress to blocked"}]}`,
	5: `{"taskId":"T-00005","dropId":"d5","drop":"d5.json","title":"To review","agent":"devdas","priority":"normal","type":"action","createdAt":"2026-03-14T09:00:00Z",
		"rowId":"Rec5","steps":[{"title":"a","rowId":"Rec5a","done":true}],"status":"agent_done","result":"merged",
		"history":[{"at":"2026-03-14T09:06:00Z","who":"otm-completion-detector","what":"status","detail":"in_progress to agent_done"}]}`,
	6: `{"taskId":"T-00006","dropId":"d6","drop":"d6.json","title":"Over","agent":"devdas","priority":"normal","type":"action","createdAt":"2026-03-14T09:00:00Z",
		"rowId":"Rec6","steps":[{"title":"a","rowId":"Rec6a","done":true}],"status":"done",
		"history":[{"at":"2026-03-14T09:06:00Z","who":"otm-completion-detector","what":"status","detail":"in_progress to agent_done"},{"at":"2026-03-14T09:07:00Z","who":"Ada","what":"changed status","detail":"agent_done to done"}]}`,
	7:  stray(7, "cancelled"),
	8:  stray(8, "pending"),
	9:  stray(9, "rejected"),
	10: stray(10, "failed"),
	11: `{"taskId":"T-00011","title":"Typed and gone","agent":"robin","createdAt":"2026-03-14T09:00:00Z","rowId":"Rec11","steps":[{"title":"a"}],"status":"new","goneAt":"2026-03-14T09:08:00Z"}`,
	12: `{"taskId":"T-00012","dropId":"d12","drop":"d12.json","title":"Archived","agent":"devdas","createdAt":"2026-03-14T09:00:00Z","rowId":"Rec12","steps":[{"title":"a","rowId":"Rec12a","done":true}],
		"status":"done","archivedAt":"2026-03-14T09:09:00Z"}`,
	13: `{"taskId":"T-00013","dropId":"d13","drop":"d13.json","title":"In the making","agent":"devdas","createdAt":"2026-03-14T09:00:00Z","rowAskedAt":"2026-03-14T09:00:00Z","steps":[{"title":"a"}]}`,
	15: `{"taskId":"T-00015","dropId":"d15","drop":"d15.json","title":"Opened again","agent":"devdas","createdAt":"2026-03-14T09:00:00Z","rowId":"Rec15","steps":[],"status":"new"}`,
}

// stray is the record of a task that a person put into a status.
func stray(id pipeline.TaskID, status string) string {
	return fmt.Sprintf(`{"taskId":%q,"dropId":"d%d","drop":"d%[2]d.json","title":"By hand","agent":"devdas","createdAt":"2026-03-14T09:00:00Z","rowId":"Rec%[2]d","steps":[{"title":"a","rowId":"Rec%[2]da"}],
		"status":%[3]q,"history":[{"at":"2026-03-14T09:06:00Z","who":"board","what":"changed status","detail":"new to %[3]s"}]}`, id.String(), id, status)
}

// formerHistory is a history.jsonl with a line that was torn and one that is none.
const formerHistory = `{"archivedAt":"2026-03-14T09:09:00Z","taskId":"T-00012","row":{"id":"Rec12","title":"Archived","taskId":"T-00012","status":"done","updated":7},"steps":[{"id":"Rec12a","parent":"Rec12","title":"a","checked":true}]}
no entry
{"archivedAt":"2026-03-14T09:01:00Z","taskId":"T-00014","row":{"id":"Rec14","title":"Once","taskId":"T-00014","status":"done"},"steps":[]}
{"archivedAt":"2026-03-14T09:02:00Z","taskId":"T-00014","row":{"id":"Rec14","title":"Only the line is left","taskId":"T-00014","assignee":"robin","status":"cancelled","created":1773478800},"steps":[{"id":"Rec14a","parent":"Rec14","title":"x","checked":true}]}
{"archivedAt":"2026-03-14T09:03:00Z","taskId":"T-00015","row":{"id":"Rec15","title":"Opened again","taskId":"T-00015","status":"done"},"steps":[]}
{"archivedAt":"2026-03-14T09:04:00Z","taskId":"T-00016","row":{"id":"Rec16","title":"Its record is here"},"steps":[],"record":` +
	`{"taskId":"T-00016","dropId":"d16","drop":"d16.json","title":"Its record is here","agent":"devdas","createdAt":"2026-03-14T09:00:00Z","rowId":"Rec16","steps":[],"status":"done","updates":[{"id":"u16","drop":"u16.json"}]}}
{"archivedAt":"2026-03-14T09:05:00Z","taskId":"T-000`

// former makes a directory of format 1.
func former(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for id, text := range records {
		put("tasks/"+id.String()+".json", text)
	}
	put("tasks/T-00017.json", `{"taskId":"T-00017","title":`)
	put("tasks/T-00018.json", records[1]) // a copy
	put("tasks/T-00019.json.corrupt-1", "x")
	put("agent-states/devdas.json", `{"agent":"devdas","config":"c","failures":2,"fruitless":3,"stumbled":{"T-00003":1},"nextStart":"2026-03-14T10:00:00Z"}`)
	put("agent-states/bad.json", "{")
	put(historyFile, formerHistory)
	return dir
}

func open(t testing.TB, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), dir, store.Options{BusyTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// everything is what a store holds of tasks, agents and commands.
type everything struct {
	Tasks  []*core.Task
	Agents []*core.AgentState
	Did    []string
	Lines  map[pipeline.TaskID][]core.OldLine
	Rows   map[pipeline.TaskID]*pipeline.Row
	Events int
}

func held(t testing.TB, s *store.Store) (all everything) {
	t.Helper()
	ctx := context.Background()
	tasks, err := s.Tasks(ctx, core.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	all.Tasks = tasks
	for _, name := range []string{"devdas", "bad"} {
		a, err := s.Agent(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		all.Agents = append(all.Agents, a)
	}
	for id, task := range map[string]pipeline.TaskID{"d1": 1, "d3": 3, "d12": 12, "d13": 13, "d16": 16, "u1": 3, "u2": 3, "u16": 16, "nobody": 3} {
		done, did, err := s.Did(ctx, core.DropCommand(id, task))
		if err != nil {
			t.Fatal(err)
		}
		if did {
			all.Did = append(all.Did, fmt.Sprintf("%s %v %s %s", id, done.Task, done.Drop, done.Sum))
		}
	}
	slices.Sort(all.Did)
	events, err := s.Events(ctx, core.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	all.Events, all.Lines, all.Rows = len(events), map[pipeline.TaskID][]core.OldLine{}, map[pipeline.TaskID]*pipeline.Row{}
	for _, e := range events {
		if i, ok := e.Data.(core.Imported); ok {
			all.Lines[e.Task], all.Rows[e.Task] = i.Lines, i.Row
		}
	}
	differ, err := store.Check(ctx, s)
	if err != nil || len(differ) > 0 {
		t.Errorf("the tables do not follow from the events: %v, %v", differ, err)
	}
	return all
}

// TestImport: tasks in every status, archived ones, the drops that were carried out and
// the states of agents are taken over. What cannot be read is left out, and said.
func TestImport(t *testing.T) {
	t.Parallel()
	dir := former(t)
	s := open(t, dir)
	var said bytes.Buffer
	if err := Import(t.Context(), dir, s, now, slog.New(slog.NewTextHandler(&said, nil))); err != nil {
		t.Fatal(err)
	}
	all := held(t, s)
	var summary []string
	for _, task := range all.Tasks {
		summary = append(summary, fmt.Sprintf("%v %s %s<%s by %s at %s", task.ID, task.Title, task.Status, task.Previous, task.StatusBy, task.StatusAt.Format("15:04")))
	}
	want := []string{
		"T-00001 Fresh new< by  at 09:01", "T-00002 Waits assigned<new by otm-dispatcher at 09:03", "T-00003 At work in_progress<assigned by agent devdas at 09:05",
		"T-00004 Asks blocked<in_progress by agent devdas at 09:06", "T-00005 To review agent_done<in_progress by otm-completion-detector at 09:06",
		"T-00006 Over done<agent_done by Ada at 09:07", "T-00007 By hand cancelled<new by board at 09:06", "T-00008 By hand dormant<new by board at 09:06",
		"T-00009 By hand rejected<new by board at 09:06", "T-00010 By hand failed<new by board at 09:06", "T-00011 Typed and gone new< by  at 09:00",
		"T-00012 Archived done< by  at 09:00", "T-00014 Only the line is left cancelled< by  at 09:00", "T-00015 Opened again new< by  at 09:00", "T-00016 Its record is here done< by  at 09:00",
	}
	if !slices.Equal(summary, want) {
		t.Errorf("the tasks are\n%s\nwant\n%s", strings.Join(summary, "\n"), strings.Join(want, "\n"))
	}
	if want := []string{"d1 T-00001 d1.json ", "d12 T-00012 d12.json ", "d16 T-00016 d16.json ", "d3 T-00003 d3.json ", "u1 T-00003 u1.json ", "u16 T-00016 u16.json ", "u2 T-00003 u2.json s2"}; !slices.Equal(all.Did, want) {
		t.Errorf("carried out: %q, want %q", all.Did, want)
	}
	if a := all.Agents[0]; a.Failures != 2 || a.Fruitless != 3 || a.Stumbled[3] != 1 || !a.NextStart.Equal(at(60)) || all.Agents[1].Version != 0 {
		t.Errorf("agents: %+v, %+v", a, all.Agents[1])
	}
	for _, text := range []string{"file=T-00017.json", "file=T-00018.json", "file=bad.json", "file=history.jsonl line=2", "file=history.jsonl line=7"} {
		if !strings.Contains(said.String(), text) {
			t.Errorf("%q is not said:\n%s", text, &said)
		}
	}
	if n := strings.Count(said.String(), "\n"); n != 5 {
		t.Errorf("%d lines are said:\n%s", n, &said)
	}
	for _, name := range []string{"tasks/T-00001.json", "tasks/T-00017.json", "tasks/T-00019.json.corrupt-1", "agent-states/bad.json", historyFile} {
		if _, err := os.Stat(filepath.Join(dir, Folder, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, recordsDir)); err == nil {
		t.Error("the records are still in their place")
	}
}

// TestImportKeepsAll: what a record says of hand-outs, wakes, steps, what was heard and
// the lines of its history comes over whole, and the board needs no write for it.
func TestImportKeepsAll(t *testing.T) {
	t.Parallel()
	dir := former(t)
	s := open(t, dir)
	if err := Import(t.Context(), dir, s, now, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	all := held(t, s)
	tasks := map[pipeline.TaskID]*core.Task{}
	for _, task := range all.Tasks {
		tasks[task.ID] = task
		if task.Unshown() {
			t.Errorf("%v is to be written on the board: %v", task.ID, task.Stale())
		}
	}
	waits, work := tasks[2], tasks[3]
	if w := waits.WakeNamed("otm-T-00002-devdas-2"); w == nil || !w.Accepted.Equal(at(3)) || w.Via != pipeline.TriggerGateway || waits.Attempt != 2 || !waits.Waiting() {
		t.Errorf("a task that waits: %+v", waits)
	}
	if id, err := s.TaskOfWake(t.Context(), "otm-T-00002-devdas-2"); id != 2 || err != nil {
		t.Errorf("its wake is that of %v, %v", id, err)
	}
	if d := work.Dispatch; !work.AtWork() || !d.TakenAt.Equal(at(4)) || d.TakenBy != core.TakenByNext || d.Workspace != "/ws" || !d.FlippedAt.Equal(at(3)) {
		t.Errorf("a task at work: %+v, %+v", work, d)
	}
	if h := work.HeardOf("devdas"); !h.Progress.Equal(at(5)) || !h.Given.Equal(at(4)) {
		t.Errorf("heard: %+v", h)
	}
	if steps := work.Steps; len(steps) != 2 || !steps[0].Done || steps[1].Done || steps[1].ID != 2 || steps[1].RowID != "Rec3b" || work.LastStep != 2 {
		t.Errorf("steps: %+v", steps)
	}
	if lines := all.Lines[3]; len(lines) != 4 || lines[1] != (core.OldLine{At: at(4), Who: "agent devdas", What: "taken", Detail: "otm next"}) {
		t.Errorf("lines: %+v", lines)
	}
	if f := tasks[1]; f.Project != "p" || f.Priority != pipeline.High || f.Type != "review" || !f.Unverified || f.Drop != "d1.json" {
		t.Errorf("a fresh task: %+v", f)
	}
	if b := tasks[4]; b.Reason != "which one?" || !b.ResumedAt.Equal(at(5)) {
		t.Errorf("a blocked task: %+v", b)
	}
	if d := tasks[6]; !d.CompletedAt.Equal(at(6)) || !d.ValidatedAt.Equal(at(7)) || tasks[5].Result != "merged" || !tasks[7].CancelledAt.Equal(at(6)) {
		t.Errorf("tasks that are over: %+v", d)
	}
	if g := tasks[11]; !g.GoneAt.Equal(at(8)) || g.DropID != "" {
		t.Errorf("a typed task: %+v", g)
	}
	if a := tasks[12]; !a.ArchivedAt.Equal(at(9)) || all.Rows[12] == nil || all.Rows[12].Updated != 7 || !tasks[15].ArchivedAt.IsZero() || all.Rows[15] != nil {
		t.Errorf("an archived task: %+v, %+v", a, all.Rows[12])
	}
	if l := tasks[14]; !l.ArchivedAt.Equal(at(2)) || l.Agent != "robin" || len(l.Steps) != 1 || !l.Steps[0].Done || !l.CreatedAt.Equal(at(0)) {
		t.Errorf("a task of which only its line is left: %+v", l)
	}
}

// killed is what a crash point throws.
type killed struct{}

// TestImportKilled: an import that is killed at any of its points, also after programs
// wrote renderings again, comes to the same when it runs again, and takes nothing twice.
func TestImportKilled(t *testing.T) { // it sets crash.Hook
	dir := former(t)
	s := open(t, dir)
	points, passed := 0, map[string]bool{}
	crash.Hook = func(point string) {
		if strings.HasPrefix(point, "import.") {
			points++
			passed[point] = true
		}
	}
	t.Cleanup(func() { crash.Hook = nil })
	if err := Import(t.Context(), dir, s, now, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	want := held(t, s)
	if points < 4 || !passed["import.chunk"] || !passed["import.aside"] {
		t.Fatalf("%d points were passed: %v", points, passed)
	}
	for n := 1; n <= points+1; n++ {
		for _, rendered := range []bool{false, true} {
			dir := former(t)
			s := open(t, dir)
			left := n
			crash.Hook = func(point string) {
				if strings.HasPrefix(point, "import.") {
					if left--; left == 0 {
						panic(killed{})
					}
				}
			}
			func() {
				defer func() {
					if r := recover(); r != nil && r != (killed{}) {
						panic(r)
					}
				}()
				if err := Import(t.Context(), dir, s, now, slog.New(slog.DiscardHandler)); err != nil {
					t.Fatal(err)
				}
			}()
			crash.Hook = nil
			if _, err := os.Stat(filepath.Join(dir, recordsDir)); rendered && err != nil {
				for _, task := range held(t, s).Tasks {
					if err := rendering.Write(dir, task.Rendering()); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := Import(t.Context(), dir, s, now.Add(time.Hour), slog.New(slog.DiscardHandler)); err != nil {
				t.Errorf("killed at point %d, rendered %v: %v", n, rendered, err)
				continue
			}
			if got := held(t, s); !reflect.DeepEqual(got, want) {
				t.Errorf("killed at point %d, rendered %v: it comes to\n%+v\nwant\n%+v", n, rendered, got, want)
			}
			if kept, err := os.ReadFile(filepath.Join(dir, Folder, "tasks", "T-00002.json")); err != nil || string(kept) != records[2] {
				t.Errorf("killed at point %d, rendered %v: kept is %q, %v", n, rendered, kept, err)
			}
		}
	}
}

// TestImportTwiceAtOnce: two programs that start at once take everything over once, also
// where a lock does not keep them apart.
func TestImportTwiceAtOnce(t *testing.T) {
	t.Parallel()
	alone := former(t)
	s := open(t, alone)
	if err := Import(t.Context(), alone, s, now, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	want := held(t, s)
	dir := former(t)
	if err := os.Mkdir(filepath.Join(dir, "locks"), 0o700); err != nil {
		t.Fatal(err)
	}
	var programs sync.WaitGroup
	for range 4 {
		own := open(t, dir)
		programs.Go(func() {
			l, err := lock.Acquire(t.Context(), filepath.Join(dir, "locks", "import"), time.Minute)
			if err == nil {
				defer l.Release()
				err = Import(t.Context(), dir, own, now, slog.New(slog.DiscardHandler))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	programs.Wait()
	if got := held(t, open(t, dir)); !reflect.DeepEqual(got, want) {
		t.Errorf("it comes to\n%+v\nwant\n%+v", got, want)
	}
}

// TestImportNothing: a directory without any task has nothing to take over.
func TestImportNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	if err := Import(t.Context(), dir, s, now, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if all := held(t, s); len(all.Tasks) != 0 || all.Events != 0 {
		t.Errorf("it holds %+v", all)
	}
}
