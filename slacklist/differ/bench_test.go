package differ

import (
	"fmt"
	"testing"
	"time"

	"otm/core"
	"otm/pipeline"
)

// BenchmarkCompare compares 5,000 rows, those of 2,500 tasks with one step each, of which
// nothing changed.
func BenchmarkCompare(b *testing.B) {
	var tasks []*core.Task
	index := &indexedBatch{fakeBatch: fakeBatch{walkAt: noon}, byID: map[string]*pipeline.Row{}, steps: map[string][]*pipeline.Row{}}
	for i := range 2500 {
		s := newScene()
		s.task.ID, s.task.RowID = pipeline.TaskID(i+1), fmt.Sprint("R", i)
		s.task.Shown.TaskID = s.task.ID
		s.task.Steps = s.task.Steps[:1]
		s.task.Steps[0].RowID = fmt.Sprint("S", i)
		s.task.Shown.Derived = progress("0", "100")
		s.row.Derived = progress("0", "100")
		s.row.ID, s.row.TaskID, s.a.ID, s.a.Parent = s.task.RowID, s.task.ID.String(), s.task.Steps[0].RowID, s.task.RowID
		tasks = append(tasks, s.task)
		index.rows = append(index.rows, s.row, s.a)
		index.byID[s.row.ID], index.byID[s.a.ID] = s.row, s.a
		index.steps[s.row.ID] = []*pipeline.Row{s.a}
	}
	for b.Loop() {
		if r := compare(index, tasks, agents, opts); len(r.commands) > 0 {
			b.Fatal(said(r))
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(time.Microsecond)/float64(b.N)/5000, "µs/row")
}

// indexedBatch finds rows as quickly as a real snapshot does.
type indexedBatch struct {
	fakeBatch
	byID  map[string]*pipeline.Row
	steps map[string][]*pipeline.Row
}

func (b *indexedBatch) Row(id string) *pipeline.Row            { return b.byID[id] }
func (b *indexedBatch) StepRows(parent string) []*pipeline.Row { return b.steps[parent] }
