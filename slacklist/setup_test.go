package slacklist

import (
	"slices"
	"strings"
	"testing"

	"otm/internal/board/boardtest"
	"otm/pipeline"
)

// Each thing that a list lacks is found, with what to do about it, and whether
// OTM works without it.
func TestInspect(t *testing.T) {
	t.Parallel()
	agents := []pipeline.Agent{{Name: "devdas", Label: "devdas"}, {Name: "robin", Label: "robin", User: "U0ROBIN"}}
	find := func(w *world, what string) *Finding {
		t.Helper()
		in, err := w.client().Inspect(t.Context(), agents, nil)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(in.Findings, func(f Finding) bool { return strings.Contains(f.Error(), what) }); i >= 0 {
			return &in.Findings[i]
		}
		return nil
	}
	for _, status := range pipeline.Statuses {
		w := newWorld(t)
		if err := w.Server.RemoveOption("", w.ListID, w.Column(t, "Status", "select"), string(status)); err != nil {
			t.Fatal(err)
		}
		if f := find(w, `option "`+string(status)+`" of column "Status"`); f == nil || f.Optional != slices.Contains(optional, status) {
			t.Errorf("without the option %s: %+v", status, f)
		}
	}
	twice := newWorld(t)
	in, err := twice.client(func(o *Options) {
		o.Columns = map[pipeline.Field]string{pipeline.FieldReason: "Result"}
	}).Inspect(t.Context(), nil, nil)
	if err != nil || !slices.ContainsFunc(in.Findings, func(f Finding) bool { return !f.Optional && strings.Contains(f.Error(), "at once") }) {
		t.Errorf("one column for two: %+v, %v", in, err)
	}
	if f := find(twice, "check mark"); f != nil {
		t.Errorf("a list with a check mark: %+v", f)
	}
	if err := twice.Server.RemoveColumn("", twice.ListID, "Col00"); err != nil {
		t.Fatal(err)
	}
	if f := find(twice, "check mark"); f == nil || !f.Optional {
		t.Errorf("a list without a check mark: %+v", f)
	}
	w := newWorld(t)
	w.list(map[string]func(*boardtest.Column){"Assignee": retype("user")})
	if f := find(w, `option "devdas" of column "Assignee" needs a user`); f == nil || f.Optional || !strings.Contains(f.Mend, "slack_user") {
		t.Errorf("an agent without a user: %+v", f)
	}
	if f := find(w, "robin"); f != nil {
		t.Errorf("an agent with a user: %+v", f)
	}
}
