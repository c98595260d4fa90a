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

	"otm/internal/cli"
	"otm/internal/crash"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/history"
)

// archiveCommand is otm archive.
func archiveCommand(s cli.Streams) *cobra.Command {
	var olderThan string
	var yes, asJSON bool
	c := &cobra.Command{
		Use:   "archive",
		Short: "Move finished tasks from the board into the history",
		Long: `Move tasks that were done or cancelled long enough ago off the board: write them
into history.jsonl, verify it, then delete their rows and steps. Without --yes it
only says what it would do. It can be interrupted and run again without loss. otm
history shows what it wrote.`,
		Example: "  otm archive --older-than 7d\n  otm archive --older-than 7d --yes",
		RunE: func(c *cobra.Command, _ []string) error {
			if olderThan == "" {
				return cli.Errorf(cli.Usage, "--older-than is missing").Hint("otm archive --older-than 7d")
			}
			age, err := parseDays(olderThan)
			if err != nil {
				return cli.Errorf(cli.Usage, "--older-than %q: %w", olderThan, err).Hint("otm archive --older-than 7d")
			}
			h, err := home(c, s)
			if err != nil {
				return err
			}
			a := &archiver{home: h, board: h.board(h.stderrLog("otm")), before: h.Now().Add(-age)}
			report, err := a.run(c.Context(), yes)
			if err != nil {
				return err
			}
			if asJSON {
				err = safe.EncodeJSON(s.Out, report)
			} else {
				err = report.print(s, h.Now())
			}
			return errors.Join(err, report.unread())
		},
	}
	c.Flags().StringVar(&olderThan, "older-than", "", "how long ago they ended, such as 7d or 12h (required)")
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	c.Flags().BoolVar(&asJSON, "json", false, "print what was done as JSON")
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
	board  pipeline.Board
	before time.Time // only tasks that ended before
}

// archived is the report of an archiver.
type archived struct {
	Tasks []archivedTask `json:"tasks"`
	Rows  int            `json:"rows"` // rows of these tasks, steps included
	Done  bool           `json:"done"` // false: nothing was changed
	Left  int            `json:"left"` // deleted rows that the board still shows
	// Review counts the tasks at agent_done: they stay until a person reviews them.
	Review int `json:"review"`
	// Unread are tasks that stay because their record cannot be read.
	Unread []pipeline.TaskID `json:"unread,omitempty"`
	Room   boardStatus       `json:"room"` // the board afterwards
}

// unread is the error about tasks whose record cannot be read; nil if there are none.
func (r *archived) unread() error {
	if len(r.Unread) == 0 {
		return nil
	}
	return cli.Errorf(cli.Partial, "not archived, as their records cannot be read: %v", r.Unread).Hint("otm fsck")
}

// finished is a task that ended, with its entry for the history.
type finished struct {
	history.Entry
	since time.Time
}

type archivedTask struct {
	TaskID pipeline.TaskID `json:"taskId"`
	Title  string          `json:"title"`
	Status pipeline.Status `json:"status"`
	Since  time.Time       `json:"since"`
}

// maxArchived bounds the tasks of one batch, so that others get the board.
const maxArchived = 20

func (a *archiver) run(ctx context.Context, do bool) (*archived, error) {
	report := &archived{Tasks: []archivedTask{}, Done: do}
	deleted := map[string]bool{}
	for {
		more, err := a.batch(ctx, do, report, deleted)
		if err != nil {
			return nil, err
		}
		if !more {
			return report, nil
		}
	}
}

// batch archives some tasks and reports whether there may be more. The last batch
// only checks that the rows are gone.
func (a *archiver) batch(ctx context.Context, do bool, report *archived, deleted map[string]bool) (more bool, err error) {
	b, err := a.board.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, b.End()) }()
	if err := b.Refresh(ctx, 0); err != nil {
		return false, err
	}
	found := a.find(b, report, deleted)
	if do {
		found = found[:min(len(found), maxArchived)]
	}
	for _, e := range found {
		report.Tasks = append(report.Tasks, archivedTask{e.TaskID, e.Row.Title, e.Row.CurrentStatus(), e.since.UTC()})
		report.Rows += 1 + len(e.Steps)
	}
	if !do || len(found) == 0 {
		return false, nil
	}
	return true, a.archive(ctx, b, found, deleted)
}

// find returns the tasks to archive in the order of their ids, and counts the rows.
func (a *archiver) find(b pipeline.Batch, report *archived, deleted map[string]bool) []finished {
	walk := b.WalkAt().UTC()
	report.Left, report.Review, report.Unread, report.Room = 0, 0, nil, boardStatus{WalkAt: &walk}
	var found []finished
	for row := range b.Rows() {
		report.Room.Rows++
		switch {
		case deleted[row.ID]:
			report.Left++
		case row.Parent != "":
		case row.CurrentStatus() == pipeline.AgentDone:
			report.Review++
		case row.Task() == 0 || row.Odd || row.CurrentStatus() != pipeline.Done && row.CurrentStatus() != pipeline.Cancelled:
		default:
			rec, err := recordOf(a.home.Store, row.Task())
			if since, over := a.over(row, rec); !over {
				continue
			} else if err != nil { // the record may hold an update that is half written
				report.Unread = append(report.Unread, row.Task())
			} else {
				found = append(found, finished{a.entry(b, row, rec), since})
			}
		}
	}
	slices.Sort(report.Unread)
	slices.SortFunc(found, func(x, y finished) int { return int(x.TaskID) - int(y.TaskID) })
	return found
}

// over reports whether a done or cancelled task ended long enough ago. rec is nil if
// the record was lost, which keeps no row on the board, or cannot be read.
func (a *archiver) over(row *pipeline.Row, rec *pipeline.Record) (since time.Time, over bool) {
	since = time.Unix(row.Updated, 0)
	known := row.Updated != 0 // zero: the board does not say
	if rec != nil {
		if rec.RowID != row.ID {
			return time.Time{}, false // needs a person: two rows bear its id
		}
		if rec.Reporting != nil {
			return time.Time{}, false // the injector has still to finish an update
		}
		if e := rec.LastMove(row.CurrentStatus()); e != nil {
			since, known = e.At, true
		}
	}
	return since, known && !since.After(a.before)
}

// entry is the task's entry in the history.
func (a *archiver) entry(b pipeline.Batch, row *pipeline.Row, rec *pipeline.Record) history.Entry {
	e := history.Entry{ArchivedAt: a.home.Now().UTC(), TaskID: row.Task(), Row: *row, Record: rec}
	for _, s := range b.StepRows(row.ID) {
		e.Steps = append(e.Steps, *s)
	}
	return e // who shows the steps orders them by the record
}

// archive writes tasks into the history, marks their records, and deletes their
// rows, in this order. If we crash in between, the next run finds the entries in the
// history and continues with the rows.
func (a *archiver) archive(ctx context.Context, b pipeline.Batch, found []finished, deleted map[string]bool) error {
	fresh, err := a.unwritten(found)
	if err != nil {
		return err
	}
	if err := history.Append(a.home.Dir, fresh); err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	var ids []string
	for _, e := range found {
		if err := a.mark(ctx, &e.Entry); err != nil {
			return err
		}
		for _, s := range e.Steps {
			ids = append(ids, s.ID)
		}
		ids = append(ids, e.Row.ID)
	}
	crash.Point("archive.marked")
	if err := b.Delete(ctx, ids...); err != nil {
		return err
	}
	crash.Point("archive.deleted")
	for _, id := range ids {
		deleted[id] = true
	}
	return nil
}

// unwritten returns the tasks that the history does not have yet.
func (a *archiver) unwritten(found []finished) (fresh []history.Entry, err error) {
	known := map[pipeline.TaskID]*history.Entry{}
	for e, err := range history.Read(a.home.Dir) {
		if err == nil {
			known[e.TaskID] = e
		} else if !errors.Is(err, history.ErrNoEntry) {
			return nil, fmt.Errorf("read the history: %w", err)
		}
	}
	for i := range found {
		if k := known[found[i].TaskID]; k == nil || !k.Same(&found[i].Entry) {
			fresh = append(fresh, found[i].Entry)
		}
	}
	return fresh, nil
}

func (a *archiver) mark(ctx context.Context, e *history.Entry) error {
	_, err := a.home.Store.Change(ctx, e.TaskID, func(r *pipeline.Record) error {
		if r.RowID != e.Row.ID || r.ArchivedAt != nil && r.Status == e.Row.CurrentStatus() {
			return pipeline.ErrUnchanged // another task's row, or marked before a crash
		}
		r.ArchivedAt = &e.ArchivedAt
		r.SetStatus(e.Row.CurrentStatus(), e.ArchivedAt)
		r.Note(e.ArchivedAt, "otm archive", "archived", history.FileName)
		return nil
	})
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
		s.Warn("the board still shows %d of the deleted rows: run it again in a minute", r.Left)
	}
	return nil
}
