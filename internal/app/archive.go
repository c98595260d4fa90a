package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"otm/core"
	"otm/internal/cli"
	"otm/internal/crash"
	"otm/internal/engine"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/pipeline"
)

// archiveCommand is otm archive.
func archiveCommand(s cli.Streams) *cobra.Command {
	var olderThan string
	var yes bool
	c := &cobra.Command{
		Use:   "archive",
		Short: "Move finished tasks from the board into the history",
		Long: `Move tasks that were done or cancelled long enough ago off the board: keep
all of them in the history, then delete their rows and steps. Without --yes it
only says what it would do. It can be interrupted and run again without loss. otm
history shows them. OTM does so by itself with tasks that ended 7 days ago
(archive_after), and while less than a fifth of a list is free with those that
ended first.`,
		Example: "  otm archive --older-than 7d\n  otm archive --older-than 7d --yes",
		RunE: withHome(s, func(ctx context.Context, h *Home, _ []string) error {
			if olderThan == "" {
				return cli.Errorf(cli.Usage, "--older-than is missing").Hint("otm archive --older-than 7d")
			}
			age, err := parseDays(olderThan)
			if err != nil {
				return cli.Errorf(cli.Usage, "--older-than %q: %w", olderThan, err).Hint("otm archive --older-than 7d")
			}
			log := h.stderrLog("otm")
			e, err := newEngine(ctx, h, "otm", h.board(log), log)
			if err != nil {
				return err
			}
			a := &archiver{home: h, engine: e, age: age}
			report, err := a.run(ctx, yes)
			if err != nil {
				return err
			}
			return h.answer(report, func() error { return report.print(s, h.Now()) })
		}),
	}
	c.Flags().StringVar(&olderThan, "older-than", "", "how long ago they ended, such as 7d or 12h (required)")
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	jsonFlag(c, "print what was done as JSON")
	return c
}

// parseDays reads a duration that may be in days.
func parseDays(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, errors.New("not a number of days")
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("is negative")
	}
	return d, err
}

// archiver moves finished tasks off the board.
type archiver struct {
	home   *Home
	engine *engine.Engine
	age    time.Duration // only tasks that ended so long ago
}

// archived is the report of an archiver.
type archived struct {
	Tasks []archivedTask `json:"tasks"`
	Rows  int            `json:"rows"`          // rows of these tasks, steps included
	Done  bool           `json:"done"`          // false: nothing was changed
	Left  int            `json:"left"`          // tasks whose rows the board still shows
	Why   string         `json:"why,omitempty"` // why it still shows the first of them
	// Review counts the tasks at agent_done: they stay until somebody reviews them.
	Review int       `json:"review"`
	Room   view.Room `json:"room"` // the board afterwards
}

type archivedTask struct {
	TaskID pipeline.TaskID `json:"taskId"`
	Title  string          `json:"title"`
	Status pipeline.Status `json:"status"`
	Since  time.Time       `json:"since,omitzero"`
}

// maxArchived bounds the tasks that are archived together, so that others get the
// board.
const maxArchived = 20

// run archives the tasks that ended long enough ago; if do is false, it only says
// which. If we crash, the rows of archived tasks are deleted by whoever delivers next.
func (a *archiver) run(ctx context.Context, do bool) (*archived, error) {
	if err := a.engine.Refresh(ctx, 0); err != nil {
		return nil, err
	}
	before := a.home.Now().Add(-a.age) // what people did was seen by now
	tasks, err := a.engine.Tasks(ctx, core.Filter{Live: true})
	if err != nil {
		return nil, err
	}
	report := &archived{Tasks: []archivedTask{}, Done: do}
	var begun []pipeline.TaskID // archived before, and their rows are still there
	var over []*core.Task
	for _, t := range tasks {
		switch {
		case t.Status == pipeline.AgentDone:
			report.Review++
		case !t.ArchivedAt.IsZero() && t.Unshown():
			begun = append(begun, t.ID)
		case isOver(t, before):
			over = append(over, t)
			report.add(t)
		}
	}
	if do {
		if err := a.deleteRows(ctx, begun, report); err != nil {
			return nil, err
		}
		if err := a.archiveAll(ctx, over, report); err != nil {
			return nil, err
		}
	}
	snap, err := a.home.snapshot()
	if err != nil {
		return nil, err
	}
	report.Room = view.Room{WalkAt: snap.WalkAt.UTC(), Rows: len(snap.Rows)}
	return report, nil
}

// keepRoom archives tasks that ended archive_after ago; and while less than a fifth of the
// list is free, those that ended first: a full list takes no new task.
func keepRoom(ctx context.Context, c *component, e *engine.Engine) error {
	a, report := &archiver{home: c.home, engine: e}, &archived{}
	snap, err := c.home.snapshot()
	if err != nil {
		return err
	}
	tasks, err := e.Tasks(ctx, core.Filter{Live: true})
	if err != nil {
		return err
	}
	tasks = slices.DeleteFunc(tasks, func(t *core.Task) bool { return !isOver(t, a.home.Now()) })
	slices.SortStableFunc(tasks, func(a, b *core.Task) int { return a.StatusAt.Compare(b.StatusAt) })
	var over []*core.Task
	after := a.home.Config.Times.ArchiveAfter
	for _, t := range tasks {
		room := snap.Limit == 0 || snap.Count-report.Rows <= snap.Limit*4/5
		if room && (after == 0 || !isOver(t, a.home.Now().Add(-after))) {
			break
		}
		over = append(over, t)
		report.add(t)
	}
	if err = a.archiveAll(ctx, over, report); err == nil && len(over) > 0 {
		c.log.Info("archived tasks that ended first", "tasks", len(over), "rows", report.Rows)
	}
	return err
}

// add adds a task that is to be archived.
func (r *archived) add(t *core.Task) {
	r.Tasks = append(r.Tasks, archivedTask{t.ID, t.Title, t.Status, t.StatusAt.UTC()})
	r.Rows += 1 + len(t.Steps)
}

// isOver reports whether a task ended before a time, and its row is still there.
func isOver(t *core.Task, before time.Time) bool {
	return (t.Status == pipeline.Done || t.Status == pipeline.Cancelled) && !t.Away() && t.RowID != "" && !t.StatusAt.After(before)
}

// archiveAll archives tasks, some at a time.
func (a *archiver) archiveAll(ctx context.Context, tasks []*core.Task, report *archived) error {
	for some := range slices.Chunk(tasks, maxArchived) {
		if err := a.archive(ctx, some, report); err != nil {
			return err
		}
	}
	return nil
}

// archive archives some tasks, with what only their rows know, and deletes the rows.
func (a *archiver) archive(ctx context.Context, tasks []*core.Task, report *archived) error {
	snap, err := a.home.snapshot()
	if err != nil {
		return err
	}
	commands, ids := make([]core.Command, len(tasks)), make([]pipeline.TaskID, len(tasks))
	for i, t := range tasks {
		archive := core.Archive{Row: pipeline.Row{ID: t.RowID}}
		for _, r := range snap.Rows {
			switch t.RowID {
			case r.ID:
				archive.Row = r
			case r.Parent:
				archive.Steps = append(archive.Steps, r)
			}
		}
		commands[i], ids[i] = core.Command{At: a.home.Now(), By: core.Component("otm archive"), Task: t.ID, Do: archive}, t.ID
	}
	if _, err := a.engine.Do(ctx, commands...); err != nil {
		return err
	}
	crash.Point("archive.marked")
	return a.deleteRows(ctx, ids, report)
}

// deleteRows deletes the rows of archived tasks.
func (a *archiver) deleteRows(ctx context.Context, ids []pipeline.TaskID, report *archived) error {
	if len(ids) == 0 {
		return nil
	}
	left, err := a.engine.Deliver(ctx, ids...)
	report.Left += len(left)
	for _, id := range ids {
		if why := left[id]; why != nil && report.Why == "" {
			report.Why = why.Error()
		}
	}
	crash.Point("archive.deleted")
	return err
}

// print shows the report to a person.
func (r *archived) print(s cli.Streams, now time.Time) error {
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	for _, t := range r.Tasks {
		fmt.Fprintf(w, "%v\t%s\t%s\t%s\n", t.TaskID, t.Status, explain.Age(now.Sub(t.Since)), short(t.Title, 70))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	switch {
	case len(r.Tasks) == 0:
		fmt.Fprintln(s.Out, "nothing to archive")
	case !r.Done:
		fmt.Fprintf(s.Out, "would archive %s with %s of %d; --yes does it\n", explain.Count(len(r.Tasks), "task", "tasks"), explain.Count(r.Rows, "row", "rows"), r.Room.Rows)
	default:
		fmt.Fprintf(s.Out, "archived %s with %s; the board has %d left\n", explain.Count(len(r.Tasks), "task", "tasks"), explain.Count(r.Rows, "row", "rows"), r.Room.Rows)
	}
	if r.Left > 0 {
		s.Warn("the board still shows %d of the tasks: their rows are deleted as soon as the board allows: %s", r.Left, safe.Escape(r.Why))
	}
	return nil
}
