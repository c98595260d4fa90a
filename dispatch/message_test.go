package dispatch

import (
	"testing"

	"otm/core"
	"otm/pipeline"
)

// The exact texts of the contract.
func TestMessage(t *testing.T) {
	t.Parallel()
	const rest = `, do that one task to its end, report with otm-update, then run it again; stop at "no task waiting".`
	many := func(n int) (ids []pipeline.TaskID) {
		for i := range n {
			ids = append(ids, pipeline.TaskID(i+1))
		}
		return ids
	}
	twenty := "T-00001, T-00002, T-00003, T-00004, T-00005, T-00006, T-00007, T-00008, T-00009, T-00010, " +
		"T-00011, T-00012, T-00013, T-00014, T-00015, T-00016, T-00017, T-00018, T-00019, T-00020"
	for _, c := range []struct {
		name  string
		agent string
		tasks []pipeline.TaskID
		dir   string
		want  string
	}{
		{"one", "archibald", []pipeline.TaskID{44}, "",
			`Task T-00044 dispatched. Check task-dispatch.json and execute it: run "otm next --agent archibald"` + rest},
		{"two", "archibald", []pipeline.TaskID{44, 45}, "",
			`Tasks T-00044, T-00045 dispatched. Check task-dispatch.json and execute it: run "otm next --agent archibald"` + rest},
		{"as many as are named", "archibald", many(20), "",
			`Tasks ` + twenty + ` dispatched. Check task-dispatch.json and execute it: run "otm next --agent archibald"` + rest},
		{"more", "archibald", many(21), "",
			`Tasks ` + twenty + `, and 1 more dispatched. Check task-dispatch.json and execute it: run "otm next --agent archibald"` + rest},
		{"six digits", "a", []pipeline.TaskID{100000}, "",
			`Task T-100000 dispatched. Check task-dispatch.json and execute it: run "otm next --agent a"` + rest},
		{"a name with a space", "Otto Mann", []pipeline.TaskID{1}, "",
			`Task T-00001 dispatched. Check task-dispatch.json and execute it: run "otm next --agent 'Otto Mann'"` + rest},
		{"a directory", "a", []pipeline.TaskID{1}, "/srv/otm",
			`Task T-00001 dispatched. Check task-dispatch.json and execute it: run "otm next --agent a --dir '/srv/otm'"` + rest},
		{"a directory with a space and a quote", "a", []pipeline.TaskID{1}, "/Jo's data/o t m",
			`Task T-00001 dispatched. Check task-dispatch.json and execute it: run "otm next --agent a --dir '/Jo'\''s data/o t m'"` + rest},
	} {
		want(t, c.name, message(c.agent, c.tasks, c.dir), c.want)
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	want(t, "the contract's", core.WakeKey(33, "devdas", 1), "otm-T-00033-devdas-1")
	want(t, "a name with spaces", core.WakeKey(100000, "Otto von Mann", 12), "otm-T-100000-Otto_von_Mann-12")
	seen := map[string]bool{}
	for id := range pipeline.TaskID(12) {
		for _, agent := range []string{"a", "b", "a-1", "1"} {
			for attempt := range 12 {
				k := core.WakeKey(id+1, agent, attempt+1)
				if seen[k] {
					t.Errorf("%s is the key of two wakes", k)
				}
				seen[k] = true
			}
		}
	}
}
