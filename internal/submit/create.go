package submit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/durable"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/counter"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// create is otm-create.
type create struct {
	base
	flags                  drop.Line // what the flags say, but for those that follow
	priority, kind, parent string
}

// Create returns the command otm-create. name is what it is called.
func Create(name, version string, s cli.Streams, args []string) *cobra.Command {
	r := &create{base: base{Streams: s, args: args, first: []string{"title"}}}
	c := r.command(&cobra.Command{
		Use:     name,
		Version: version,
		Short:   "Drop a task for an agent",
		Long: `Drop a task for an agent. Prints the task's id once the drop is on disk; the
injector brings it to the board.

Quote with single quotes, so that the shell leaves the text alone; or give JSON
lines on stdin, with a heredoc whose end is quoted:

  ` + name + ` --from - <<'EOF'
  {"title":"Fix the login page","agent":"devdas","subtasks":["Reproduce","Fix"]}
  EOF

The task keeps the trace that the environment variable TRACEPARENT names (W3C
Trace Context).`,
		Example: `  ` + name + ` --title 'Build login page' --agent devdas --priority high \
    --subtask 'Create form' --subtask 'Add validation'
  ` + name + ` --title 'Nightly report' --agent archibald --key report-2026-03-14`,
	}, r.run)
	f, t := c.Flags(), &r.flags.Task
	f.StringVar(&t.Title, "title", "", "what is to be done, one line (required)")
	f.StringVar(&t.Agent, "agent", "", "who does it (required); queue: whichever agent asks for a task first")
	f.StringVar(&r.priority, "priority", string(pipeline.Normal), "critical, high, normal (medium), low or batchable")
	f.StringVar(&t.Project, "project", "", "free text")
	f.StringVar(&r.kind, "type", string(pipeline.Action), "action, decision, review, or one of [types] in otm.toml")
	f.StringVar(&t.Context, "context", "", strings.Join(pipeline.Contexts, ", "))
	f.StringArrayVar(&t.Inputs, "input", nil, "a file or link that the task starts from; repeat it for more")
	f.StringVar(&t.Body, "body", "", "what its agent is to know beside the title: lines of text, at most 20,000 bytes")
	f.StringArrayVar(&t.Steps, "subtask", nil, "one step; repeat it for more (default: "+pipeline.DefaultStep+")")
	f.StringVar(&r.parent, "parent", "", "the task of which it is a part, or which it follows")
	f.StringVar(&r.flags.Key, "key", "", "the same key gives the same id and drops nothing, for ever")
	c.RegisterFlagCompletionFunc("priority", cobra.FixedCompletions([]string{"critical", "high", "normal", "low", "batchable"}, cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("context", cobra.FixedCompletions(pipeline.Contexts, cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("type", cobra.FixedCompletions([]string{"action", "decision", "review"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (r *create) run(c *cobra.Command) error {
	lines, err := r.read(c)
	if err != nil {
		return err
	}
	if err := r.open(); err != nil {
		return err
	}
	if err := r.checkNames(c, lines); err != nil {
		return err
	}
	for _, l := range lines {
		if strings.Contains(l.Task.Title, "command not found") {
			r.Warn("the title looks like the output of a command that failed: quote it with single quotes")
		}
	}
	if err := r.noteParents(lines); err != nil {
		return err
	}
	drops, err := r.drop(c.Context(), lines)
	if err != nil {
		return err
	}
	for _, d := range drops { // not before: others waited for the counter
		if d.other != "" {
			r.Note("%v has another title: %q; the key stands for that task", d.id, d.other)
		}
	}
	return r.finish(c, drops)
}

// read returns the tasks to make, from the flags or from the lines of --from.
// All are valid.
func (r *create) read(c *cobra.Command) ([]*drop.Line, error) {
	defaults, err := r.defaults(c)
	if err != nil {
		return nil, err
	}
	if r.from == "" {
		if err := drop.CheckTask(&defaults.Task); err != nil {
			return nil, r.refuse(c, err)
		}
		return []*drop.Line{defaults}, nil
	}
	lines, problems, err := parseLines(&r.base, c, `{"title":"Fix the login page","agent":"devdas"}`, func(line []byte) (*drop.Line, error) {
		return drop.ParseLine(line, *defaults)
	})
	if err != nil {
		return nil, err
	}
	return lines, r.refuseLines(append(problems, r.checkKeys(lines)...))
}

// checkKeys returns the problems of the keys. A key stands for one task: of lines
// that differ, all but one would be lost.
func (r *create) checkKeys(lines []*drop.Line) (problems []string) {
	firsts := map[string]int{}
	for i, l := range lines {
		first, taken := firsts[l.Key]
		switch {
		case l.Key == "":
		case !taken:
			firsts[l.Key] = i
		case !reflect.DeepEqual(l.Task, lines[first].Task):
			problems = append(problems, fmt.Sprintf("line %d: key %q stands on line %d for another task", r.numbers[i], l.Key, r.numbers[first]))
		}
	}
	return problems
}

func (r *create) defaults(c *cobra.Command) (*drop.Line, error) {
	line := r.flags
	line.Trace = r.trace()
	t := &line.Task
	var ok bool
	if t.Priority, ok = pipeline.ParsePriority(r.priority); !ok {
		return nil, cli.Errorf(cli.Usage, "--priority %q: it is critical, high, normal (medium), low or batchable", r.priority).
			Hint("%s", r.nearest(c, "priority", r.priority, pipeline.Texts(pipeline.Priorities)))
	}
	if t.Type, ok = pipeline.ParseType(r.kind); !ok {
		return nil, cli.Errorf(cli.Usage, "--type %q is no name", r.kind).Hint("%v", r.corrected(c).Set("type", string(pipeline.Action)))
	}
	if c.Flags().Changed("parent") {
		id, err := pipeline.ParseTaskID(r.parent)
		if err != nil {
			return nil, cli.Errorf(cli.Usage, "--parent: %w", err).Hint("%v", r.corrected(c).Set("parent", "T-00035"))
		}
		t.Parent = id
	}
	if c.Flags().Changed("key") && strings.TrimSpace(line.Key) == "" {
		return nil, cli.Errorf(cli.Usage, "--key is blank").Hint("%v", r.corrected(c).Set("key", "report-2026-03-14"))
	}
	return &line, nil
}

// refuse names the problem of a flag, and hints at the corrected line.
func (r *create) refuse(c *cobra.Command, err error) error {
	return r.usage(c, err, map[string]string{"subtasks": "subtask", "inputFiles": "input"}, func(e *drop.InvalidError) string {
		switch e.Name() {
		case "title":
			return fmt.Sprintf("one short line in single quotes, and the rest in steps: %s --title 'In short' --agent %s --subtask 'First this'", c.CommandPath(), safe.Quote(cmp.Or(r.flags.Task.Agent, "NAME")))
		case "subtasks":
			return fmt.Sprintf("quote text with single quotes, or give it on stdin: %s --from - <<'EOF'", c.CommandPath())
		case "context":
			return r.nearest(c, "context", r.flags.Task.Context, pipeline.Contexts)
		case "agent":
			return r.corrected(c).Set("agent", "NAME").String()
		}
		return ""
	})
}

// checkNames refuses unknown agents and types: such a task would wait for ever. If no agent
// is configured, the names of agents are not checked.
func (r *create) checkNames(c *cobra.Command, lines []*drop.Line) error {
	conf := r.config()
	if conf == nil {
		return nil
	}
	agents, types := r.agents(conf), pipeline.Texts(conf.Types.All())
	return r.checkEach(len(lines), func(i int) error {
		t := &lines[i].Task
		switch a := agents.Named(t.Agent); {
		case a != nil:
			t.Agent = a.Name
		case len(agents) > 0 && !pipeline.IsSharedQueue(t.Agent):
			return cli.Errorf(cli.Usage, "no agent %q is configured; there are %s", t.Agent, strings.Join(agents.Names(), ", ")).
				Hint("%v", r.corrected(c).Set("agent", cmp.Or(agents.Nearest(t.Agent), "NAME")))
		}
		if conf.Types.Has(t.Type) {
			return nil
		}
		return cli.Errorf(cli.Usage, "there is no type %q; there are %s", t.Type, strings.Join(types, ", ")).
			Hint("%v", r.corrected(c).Set("type", cmp.Or(pipeline.Nearest(string(t.Type), types), string(pipeline.Action))))
	})
}

// noteParents warns of parents that were never issued. The tasks are dropped all the same.
func (r *create) noteParents(lines []*drop.Line) error {
	said := map[pipeline.TaskID]bool{0: true}
	for _, l := range lines {
		id := l.Task.Parent
		if said[id] {
			continue
		}
		said[id] = true
		issued, err := r.ids.Known(id)
		if err != nil {
			return err
		}
		if !issued {
			r.Warn("the parent %v was never issued; it is kept as it is", id)
		}
	}
	return nil
}

// drop gives each task its id and delivers it. All drops are durable on return.
// If we crash before, no id was printed, and some drops may stand in the inbox:
// those with a key are delivered one by one, the others after them, at once. The
// same call later makes the tasks without a key once more.
func (r *create) drop(ctx context.Context, lines []*drop.Line) ([]dropped, error) {
	ids, err := r.ids.Counter(ctx)
	if err != nil {
		return nil, err
	}
	held := true
	release := func() {
		if held {
			held = false
			ids.Release()
		}
	}
	defer release()

	keys := map[string]*counter.Key{}
	var fresh []*drop.Line // that need an id
	for _, l := range lines {
		if l.Key == "" {
			fresh = append(fresh, l)
			continue
		}
		if _, seen := keys[l.Key]; seen {
			continue
		}
		if keys[l.Key], err = ids.LookupKey(l.Key); err != nil {
			return nil, err
		}
		if keys[l.Key] == nil {
			fresh = append(fresh, l)
		}
	}
	if err := r.number(ids, fresh, keys); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		release() // other creators need not wait for our writes
	}
	return r.deliver(ids, lines, keys)
}

// number takes the ids as one block.
func (r *create) number(ids *counter.Counter, fresh []*drop.Line, keys map[string]*counter.Key) error {
	if len(fresh) == 0 {
		return nil
	}
	first, err := ids.Take(len(fresh))
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	for i, l := range fresh {
		l.Task.ID = first + pipeline.TaskID(i)
		l.ID = pipeline.NewDropID()
		l.CreatedAt = now
		if l.Key != "" {
			name := inbox.NewName(now.Add(time.Duration(i)), l.ID)
			keys[l.Key] = &counter.Key{Key: l.Key, TaskID: l.Task.ID, Name: name, Title: l.Task.Title, Drop: bytes.TrimSpace(l.Encode())}
			if err := ids.SaveKey(keys[l.Key]); err != nil {
				return err
			}
		}
	}
	return nil
}

// deliver publishes the drops. If we crashed before the drop of a key was
// delivered, it is delivered now; if it was, its name is taken.
func (r *create) deliver(ids *counter.Counter, lines []*drop.Line, keys map[string]*counter.Key) ([]dropped, error) {
	var all []dropped
	var plain []durable.NewFile
	for i, l := range lines {
		if l.Key == "" {
			name := inbox.NewName(l.CreatedAt.Add(time.Duration(i)), l.ID)
			data := l.Encode()
			plain = append(plain, durable.NewFile{Name: name, Data: data})
			all = append(all, dropped{id: l.Task.ID, kind: inbox.NewTasks, name: name, data: data})
			continue
		}
		m, err := r.deliverKey(ids, keys[l.Key])
		if err != nil {
			return nil, err
		}
		if had := keys[l.Key].Title; had != "" && pipeline.FoldTitle(had) != pipeline.FoldTitle(l.Task.Title) {
			m.other = had
		}
		all = append(all, m)
	}
	if len(plain) == 0 {
		return all, nil
	}
	return all, r.box.PublishAll(inbox.NewTasks, plain)
}

func (r *create) deliverKey(ids *counter.Counter, k *counter.Key) (dropped, error) {
	m := dropped{id: k.TaskID, kind: inbox.NewTasks, name: k.Name}
	if k.Delivered {
		m.existing = true
		return m, nil
	}
	m.data = slices.Concat(k.Drop, []byte("\n"))
	known, err := r.known(k)
	if err != nil {
		return m, err
	}
	if !known {
		if err := r.box.Publish(inbox.NewTasks, k.Name, m.data); err != nil && !errors.Is(err, fs.ErrExist) {
			return m, err
		}
	}
	// If we crash here, the next call with this key finds the name taken, or
	// the task known, and delivers nothing.
	k.Delivered, k.Drop = true, nil
	return m, ids.SaveKey(k)
}

// known reports whether the drop of a key was delivered before a crash and has been
// handled since: its task has a rendering, whatever stands in that, or its file was
// settled.
func (r *create) known(k *counter.Key) (bool, error) {
	known, err := r.ids.Exists(k.TaskID)
	for _, dir := range []string{inbox.ProcessedDir, inbox.FailedDir} {
		if !known && err == nil {
			known, err = r.box.IsSettled(dir, k.Name)
		}
	}
	return known, err
}
