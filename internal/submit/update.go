package submit

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/durable"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/pipeline/rendering"
)

// update is otm-update.
type update struct {
	base
	flags               drop.Update // what the flags say, but for those that follow
	taskID, status, tag string
	percent             int
}

// Update returns the command otm-update. name is what it is called.
func Update(name, version string, s cli.Streams, args []string) *cobra.Command {
	r := &update{base: base{Streams: s, args: args, first: []string{"task-id", "status"}}}
	c := r.command(&cobra.Command{
		Use:     name,
		Version: version,
		Short:   "Report on a task",
		Long: `Report on a task: that it is begun, blocked, done or failed, that steps are
finished, what came of it. --note adds a message to the task's thread and changes
no status. Prints the task's id once the report is on disk; the injector brings it
to the board.

A step is named by its title, or by its number as "otm next" prints it.`,
		Example: `  ` + name + ` --task-id T-00033 --status in_progress
  ` + name + ` --task-id T-00033 --subtask-done 'Create form' --subtask-done 2
  ` + name + ` --task-id T-00033 --status blocked --reason 'Waiting for the API key'
  ` + name + ` --task-id T-00033 --status failed --reason 'The tests need a GPU'
  ` + name + ` --task-id T-00033 --status agent_done --result 'Merged as #12'
  ` + name + ` --task-id T-00033 --note 'The form works, the tests are left' --percent 60`,
	}, r.run)
	f, u := c.Flags(), &r.flags
	f.StringVar(&r.taskID, "task-id", "", "which task (required)")
	f.StringVar(&r.status, "status", "", "in_progress, blocked, agent_done or failed")
	f.BoolVar(&u.Terminal, "terminal", false, "with failed: no retry makes sense")
	f.IntVar(&u.Run, "run", 0, "the run to which the report belongs, as otm next prints it ($OTM_RUN, where $OTM_TASK_ID is the task)")
	f.StringArrayVar(&u.StepsDone, "subtask-done", nil, "title or number of a finished step; repeat it for more")
	f.StringVar(&u.Reason, "reason", "", "why (required with blocked and failed)")
	f.StringVar(&u.Result, "result", "", "what came of it")
	f.StringVar(&u.Message.Text, "note", "", "a message for the task's thread")
	f.IntVar(&r.percent, "percent", 0, "with --note: how much of the task is done, 0 to 100")
	f.StringVar(&r.tag, "tag", "", "with --note: "+strings.Join(pipeline.Texts(pipeline.Tags), ", ")+" (default progress)")
	f.StringArrayVar(&u.Message.Mentions, "mention", nil, "with --note: an agent that is shown it too, or a person who is told; repeat it for more")
	c.RegisterFlagCompletionFunc("status", cobra.FixedCompletions([]string{"in_progress", "blocked", "agent_done", "failed"}, cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("tag", cobra.FixedCompletions(pipeline.Texts(pipeline.Tags), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (r *update) run(c *cobra.Command) error {
	updates, err := r.read(c)
	if err != nil {
		return err
	}
	if err := r.open(); err != nil {
		return err
	}
	agents := r.mentionable(updates)
	err = r.checkEach(len(updates), func(i int) error {
		if err := r.check(updates[i]); err != nil {
			return err
		}
		return checkMentions(updates[i], agents)
	})
	if err != nil {
		return err
	}
	drops, err := r.deliver(updates)
	if err != nil {
		return err
	}
	return r.finish(c, drops)
}

// read returns the updates to drop. Each is valid by itself.
func (r *update) read(c *cobra.Command) ([]*drop.Update, error) {
	defaults, err := r.defaults(c)
	if err != nil {
		return nil, err
	}
	if r.from == "" {
		if defaults.TaskID == 0 {
			return nil, cli.Errorf(cli.Usage, "--task-id is missing").Hint("%s --task-id T-00033 --status in_progress", c.CommandPath())
		}
		if err := drop.CheckUpdate(defaults); err != nil {
			return nil, r.refuse(c, err)
		}
		return []*drop.Update{defaults}, nil
	}
	updates, problems, err := parseLines(&r.base, c, `{"taskId":"T-00033","status":"in_progress"}`, func(line []byte) (*drop.Update, error) {
		return drop.ParseUpdateLine(line, *defaults)
	})
	if err != nil {
		return nil, err
	}
	return updates, r.refuseLines(problems)
}

func (r *update) defaults(c *cobra.Command) (*drop.Update, error) {
	u := r.flags
	u.Trace, u.Message.Tag = r.trace(), pipeline.Tag(r.tag)
	if c.Flags().Changed("percent") {
		u.Message.Percent = &r.percent
	}
	if c.Flags().Changed("task-id") {
		id, err := pipeline.ParseTaskID(r.taskID)
		if err != nil {
			return nil, cli.Errorf(cli.Usage, "--task-id: %w", err).Hint("otm list")
		}
		u.TaskID = id
	}
	u.By = r.Getenv("OTM_AGENT")
	// The task for which OTM started the agent in whose shell we run.
	if own, err := pipeline.ParseTaskID(r.Getenv("OTM_TASK_ID")); err == nil && own == u.TaskID && !c.Flags().Changed("run") {
		u.Run, _ = strconv.Atoi(r.Getenv("OTM_RUN"))
	}
	if c.Flags().Changed("status") {
		s, err := drop.ParseReport(r.status)
		if err != nil {
			return nil, r.refuse(c, err)
		}
		u.Status = s
	}
	return &u, nil
}

// refuse names the problem of a flag, and hints at the corrected line.
func (r *update) refuse(c *cobra.Command, err error) error {
	return r.usage(c, err, map[string]string{"subtasksDone": "subtask-done", "mentions": "mention"}, func(e *drop.InvalidError) string {
		line := r.corrected(c)
		if e.Correction != "" {
			line.Set("status", e.Correction)
		}
		switch {
		case (e.Field == "reason" || e.Correction == string(pipeline.Blocked) || e.Correction == string(pipeline.Failed)) && r.flags.Reason == "":
			line.Set("reason", "why")
		case e.Correction != "":
		case e.Field == "result":
			line.Set("result", "in short; all of it is in result.md")
			return "write it to a file in your workspace and give its path: " + line.String()
		case e.Field == "note" && r.flags.Message.Text == "":
			line.Set("note", "what is new")
		case e.Field == "note":
			line.Set("note", "in short; all of it is in notes.md")
			return "write it to a file in your workspace and give its path: " + line.String()
		case e.Field == "tag":
			return r.nearest(c, "tag", r.tag, pipeline.Texts(pipeline.Tags))
		case e.Field == "status" && r.status == "":
			line.Set("status", string(pipeline.InProgress))
		case e.Field == "status":
			return "otm show " + safe.Quote(r.taskID) // its status decides what may be reported
		default:
			return ""
		}
		return line.String()
	})
}

// check compares an update with the rendering of its task. If there is none, the
// update is dropped: the task may be on its way.
func (r *update) check(u *drop.Update) error {
	rec, err := rendering.Read(r.dir, u.TaskID)
	if errors.Is(err, fs.ErrNotExist) {
		return r.checkIssued(u.TaskID)
	}
	if err != nil {
		r.Warn("%v", err)
		return nil
	}
	steps, open := slices.Clone(rec.Steps), 0
	for _, title := range u.StepsDone {
		i := pipeline.FindStep(steps, title)
		if i < 0 {
			return r.noStep(u.TaskID, rec.Steps, title)
		}
		if !steps[i].Done {
			steps[i].Done = true
			open++
		}
	}
	switch {
	case u.Run != 0 && u.Run < rec.Run:
		e := cli.Errorf(cli.Usage, "%v is with %s, and run %d, to which this report belongs, is over", u.TaskID, rec.Agent, u.Run)
		if u.By != "" && pipeline.FoldName(u.By) == pipeline.FoldName(rec.Agent) {
			return e.Hint("otm next --agent %s   # gives the task again, with the number of its run", safe.Quote(rec.Agent))
		}
		return e.Hint("otm show %v", u.TaskID)
	case rec.Status == pipeline.Dormant:
		return cli.Errorf(cli.Usage, "%v is dormant: a person set it aside, and a report changes nothing", u.TaskID).Hint("otm show %v", u.TaskID)
	case !rec.Status.Finished(), rec.Status == pipeline.Failed:
		return nil // the injector decides by the board whether it may become what is reported
	case rec.Status == pipeline.AgentDone && open == 0 && (u.Status == "" || u.Status == pipeline.AgentDone):
		return nil
	}
	return cli.Errorf(cli.Usage, "%v is %s: nothing is to be reported any more", u.TaskID, rec.Status).
		Hint("otm show %v", u.TaskID).Hint("%s", listed(rec.Steps))
}

// mentionable returns the configured agents, if an update mentions one.
func (r *update) mentionable(updates []*drop.Update) pipeline.Agents {
	if !slices.ContainsFunc(updates, func(u *drop.Update) bool { return len(u.Message.Mentions) > 0 }) {
		return nil
	}
	if conf := r.config(); conf != nil {
		return r.agents(conf)
	}
	return nil
}

// checkMentions refuses names that no configured agent has: nobody would read the message.
// If none is configured, nothing is checked.
func checkMentions(u *drop.Update, agents pipeline.Agents) error {
	for i, name := range u.Message.Mentions {
		switch a := agents.Named(name); {
		case len(agents) == 0:
		case a == nil:
			e := cli.Errorf(cli.Usage, "--mention %q: no such agent is configured; there are %s", name, strings.Join(agents.Names(), ", "))
			if near := agents.Nearest(name); near != "" {
				e.Hint("--mention %s", safe.Quote(near))
			}
			return e
		default:
			u.Message.Mentions[i] = a.Name
		}
	}
	return nil
}

// checkIssued refuses an id that was never given out and that no drop in the
// inbox bears.
func (r *update) checkIssued(id pipeline.TaskID) error {
	issued, err := r.ids.Known(id)
	if err != nil || issued {
		return err
	}
	return cli.Errorf(cli.Usage, "%v was never issued", id).Hint("otm list")
}

func (r *update) noStep(id pipeline.TaskID, steps []pipeline.Step, title string) error {
	e := cli.Errorf(cli.Usage, "no step of %v matches %q", id, title)
	if i := pipeline.NearestStep(steps, title); i >= 0 {
		e.Hint("nearest is %d, %q: --subtask-done %d", i+1, steps[i].Title, i+1)
	}
	return e.Hint("%s", listed(steps))
}

func listed(steps []pipeline.Step) string {
	if len(steps) == 0 {
		return "it has no steps: report its end with --status agent_done"
	}
	parts := make([]string, len(steps))
	for i, s := range steps {
		parts[i] = fmt.Sprintf("%d [%s] %s", i+1, cli.Tick(s.Done), s.Title)
	}
	return "its steps: " + strings.Join(parts, " · ")
}

// deliver publishes the updates. They are durable on return.
func (r *update) deliver(updates []*drop.Update) ([]dropped, error) {
	now := time.Now().UTC()
	files, drops := make([]durable.NewFile, len(updates)), make([]dropped, len(updates))
	for i, u := range updates {
		u.ID, u.CreatedAt = pipeline.NewDropID(), now
		files[i] = durable.NewFile{Name: inbox.NewName(now.Add(time.Duration(i)), u.ID), Data: u.Encode()}
		drops[i] = dropped{id: u.TaskID, kind: inbox.TaskUpdates, name: files[i].Name, data: files[i].Data}
	}
	return drops, r.box.PublishAll(inbox.TaskUpdates, files)
}
