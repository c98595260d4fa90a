package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"otm/dispatch"
	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/slacklist"
)

// nextCommand is otm next.
func nextCommand(s cli.Streams) *cobra.Command {
	var agent string
	var another, asJSON bool
	c := &cobra.Command{
		Use:   "next",
		Short: "Take the next task of an agent",
		Long: `Take the most urgent task of an agent's dispatch file: mark it as taken, report
it as in progress, and print it with the commands to report on it. While the
task that was taken last is unfinished, print that one again.`,
		Example: "  otm next --agent devdas",
		RunE: func(c *cobra.Command, _ []string) error {
			if agent == "" {
				return cli.Errorf(cli.Usage, "--agent is missing").Hint("otm next --agent devdas")
			}
			h, err := home(c, s)
			if err != nil {
				return err
			}
			a, err := h.aiAgent(agent, "otm next --agent")
			if err != nil {
				return err
			}
			return h.next(c.Context(), a, another, asJSON)
		},
	}
	c.Flags().StringVar(&agent, "agent", "", "whose task (required)")
	c.Flags().BoolVar(&another, "another", false, "take another one even if the last is unfinished")
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON; null if nothing waits")
	return c
}

// aiAgent finds a configured agent that has a workspace, for a command.
func (h *Home) aiAgent(name, command string) (*pipeline.Agent, error) {
	a := h.Config.Agents.Named(name)
	switch {
	case a == nil && len(h.Config.Agents) == 0:
		return nil, cli.Errorf(cli.Usage, "no agents are configured").Hint("add [agents.%s] with a workspace to %s", safe.Quote(name), safe.Quote(filepath.Join(h.Dir, "otm.toml")))
	case a == nil:
		e := cli.Errorf(cli.Usage, "no agent %q is configured in %s; there are %s", name, safe.Quote(h.Dir), strings.Join(h.Config.Agents.Names(), ", "))
		if near := h.Config.Agents.Nearest(name); near != "" {
			return nil, e.Hint("%s %s", command, safe.Quote(near))
		}
		return nil, e.Hint("%s NAME, or with --dir where that one is configured", command)
	case a.Person:
		return nil, cli.Errorf(cli.Usage, "%s is a person: their tasks stand on the board", a.Name).Hint("otm list --agent %s", safe.Quote(a.Name))
	}
	return a, nil
}

// next takes a task, reports it as begun, and prints it.
func (h *Home) next(ctx context.Context, a *pipeline.Agent, another, asJSON bool) error {
	if !isDir(a.Workspace) {
		return cli.Errorf(cli.Partial, "the workspace of %s is missing: %s", a.Name, safe.Escape(a.Workspace)).Hint("mkdir -p %s", safe.Quote(a.Workspace))
	}
	said, err := h.said()
	if err != nil {
		return err
	}
	snapshot := sync.OnceValues(h.snapshot)
	desk := &dispatch.Desk{
		Dir: h.Dir, Records: h.Store, Agents: h.Config.Agents, Now: h.Now,
		Said: func(id pipeline.TaskID) ([]dispatch.Said, error) { return said[id], nil },
		Known: func(a *pipeline.Agent) ([]pipeline.TaskID, error) {
			snap, err := snapshot()
			if err != nil {
				return nil, err
			}
			return h.tasksOnBoard(snap, a), nil
		},
		Over: overOnBoard(snapshot),
		Warn: func(msg string) { h.Warn("%s", msg) },
	}
	taken, err := desk.Next(ctx, a, another)
	if err != nil {
		return err
	}
	if taken != nil && !taken.Continue {
		if err := h.reportBegun(taken.Entry.TaskID); err != nil {
			return err
		}
	}
	if taken == nil {
		h.noteOnItsWay(snapshot, a)
	}
	if asJSON {
		return h.printTakenJSON(taken)
	}
	h.printTaken(taken)
	return h.printFailedUpdates(a)
}

// overOnBoard reports whether the board, when it was last read, showed a task as
// ended or put off. If that cannot be read, the records decide alone.
func overOnBoard(snapshot func() (*slacklist.Snapshot, error)) func(pipeline.TaskID) bool {
	over := sync.OnceValue(func() map[pipeline.TaskID]bool {
		ids := map[pipeline.TaskID]bool{}
		snap, err := snapshot()
		if err != nil {
			return ids
		}
		for i := range snap.Rows {
			r := &snap.Rows[i]
			if s := r.CurrentStatus(); r.Task() != 0 && (s.Finished() || s == pipeline.Pending) {
				ids[r.Task()] = true
			}
		}
		return ids
	})
	return func(id pipeline.TaskID) bool { return over()[id] }
}

// tasksOnBoard are the tasks that the board gives to an agent, and that are not
// over.
func (h *Home) tasksOnBoard(snap *slacklist.Snapshot, a *pipeline.Agent) (ids []pipeline.TaskID) {
	for i := range snap.Rows {
		if r := &snap.Rows[i]; h.isFor(r, a) && r.Task() != 0 && !r.CurrentStatus().Finished() {
			ids = append(ids, r.Task())
		}
	}
	return ids
}

// isFor tells whether the board gives a row to an agent.
func (h *Home) isFor(row *pipeline.Row, a *pipeline.Agent) bool {
	who := h.Config.Agents.Assigned(row.Assignee)
	return who != nil && who.Name == a.Name
}

// noteOnItsWay says that tasks for an agent are dropped and not handed out
// yet, or have lost their entry: who looks again in a moment finds them.
func (h *Home) noteOnItsWay(snapshot func() (*slacklist.Snapshot, error), a *pipeline.Agent) {
	snap, err := snapshot()
	if err != nil {
		return // it is only a note
	}
	v, err := loadView(context.Background(), h, snap)
	if err != nil {
		return // the same
	}
	n := 0
	for _, c := range v.Creates {
		if pipeline.FoldName(c.Task.Agent) == pipeline.FoldName(a.Name) {
			n++
		}
	}
	for _, row := range v.Tops() {
		if h.isFor(row, a) && h.isOnItsWay(row) {
			n++
		}
	}
	if n == 0 {
		return
	}
	trouble := ""
	for _, id := range []string{heartbeat.Injector, heartbeat.Dispatcher} {
		if f := v.Component(id).Problem; f != nil {
			trouble += "; " + f.Text(v.Now)
		}
	}
	h.Note("%s on the way to %s: look again in a moment, or see otm why --all%s", explain.Count(n, "task is", "tasks are"), a.Name, trouble)
}

// isOnItsWay tells whether the task of a row was not handed out yet, or not taken.
func (h *Home) isOnItsWay(row *pipeline.Row) bool {
	switch row.CurrentStatus() {
	case pipeline.New:
		return true
	case pipeline.Assigned:
		rec, err := h.Store.Load(row.Task())
		return err == nil && rec.Dispatch != nil && rec.Dispatch.TakenAt == nil
	}
	return false
}

// reportBegun drops the update that the task is in progress. If we crash
// before, the next report of a step says it as well.
func (h *Home) reportBegun(id pipeline.TaskID) error {
	u := &drop.Update{ID: pipeline.NewDropID(), TaskID: id, CreatedAt: h.Now(), Status: pipeline.InProgress}
	return h.Box.Publish(inbox.TaskUpdates, inbox.NewName(u.CreatedAt, u.ID), u.Encode())
}

// unreadReports returns the tasks on which reports stand in the inbox, each with
// when the oldest was dropped. A file that cannot be read is passed over.
func (h *Home) unreadReports() (map[pipeline.TaskID]time.Time, error) {
	files, err := h.Box.List(inbox.TaskUpdates)
	if err != nil {
		return nil, err
	}
	unread := map[pipeline.TaskID]time.Time{}
	for _, f := range files {
		if !f.Regular() {
			continue
		}
		data, _, err := h.Box.Read(f)
		if err != nil {
			continue
		}
		u, err := drop.ParseUpdate(data)
		if err != nil {
			continue
		}
		if at, ok := unread[u.TaskID]; !ok || f.Dropped().Before(at) {
			unread[u.TaskID] = f.Dropped()
		}
	}
	return unread, nil
}

// said reads the updates that are still in the inbox.
func (h *Home) said() (map[pipeline.TaskID][]dispatch.Said, error) {
	files, err := h.Box.List(inbox.TaskUpdates)
	if err != nil {
		return nil, err
	}
	said := map[pipeline.TaskID][]dispatch.Said{}
	for _, f := range files {
		if !f.Regular() {
			continue
		}
		data, _, err := h.Box.Read(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue // settled meanwhile
		}
		if err != nil {
			return nil, err
		}
		if u, err := drop.ParseUpdate(data); err == nil {
			said[u.TaskID] = append(said[u.TaskID], dispatch.Said{Status: u.Status, Steps: u.StepsDone})
		}
	}
	return said, nil
}

func (h *Home) printTaken(t *dispatch.Taken) {
	if t == nil {
		fmt.Fprintln(h.Out, "no task waiting")
		return
	}
	e := &t.Entry
	if t.Continue {
		fmt.Fprintln(h.Out, "continue")
	}
	fmt.Fprintf(h.Out, "%v %s\n", e.TaskID, safe.Escape(e.Title))
	facts := []string{string(e.Type), "priority " + string(e.Priority)}
	if e.Project != "" {
		facts = append(facts, "project "+e.Project)
	}
	fmt.Fprintln(h.Out, safe.Escape(strings.Join(facts, ", ")))
	switch {
	case t.Answered && t.Reason != "":
		fmt.Fprintf(h.Out, "A person says: %s\n", safe.Escape(t.Reason))
	case t.Reason != "":
		fmt.Fprintf(h.Out, "You said, when you were blocked: %s\n", safe.Escape(t.Reason))
	}
	fmt.Fprintf(h.Out, "\nSteps:\n")
	for i, title := range e.Steps {
		mark := " "
		if slices.Contains(t.Done, i+1) {
			mark = "x"
		}
		fmt.Fprintf(h.Out, "  %d. [%s] %s\n", i+1, mark, safe.Escape(title))
	}
	dir := ""
	if h.messageDir() != "" {
		dir = " --dir " + safe.Escape(safe.Quote(h.Dir))
	}
	update := fmt.Sprintf("otm-update%s --task-id %v", dir, e.TaskID)
	if len(t.Done) < len(e.Steps) {
		fmt.Fprintf(h.Out, "\nReport each step when it is done:\n")
	} else {
		fmt.Fprintf(h.Out, "\nEvery step is ticked already. See what is still to be done.\n")
	}
	for i := range e.Steps {
		if !slices.Contains(t.Done, i+1) {
			fmt.Fprintf(h.Out, "  %s --subtask-done %d\n", update, i+1)
		}
	}
	fmt.Fprintf(h.Out, "If you cannot go on:\n  %s --status blocked --reason 'why'\n", update)
	fmt.Fprintf(h.Out, "When all is done, say what came of it:\n  %s --status agent_done --result 'what came of it'\n", update)
	fmt.Fprintf(h.Out, "Then take the next one:\n  otm next%s --agent %s\n", dir, safe.Escape(safe.Quote(e.Agent)))
}

// printTakenJSON prints the dispatch entry, with continue and done added.
func (h *Home) printTakenJSON(t *dispatch.Taken) error {
	if t == nil {
		_, err := fmt.Fprintln(h.Out, "null")
		return err
	}
	return safe.EncodeJSON(h.Out, t)
}

// failedShownFor is for how long an agent is told of a report that failed.
const failedShownFor = 24 * time.Hour

// maxFailedShown bounds how many failed updates are told of, newest first.
const maxFailedShown = 5

// printFailedUpdates tells an agent which of its reports did not take effect.
func (h *Home) printFailedUpdates(a *pipeline.Agent) error {
	names, err := h.Box.SettledNames(inbox.FailedDir)
	if err != nil {
		return err
	}
	slices.Reverse(names)
	shown := 0
	for _, name := range names {
		f, err := h.Box.ReadSettled(inbox.FailedDir, name)
		if err != nil || f.Object == nil || f.Result.Inbox != inbox.TaskUpdates {
			continue
		}
		id := f.TaskID()
		rec, err := h.Store.Load(id)
		if err != nil || pipeline.FoldName(rec.Agent) != pipeline.FoldName(a.Name) || h.Now().Sub(f.Result.At) > failedShownFor {
			continue
		}
		if shown++; shown > maxFailedShown {
			break
		}
		if shown == 1 {
			fmt.Fprintln(h.Out, "\nThese reports did not take effect; where it still matters, report again:")
		}
		fmt.Fprintf(h.Out, "  %v: %s\n", id, safe.Escape(strings.TrimPrefix(f.Result.Error, id.String()+" ")))
	}
	return nil
}
