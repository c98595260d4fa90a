package heartbeat

import (
	"errors"
	"strings"
	"testing"

	"otm/internal/explain"
)

func TestReport(t *testing.T) {
	t.Parallel()
	kept := explain.New(explain.DropKept, "file", "a.json", "reason", "no column").On(3)
	full := Report{Did: []Did{{"Dispatched", "task", 2}, {"Woke", "agent", 1}}, Waiting: 3, Trouble: errors.New("board: gone")}
	full.Needs(kept)
	full.Needs(kept) // once
	failed := Report{Did: []Did{{"Processed", "task", 1}}, Failed: []explain.Finding{explain.New(explain.RunNote, "note", "x")}}
	for want, r := range map[string]*Report{
		"Processed 0 tasks, 0 failures":  {Did: []Did{{"Processed", "task", 0}}},
		"Processed 1 task, 1 failure; x": &failed,
		"Dispatched 2 tasks, woke 1 agent, 0 failures, 3 waiting; T-00003: the drop a.json stays in the inbox: no column; board: gone": &full,
		"board: gone": {Trouble: full.Trouble},
	} {
		if got := r.Details(); got != want {
			t.Errorf("details %q, want %q", got, want)
		}
	}
	if full.Result() != Error || failed.Result() != Partial || (&Report{NeedsPerson: []explain.Finding{kept}}).Result() != Partial || (&Report{}).Result() != Success {
		t.Errorf("results %s, %s", full.Result(), failed.Result())
	}
	long := &Report{}
	for i := range 50 {
		long.Failed = append(long.Failed, explain.New(explain.TaskNoAgent, "name", i))
	}
	if s := long.Details(); !strings.HasSuffix(s, "; and 30 more") || !strings.Contains(s, `agent "19"`) || strings.Contains(s, `agent "20"`) || len(long.Findings()) != 20 {
		t.Errorf("details: %s", s)
	}
}
