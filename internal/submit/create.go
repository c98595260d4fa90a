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
	"unicode/utf8"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/durable"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/pipeline/task"
)

// create is otm-create.
type create struct {
	base
	title, agent, priority, project, kind string
	steps                                 []string
	key                                   string
}

// Create returns the command otm-create. name is what it is called.
func Create(name, version string, s cli.Streams, args []string) *cobra.Command {
	r := &create{base: base{Streams: s, args: args}}
	c := &cobra.Command{
		Use:   name,
		Short: "Drop a task for an agent",
		Long: `Drop a task for an agent. Prints the task's id once the drop is on disk; the
injector brings it to the board.

Quote with single quotes, so that the shell leaves the text alone; or give JSON
lines on stdin, with a heredoc whose end is quoted:

  ` + name + ` --from - <<'EOF'
  {"title":"Fix the login page","agent":"devdas","subtasks":["Reproduce","Fix"]}
  EOF`,
		Example: `  ` + name + ` --title 'Build login page' --agent devdas --priority high \
    --subtask 'Create form' --subtask 'Add validation'
  ` + name + ` --title 'Nightly report' --agent archibald --key report-2026-03-14`,
		Version: version,
		Args: func(c *cobra.Command, words []string) error {
			if err := r.checkRemoved(c); err != nil {
				return err
			}
			return cli.NoWords(args, "title")(c, words)
		},
		RunE: func(c *cobra.Command, _ []string) error {
			return r.run(c)
		},
	}
	f := c.Flags()
	f.StringVar(&r.title, "title", "", "what is to be done, one line (required)")
	f.StringVar(&r.agent, "agent", "", "who does it (required)")
	f.StringVar(&r.priority, "priority", string(pipeline.Normal), "critical, high, normal (medium), low or batchable")
	f.StringVar(&r.project, "project", "", "free text")
	f.StringVar(&r.kind, "type", string(pipeline.Action), "action, decision or review")
	f.StringArrayVar(&r.steps, "subtask", nil, "one step; repeat it for more (default: "+pipeline.DefaultStep+")")
	f.StringVar(&r.key, "key", "", "the same key gives the same id and drops nothing, for ever")
	f.StringVar(&r.from, "from", "", "JSON lines from a file, or - for stdin; other flags are their defaults")
	for _, removed := range []string{"description", "creator", "assignedTo"} {
		f.String(removed, "", "")
		f.MarkHidden(removed)
	}
	r.flags(c)
	return c
}

// replacements name what took the place of the flags that the specification
// removed. Who was named twice is named by the first of them.
var replacements = []struct{ removed, now string }{
	{"description", "subtask"}, {"assignedTo", "agent"}, {"creator", "agent"},
}

// checkRemoved refuses the flags that were removed, with a line that has none
// of them.
func (r *create) checkRemoved(c *cobra.Command) error {
	var told []string
	line := cli.ParseLine(c, r.args, "title")
	for _, f := range replacements {
		if !c.Flags().Changed(f.removed) {
			continue
		}
		told = append(told, fmt.Sprintf("--%s was removed: use --%s", f.removed, f.now))
		if f.now == "agent" && line.Has("agent") {
			line.Remove(f.removed)
		}
		line.Rename(f.removed, f.now)
	}
	if len(told) == 0 {
		return nil
	}
	return cli.Errorf(cli.Usage, "%s", strings.Join(told, "; ")).Hint("%v", line)
}

func (r *create) run(c *cobra.Command) error {
	lines, err := r.read(c)
	if err != nil {
		return err
	}
	if err := r.open(); err != nil {
		return err
	}
	if err := r.checkAgents(c, lines); err != nil {
		return err
	}
	for _, l := range lines {
		if strings.Contains(l.Task.Title, "command not found") {
			r.Warn("the title looks like the output of a command that failed: quote it with single quotes")
		}
	}
	made, err := r.drop(c.Context(), lines)
	if err != nil {
		return err
	}
	for _, m := range made { // said only now, as others waited for the counter
		if m.otherwise != "" {
			r.Note("%v has another title: %q; the key stands for that task", m.id, m.otherwise)
		}
	}
	if err := r.print(made); err != nil {
		return err
	}
	if !r.wait && !c.Flags().Changed("wait-for") {
		return nil
	}
	drops := make([]awaited, len(made))
	for i, m := range made {
		drops[i] = awaited{id: m.id, kind: inbox.NewTasks, name: m.name, data: m.data}
	}
	return r.await(c.Context(), drops)
}

// read returns the tasks to make: from the flags, or from --from with the
// flags as defaults. All are valid.
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
	texts, err := r.lines(c, `{"title":"Fix the login page","agent":"devdas"}`)
	if err != nil {
		return nil, err
	}
	defaults.Key = "" // which line takes --key is seen below
	var lines []*drop.Line
	var problems []string
	for _, t := range texts {
		line, err := drop.ParseLine(t.text, *defaults)
		if err != nil {
			problems = append(problems, fmt.Sprintf("line %d: %v", t.n, err))
			continue
		}
		lines = append(lines, line)
		r.numbers = append(r.numbers, t.n)
	}
	problems = append(problems, r.shareKeys(lines)...)
	if len(problems) > 0 {
		return nil, r.refuseLines(problems)
	}
	return lines, nil
}

// shareKeys gives --key to the line that has no key of its own, and says what
// is wrong with the keys of all. A key stands for one task: on lines that
// differ, all but one of them would be lost.
func (r *create) shareKeys(lines []*drop.Line) (problems []string) {
	firsts := map[string]int{}
	without := -1
	for i, l := range lines {
		if l.Key == "" && r.key != "" {
			if without >= 0 {
				problems = append(problems, fmt.Sprintf("line %d: has no key of its own, as line %d: --key %q is for one task; write \"key\" into the lines", r.numbers[i], r.numbers[without], r.key))
				continue
			}
			without, l.Key = i, r.key
		}
		if l.Key == "" {
			continue
		}
		first, taken := firsts[l.Key]
		switch {
		case !taken:
			firsts[l.Key] = i
		case !reflect.DeepEqual(l.Task, lines[first].Task):
			problems = append(problems, fmt.Sprintf("line %d: key %q stands on line %d for another task", r.numbers[i], l.Key, r.numbers[first]))
		}
	}
	return problems
}

func (r *create) defaults(c *cobra.Command) (*drop.Line, error) {
	line := &drop.Line{Key: r.key}
	t := &line.Task
	t.Title, t.Agent, t.Project, t.Steps = r.title, r.agent, r.project, r.steps
	var ok bool
	if t.Priority, ok = pipeline.ParsePriority(r.priority); !ok {
		return nil, cli.Errorf(cli.Usage, "--priority %q: it is critical, high, normal (medium), low or batchable", r.priority).
			Hint("%v", cli.ParseLine(c, r.args, "title").Set("priority", nearPriority(r.priority)))
	}
	if t.Type, ok = pipeline.ParseType(r.kind); !ok {
		return nil, cli.Errorf(cli.Usage, "--type %q: it is action, decision or review", r.kind).
			Hint("%v", cli.ParseLine(c, r.args, "title").Set("type", nearType(r.kind)))
	}
	if c.Flags().Changed("key") && strings.TrimSpace(r.key) == "" {
		return nil, cli.Errorf(cli.Usage, "--key is blank").Hint("%v", cli.ParseLine(c, r.args, "title").Remove("key"))
	}
	return line, nil
}

// refuse words what is wrong with a flag.
func (r *create) refuse(c *cobra.Command, err error) error {
	var invalid *drop.InvalidError
	if !errors.As(err, &invalid) {
		return usage(c, err)
	}
	e := cli.Errorf(cli.Usage, "--%s %s", flagOf(invalid.Field), invalid.Reason)
	switch {
	case strings.Contains(r.title, "\n") && invalid.Field == "title":
		oneLine := strings.Join(strings.Fields(r.title), " ")
		return e.Hint("%v", cli.ParseLine(c, r.args, "title").Set("title", oneLine))
	case utf8.RuneCountInString(r.title) > pipeline.MaxText && invalid.Field == "title":
		return e.Hint("keep the title short and say the rest in steps: %s --title 'In short' --agent %s --subtask 'First this'", c.CommandPath(), safe.Quote(r.agent))
	case invalid.Field == "title" || strings.HasPrefix(invalid.Field, "subtasks"):
		return e.Hint("quote text with single quotes, or give it on stdin: %s --from - <<'EOF'", c.CommandPath())
	case invalid.Field == "agent":
		return e.Hint("%v", cli.ParseLine(c, r.args, "title").Set("agent", "NAME"))
	}
	return e.Hint("%s --help", c.CommandPath())
}

func flagOf(field string) string {
	if strings.HasPrefix(field, "subtasks") {
		return "subtask"
	}
	return field
}

// checkAgents refuses names that nobody has, where somebody is configured: a
// task for nobody would wait for ever.
func (r *create) checkAgents(c *cobra.Command, lines []*drop.Line) error {
	agents := r.agents()
	if len(agents) == 0 {
		return nil
	}
	var problems []string
	for i, l := range lines {
		if a := agents.Named(l.Task.Agent); a != nil {
			l.Task.Agent = a.Name
			continue
		}
		reason := fmt.Sprintf("no agent %q is configured; there are %s", l.Task.Agent, strings.Join(agents.Names(), ", "))
		if r.from == "" {
			return cli.Errorf(cli.Usage, "%s", reason).
				Hint("%v", cli.ParseLine(c, r.args, "title").Set("agent", cmp.Or(agents.Nearest(l.Task.Agent), "NAME")))
		}
		problems = append(problems, fmt.Sprintf("line %d: %s", r.numbers[i], reason))
	}
	if len(problems) > 0 {
		return r.refuseLines(problems)
	}
	return nil
}

// made is a task that has its id.
type made struct {
	id       pipeline.TaskID
	name     string // of the drop
	data     []byte // nil where the key was used before
	existing bool   // the key was used before
	// otherwise is the title under which the key was used, if it was another.
	otherwise string
}

// drop gives each task its id and delivers it. All drops are durable on return.
// If we crash before, no id was printed, and some may stand in the inbox: those
// with a key are delivered one by one, and after them the others at once. The
// same call then makes those without a key once more.
func (r *create) drop(ctx context.Context, lines []*drop.Line) ([]made, error) {
	counter, err := r.store.Counter(ctx)
	if err != nil {
		return nil, err
	}
	held := true
	release := func() {
		if held {
			held = false
			counter.Release()
		}
	}
	defer release()

	keys := map[string]*task.Key{}
	var fresh []*drop.Line // that need an id
	for _, l := range lines {
		if l.Key == "" {
			fresh = append(fresh, l)
			continue
		}
		if _, seen := keys[l.Key]; seen {
			continue
		}
		if keys[l.Key], err = counter.LookupKey(l.Key); err != nil {
			return nil, err
		}
		if keys[l.Key] == nil {
			fresh = append(fresh, l)
		}
	}
	if err := r.number(counter, fresh, keys); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		release() // other creators need not wait for our writes
	}
	return r.deliver(counter, lines, keys)
}

// number takes the ids as one block.
func (r *create) number(counter *task.Counter, fresh []*drop.Line, keys map[string]*task.Key) error {
	if len(fresh) == 0 {
		return nil
	}
	first, err := counter.Take(len(fresh))
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
			keys[l.Key] = &task.Key{Key: l.Key, TaskID: l.Task.ID, Name: name, Title: l.Task.Title, Drop: bytes.TrimSpace(l.Encode())}
			if err := counter.SaveKey(keys[l.Key]); err != nil {
				return err
			}
		}
	}
	return nil
}

// deliver publishes the drops. A key whose drop may not have been delivered
// yet, because we crashed, is delivered now: if it was, the name is taken.
func (r *create) deliver(counter *task.Counter, lines []*drop.Line, keys map[string]*task.Key) ([]made, error) {
	var all []made
	var plain []durable.NewFile
	for i, l := range lines {
		if l.Key == "" {
			name := inbox.NewName(l.CreatedAt.Add(time.Duration(i)), l.ID)
			data := l.Encode()
			plain = append(plain, durable.NewFile{Name: name, Data: data})
			all = append(all, made{id: l.Task.ID, name: name, data: data})
			continue
		}
		m, err := r.deliverKey(counter, keys[l.Key])
		if err != nil {
			return nil, err
		}
		if had := keys[l.Key].Title; had != "" && pipeline.FoldTitle(had) != pipeline.FoldTitle(l.Task.Title) {
			m.otherwise = had
		}
		all = append(all, m)
	}
	if len(plain) == 0 {
		return all, nil
	}
	return all, r.box.PublishAll(inbox.NewTasks, plain)
}

func (r *create) deliverKey(counter *task.Counter, k *task.Key) (made, error) {
	m := made{id: k.TaskID, name: k.Name}
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
	return m, counter.SaveKey(k)
}

// known tells whether the drop of a key was delivered before a crash and has
// been handled since. A record that is there says so, however damaged; one that
// cannot be read now says nothing, and then the drop must not be taken for
// delivered.
func (r *create) known(k *task.Key) (bool, error) {
	_, err := r.store.Load(k.TaskID)
	var corrupt *task.CorruptError
	switch {
	case err == nil, errors.As(err, &corrupt):
		return true, nil
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	settled, err := r.box.IsSettled(inbox.ProcessedDir, k.Name)
	if settled || err != nil {
		return settled, err
	}
	return r.box.IsSettled(inbox.FailedDir, k.Name)
}

func (r *create) print(all []made) error {
	answers := make([]answer, len(all))
	for i, m := range all {
		answers[i] = answer{TaskID: m.id, Existing: m.existing}
		if !m.existing {
			answers[i].File = m.name
		}
	}
	return r.answer(answers)
}
