package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"otm/core"
	"otm/core/store"
	"otm/dispatch"
	"otm/internal/cli"
	"otm/internal/datadir"
	"otm/internal/patience"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/pipeline/inject"
	"otm/pipeline/rendering"
	"otm/slacklist"
)

// nextCommand is otm next.
func nextCommand(s cli.Streams) *cobra.Command {
	var agent string
	var another bool
	c := &cobra.Command{
		Use:   "next",
		Short: "Take the next task of an agent",
		Long: `Take the most urgent task of an agent's dispatch file: mark it as taken, report
it as in progress, and print it with the commands to report on it. While the
task that was taken last is unfinished, print that one again. If no task waits
for the agent, claim the most urgent one of the shared queue, which has those
of --agent queue: no other agent gets that one.

If nothing waits, it prints "no task waiting"; with --json: null. If a person has
paused the agent, it prints "paused: " and the reason, and takes nothing; with
--json: {"paused":true,"reason":…,"by":…,"since":…}. The exit code is 0 in both
cases.`,
		Example: "  otm next --agent devdas",
		RunE: withHome(s, func(ctx context.Context, h *Home, _ []string) error {
			if agent = cmp.Or(agent, h.Getenv("OTM_AGENT")); agent == "" {
				return cli.Errorf(cli.Usage, "--agent is missing").Hint("otm next --agent devdas")
			}
			a, err := aiAgent(h, agent, "otm next --agent")
			if err != nil {
				return err
			}
			return takeNext(ctx, h, a, another)
		}),
	}
	c.Flags().StringVar(&agent, "agent", "", "whose task (default: $OTM_AGENT)")
	c.Flags().BoolVar(&another, "another", false, "take another one even if the last is unfinished")
	jsonFlag(c, "print it as one JSON object")
	return c
}

// aiAgent finds the configured agent that a command names; it must not be a person.
func aiAgent(h *Home, name, command string) (*pipeline.Agent, error) {
	a := h.Agents().Named(name)
	switch {
	case a == nil && len(h.Agents()) == 0:
		return nil, cli.Errorf(cli.Usage, "no agents are configured").Hint("add [agents.%s] with a workspace to %s", safe.Quote(name), safe.Quote(filepath.Join(h.Dir, "otm.toml")))
	case a == nil:
		return nil, noAgent(h, name, command+" %s")
	case a.Person:
		return nil, cli.Errorf(cli.Usage, "%s is a person: %s is for AI agents", a.Name, command).Hint("otm list --agent %s", safe.Quote(a.Name)).Hint("otm accept T-00035   # when a task of theirs is done")
	}
	return a, nil
}

// noAgent says that no agent of this name is configured. nearest is the hint with the
// nearest name in it.
func noAgent(h *Home, name, nearest string) *cli.Error {
	e := cli.Errorf(cli.Usage, "no agent %q is configured in %s; there are %s", name, safe.Quote(h.Dir), strings.Join(h.Agents().Names(), ", "))
	if near := h.Agents().Nearest(name); near != "" {
		return e.Hint(nearest, safe.Quote(near))
	}
	return e.Hint("otm status   # lists the agents")
}

// take takes a task for an agent and reports it as begun; nil: none waits. The error may be
// a *dispatch.PausedError: only then, and without an error, d may be used.
func take(ctx context.Context, h *Home, a *pipeline.Agent, another bool) (d *dispatch.Desk, taken *dispatch.Taken, err error) {
	switch info, err := statPatiently(a.Workspace); {
	case patience.IsSilent(err):
		return d, nil, cli.Errorf(cli.TryLater, "the workspace of %s: %w", a.Name, err).Hint("mend or unmount that file system: df %s", safe.Quote(a.Workspace))
	case err != nil || !info.IsDir():
		return d, nil, cli.Errorf(cli.Partial, "the workspace of %s is missing: %s", a.Name, safe.Escape(a.Workspace)).Hint("mkdir -p %s", safe.Quote(a.Workspace))
	}
	d = &dispatch.Desk{
		Dir: h.Dir, Agents: h.Agents(), Now: h.Now, Warn: func(msg string) { h.Warn("%s", msg) },
	}
	opened, err := h.OpenStore(ctx)
	var newer *store.NewerError
	var moved *datadir.MovedError
	switch {
	case errors.As(err, &newer), errors.As(err, &moved):
		return d, nil, err
	case err != nil:
		// In a sandbox that has only inbox and workspace, the dispatch file decides.
		if d.Known, err = knownLocally(h); err != nil {
			return d, nil, err
		}
	default:
		d.Store = opened
		d.Carry = func(ctx context.Context) error {
			reports, err := waitingReports(h, h.Warn)
			if err == nil {
				_, err = carryReports(ctx, h, opened, a, reports)
			}
			return err
		}
	}
	taken, err = d.Next(ctx, a, another)
	switch {
	case err != nil:
	case taken != nil && taken.Unstored:
		err = reportBegun(h, taken.Task.ID)
	case taken != nil:
		shown(ctx, h, taken.Task.ID)
	}
	return d, taken, err
}

// takeNext takes a task for an agent, and prints it.
func takeNext(ctx context.Context, h *Home, a *pipeline.Agent, another bool) error {
	d, taken, err := take(ctx, h, a, another)
	var paused *dispatch.PausedError
	switch {
	case errors.As(err, &paused):
		return h.answer(pausedOf(paused), func() error {
			_, err := fmt.Fprintln(h.Out, safe.Escape(paused.Error()))
			return err
		})
	case err != nil:
		return err
	}
	if err := tellTaken(ctx, h, d, a, taken); err != nil || h.asJSON {
		return err
	}
	return printFailedUpdates(ctx, h, d.Store, a)
}

// Paused is what otm next says to an agent that a person paused.
type Paused struct {
	Paused bool      `json:"paused"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
}

func pausedOf(p *dispatch.PausedError) *Paused {
	return &Paused{true, p.Reason, p.By.String(), p.At}
}

// tellTaken prints the task that an agent was given, nil: none, and where others mention it.
func tellTaken(ctx context.Context, h *Home, d *dispatch.Desk, a *pipeline.Agent, taken *dispatch.Taken) error {
	if h.asJSON && taken == nil {
		return safe.EncodeJSON(h.Out, nil)
	}
	mentions, readTo, err := d.Mentions(ctx, a.Name)
	if err != nil {
		return err
	}
	switch {
	case h.asJSON:
		taken.Messages = append(taken.Messages, mentions...)
		if err := safe.EncodeJSON(h.Out, taken); err != nil {
			return err
		}
	case taken == nil:
		fmt.Fprintln(h.Out, "no task waiting")
		printMentions(h.Out, mentions)
	default:
		printTaken(h.Out, taken, messageDir(h))
		printMentions(h.Out, mentions)
	}
	return d.MentionsRead(ctx, a.Name, readTo)
}

// printMessages tells an agent what others wrote on its task.
func printMessages(w io.Writer, t *dispatch.Taken, dir string) {
	if len(t.Messages) > 0 {
		fmt.Fprintln(w, "\nNew on this task:")
	}
	for _, m := range t.Messages {
		fmt.Fprintf(w, "  %s %s %s: %s\n", m.At.Format(time.RFC3339), safe.Escape(m.By), m.What, safe.Escape(m.String()))
	}
	if t.Earlier > 0 {
		fmt.Fprintf(w, "\nMessages from before: %d   # otm show%s %v\n", t.Earlier, dir, t.Task.ID)
	}
}

// printMentions tells an agent where it is mentioned on tasks of others.
func printMentions(w io.Writer, mentions []dispatch.Message) {
	if len(mentions) > 0 {
		fmt.Fprintln(w)
	}
	for _, m := range mentions {
		fmt.Fprintf(w, "mentioned on %v: %s %s: %s\n", m.TaskID, m.At.Format(time.RFC3339), safe.Escape(m.By), safe.Escape(m.String()))
	}
}

// carryReports carries those of the waiting reports that are on an agent's tasks into the
// store: they say whether its task is done. So it does with those on tasks of the shared
// queue, whose last run may not have failed. The injector settles the files later, by the
// same ids. A report that is refused is left to it. changed reports whether a task changed.
func carryReports(ctx context.Context, h *Home, store core.Store, a *pipeline.Agent, reports []waitingReport) (changed bool, err error) {
	if len(reports) == 0 {
		return false, nil
	}
	tasks, err := store.Tasks(ctx, core.Filter{Live: true, Agent: a.Name})
	if err != nil {
		return false, err
	}
	queue, err := store.Tasks(ctx, core.Filter{Live: true, Agent: pipeline.SharedQueue})
	if err != nil {
		return false, err
	}
	tasks = append(tasks, queue...)
	var commands []core.Command
	for _, r := range reports {
		i := slices.IndexFunc(tasks, func(t *core.Task) bool { return t.ID == r.TaskID })
		if i >= 0 && tasks[i].Dispatch != nil && (core.SameAgent(tasks[i].Dispatch.Agent, a.Name) || pipeline.IsSharedQueue(tasks[i].Agent)) {
			commands = append(commands, inject.CommandOf(r.Update, r.file, tasks[i], h.Agents(), h.Config.Types, h.Now()))
		}
	}
	if len(commands) == 0 {
		return false, nil
	}
	outcomes, err := store.Do(ctx, commands...)
	return slices.ContainsFunc(outcomes, func(o core.Outcome) bool { return len(o.Events) > 0 }), err
}

// shown brings a task that an agent took to its rendering and to the board. If that does
// not work now, the components do it.
func shown(ctx context.Context, h *Home, id pipeline.TaskID) {
	log := slog.New(slog.DiscardHandler)
	if e, err := newEngine(ctx, h, "otm", nil, log); err == nil {
		e.Board = nil // a board may be slow: the components write it
		e.Deliver(ctx, id)
		slacklist.TouchChanged(h.Dir)
	}
}

// reportBegun drops the update that the task is in progress. If we crash
// before, the next report of a step says it as well.
func reportBegun(h *Home, id pipeline.TaskID) error {
	u := &drop.Update{ID: pipeline.NewDropID(), TaskID: id, CreatedAt: h.Now(), Status: pipeline.InProgress}
	return h.Box.Publish(inbox.TaskUpdates, inbox.NewName(u.CreatedAt, u.ID), u.Encode())
}

// printTaken prints a task for its agent, with the lines to report on it. dir is the
// data directory if the agent must name it, else "".
func printTaken(w io.Writer, t *dispatch.Taken, dir string) {
	task := t.Task
	if t.Continue {
		fmt.Fprintln(w, "continue")
	}
	fmt.Fprintf(w, "%v %s\n", task.ID, safe.Escape(task.Title))
	facts := []string{string(task.Type), "priority " + string(task.Priority)}
	if task.Project != "" {
		facts = append(facts, "project "+task.Project)
	}
	if task.Context != "" {
		facts = append(facts, "context "+task.Context)
	}
	if task.Parent != 0 {
		facts = append(facts, "part of "+task.Parent.String())
	}
	fmt.Fprintln(w, safe.Escape(strings.Join(facts, ", ")))
	for _, input := range task.Inputs {
		fmt.Fprintf(w, "Input: %s\n", safe.Escape(input))
	}
	printBody(w, "Body:", task.Body)
	printReason(w, task)
	if dir != "" {
		dir = " --dir " + safe.Escape(safe.Quote(dir))
	}
	printMessages(w, t, dir)
	if failed := t.Failure(); failed != nil {
		fmt.Fprintf(w, "Run %d of it failed: %s\n", failed.Number, safe.Escape(failed.Failure.String()))
		if failed.Log != "" {
			fmt.Fprintf(w, "  What it printed: %s\n", safe.Escape(failed.Log))
		}
		if failed.Advice != nil && failed.Advice.Text != "" {
			fmt.Fprintf(w, "  Advice for this run: %s\n", safe.Escape(failed.Advice.Text))
		}
	}
	fmt.Fprintf(w, "\nSteps:\n")
	for i, step := range task.Steps {
		fmt.Fprintf(w, "  %d. [%s] %s\n", i+1, cli.Tick(step.Done), safe.Escape(step.Title))
	}
	update := fmt.Sprintf("otm-update%s --task-id %v", dir, task.ID)
	if run := t.Run(); run > 0 {
		update += fmt.Sprintf(" --run %d", run)
	}
	if task.StepsDone() < len(task.Steps) {
		fmt.Fprintf(w, "\nReport each step when it is done:\n")
	} else {
		fmt.Fprintf(w, "\nEvery step is ticked already. See what is still to be done.\n")
	}
	for i, step := range task.Steps {
		if !step.Done {
			fmt.Fprintf(w, "  %s --subtask-done %d\n", update, i+1)
		}
	}
	fmt.Fprintf(w, "If you cannot go on:\n  %s --status blocked --reason 'why'\n", update)
	fmt.Fprintf(w, "If it cannot be done (with --terminal: nor by another try):\n  %s --status failed --reason 'why'\n", update)
	fmt.Fprintf(w, "When all is done, say what came of it:\n  %s --status agent_done --result 'what came of it'\n", update)
	fmt.Fprintf(w, "Then take the next one:\n  otm next%s --agent %s\n", dir, safe.Escape(safe.Quote(task.Dispatch.Agent)))
}

// printBody prints the body of a task, each line of which is untrusted and indented: none
// looks like a line of ours.
func printBody(w io.Writer, head, body string) {
	if body == "" {
		return
	}
	fmt.Fprintln(w, head)
	for line := range strings.Lines(body) {
		fmt.Fprintf(w, "  %s\n", safe.Escape(strings.TrimRight(line, "\r\n")))
	}
}

// printReason prints what a person or a reviewer answered, or wants to be done. The process
// that asked may have ended: so the question comes first.
func printReason(w io.Writer, t *core.Task) {
	says := "A person says"
	if t.Question != "" {
		asked, asker := "You asked", t.Runs.Asker()
		if asker != "" && !core.SameAgent(asker, t.Dispatch.Agent) {
			asked = asker + " asked"
		}
		fmt.Fprintf(w, "%s: %s\n", safe.Escape(asked), safe.Escape(t.Question))
		says = "Answer"
	}
	switch {
	case t.Reason == "" && t.Question != "":
		fmt.Fprintln(w, "Answered without words: go on.")
	case t.Reason == "":
	case t.Reviewer != "":
		fmt.Fprintf(w, "%s, who reviews, says: %s\n", safe.Escape(t.Reviewer), safe.Escape(t.Reason))
	case t.Answered:
		fmt.Fprintf(w, "%s: %s\n", says, safe.Escape(t.Reason))
	default:
		fmt.Fprintf(w, "Reason on the board: %s\n", safe.Escape(t.Reason))
	}
}

// failedShownFor is how long a failed report is shown to its agent.
const failedShownFor = 24 * time.Hour

// maxFailedShown bounds the failed reports that are printed, newest first.
const maxFailedShown = 5

// printFailedUpdates tells an agent which of its reports failed.
func printFailedUpdates(ctx context.Context, h *Home, store core.Reader, a *pipeline.Agent) error {
	if store == nil {
		return nil
	}
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
		t, err := store.Task(ctx, id)
		if err != nil || !core.SameAgent(t.Agent, a.Name) || h.Now().Sub(f.Result.At) > failedShownFor {
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

// waitingReport is an update that waits in the inbox.
type waitingReport struct {
	*drop.Update
	file inbox.File
}

// waitingReports reads the updates in the inbox, in the order of their names, and
// passes over what is no update. warn gets why a file could not be read.
func waitingReports(h *Home, warn func(format string, args ...any)) (all []waitingReport, err error) {
	files, err := h.Box.List(inbox.TaskUpdates)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if !f.Regular() {
			continue
		}
		data, _, err := h.Box.Read(f)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) { // else it was settled meanwhile
				warn("a report that waits was passed over: %v", err)
			}
			continue
		}
		if u, err := drop.ParseUpdate(data); err == nil {
			all = append(all, waitingReport{u, f})
		}
	}
	return all, nil
}

// reportsOn reads the updates of a task that wait in the inbox.
func reportsOn(h *Home, id pipeline.TaskID) []waitingReport {
	all, _ := waitingReports(h, func(string, ...any) {}) // what cannot be read is the injector's to tell
	return slices.DeleteFunc(all, func(r waitingReport) bool { return r.TaskID != id })
}

// knownLocally returns what brings a rendering to what tasks/ and the waiting reports say.
// A file that cannot be read is passed over with a warning: it is rarely the caller's own.
func knownLocally(h *Home) (func(*pipeline.Rendering), error) {
	reports, err := waitingReports(h, h.Warn)
	return func(r *pipeline.Rendering) {
		if known, err := rendering.Read(h.Dir, r.TaskID); err == nil && core.SameAgent(known.Agent, r.Agent) {
			*r = known
		}
		for _, said := range reports {
			if said.TaskID != r.TaskID {
				continue
			}
			r.Status = cmp.Or(said.Status, r.Status)
			for _, title := range said.StepsDone {
				if i := pipeline.FindStep(r.Steps, title); i >= 0 {
					r.Steps[i].Done = true
				}
			}
		}
	}, err
}
