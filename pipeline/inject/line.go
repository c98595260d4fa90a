package inject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"otm/core"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// delivered identifies a file in an inbox.
type delivered struct {
	kind inbox.Kind
	name string
}

// waiting is a file in an inbox, with its content and its plan.
type waiting struct {
	file  inbox.File
	tries int // how often it was judged

	data    []byte
	readErr error // why it could not be read
	create  *drop.Create
	update  *drop.Update
	dropErr error  // why it is neither
	agent   string // whose task it is, folded; of an update, see line.agentOf; "": not known

	command core.Command // to be carried out
	outcome core.Outcome
	verdict verdict
}

func (w *waiting) key() delivered { return delivered{w.file.Kind, w.file.At} }

// task is the task that a drop names; 0: it names none.
func (w *waiting) task() pipeline.TaskID {
	switch {
	case w.create != nil:
		return w.create.Task.ID
	case w.update != nil:
		return w.update.TaskID
	}
	return 0
}

// issued reports whether otm-create wrote a create: the counter gave its id out for it.
func (w *waiting) issued() bool {
	return w.create != nil && inbox.IsNewName(w.file.Name, w.create.ID)
}

// turn is whose turn a file is: that of its agent, or of its task where the agent is
// not known. Files that are no drops share one turn. So the reports on one task, and the
// creates of one agent, come in order.
func (w *waiting) turn() string {
	if w.agent == "" {
		return fmt.Sprintf("%s of %v", w.file.Kind, w.task())
	}
	return fmt.Sprintf("%s of agent %s", w.file.Kind, w.agent)
}

// line is the order in which the files of a sweep are handled. Reports come before
// creates, but for one create after each reportsInARow reports; agents take turns.
// So neither a thousand files of one agent nor a steady stream of reports delays
// the others.
type line struct {
	*Injector
	served map[string]int             // files handled in this sweep, by whose turn it was
	agents map[pipeline.TaskID]string // of tasks, folded, as first seen in this sweep; "": not known
	inARow int                        // reports handled since the last create

	creating map[pipeline.TaskID]bool     // tasks whose create waits
	owners   map[pipeline.TaskID]*waiting // the creates for which the counter gave their id out
}

func newLine(in *Injector) *line {
	return &line{Injector: in, served: map[string]int{}, agents: map[pipeline.TaskID]string{}}
}

// reportsInARow is how many reports are handled before a create has its turn.
const reportsInARow = 8

// look lists the files of the inboxes that were not handled yet, in the order in
// which to handle them. If an inbox cannot be listed, the other's files are returned
// with the error.
func (l *line) look(ctx context.Context, handled map[delivered]bool) (files []*waiting, err error) {
	updates, err := l.list(inbox.TaskUpdates)
	creates, err2 := l.list(inbox.NewTasks)
	l.creating, l.owners = map[pipeline.TaskID]bool{}, map[pipeline.TaskID]*waiting{}
	for _, w := range creates {
		id := w.task()
		l.creating[id] = true
		if w.issued() && l.owners[id] == nil {
			l.owners[id] = w
		}
	}
	done := func(w *waiting) bool { return handled[w.key()] }
	updates, creates = slices.DeleteFunc(updates, done), slices.DeleteFunc(creates, done)
	for _, w := range updates {
		w.agent = l.agentOf(ctx, w.task(), creates)
	}
	l.takeTurns(updates)
	l.takeTurns(creates)
	return l.merge(updates, creates), errors.Join(err, err2)
}

// agentOf is the agent of a task, folded, by the store or its waiting create; "" if
// it is not known. It stays the same for a sweep, which keeps the reports on one task
// in one turn.
func (l *line) agentOf(ctx context.Context, id pipeline.TaskID, creates []*waiting) string {
	agent, known := l.agents[id]
	if known || id == 0 {
		return agent
	}
	if t, err := l.Engine.Task(ctx, id); err == nil {
		agent = pipeline.FoldName(t.Agent)
	} else if i := slices.IndexFunc(creates, func(w *waiting) bool { return w.task() == id }); i >= 0 {
		agent = creates[i].agent
	}
	l.agents[id] = agent
	return agent
}

// takeTurns sorts files that are in the order of their names by how many of the
// same turn come before them. One that could not be read comes first: it may be a
// report on any task, and then the others wait for it.
func (l *line) takeTurns(files []*waiting) {
	ranks, next := make(map[*waiting]int, len(files)), map[string]int{}
	for _, w := range files {
		if w.readErr != nil {
			ranks[w] = -1
			continue
		}
		turn := w.turn()
		ranks[w] = l.served[turn] + next[turn]
		next[turn]++
	}
	slices.SortStableFunc(files, func(a, b *waiting) int { return cmp.Compare(ranks[a], ranks[b]) })
}

// merge puts reports before creates, with one create after each reportsInARow.
func (l *line) merge(updates, creates []*waiting) []*waiting {
	files := make([]*waiting, 0, len(updates)+len(creates))
	for inARow := l.inARow; len(updates) > 0; {
		if inARow >= reportsInARow && len(creates) > 0 {
			files, creates, inARow = append(files, creates[0]), creates[1:], 0
			continue
		}
		files, updates, inARow = append(files, updates[0]), updates[1:], inARow+1
	}
	return append(files, creates...)
}

// serve notes that a file has its turn.
func (l *line) serve(w *waiting) {
	l.served[w.turn()]++
	l.inARow++
	if w.file.Kind == inbox.NewTasks {
		l.inARow = 0
	}
}

// list lists one inbox in the order of names, and forgets files that have gone.
func (l *line) list(kind inbox.Kind) ([]*waiting, error) {
	files, err := l.Box.List(kind)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", kind, err)
	}
	there := make(map[string]bool, len(files))
	all := make([]*waiting, 0, len(files))
	for _, f := range files {
		if w := l.of(f); w != nil {
			there[f.At] = true
			all = append(all, w)
		}
	}
	maps.DeleteFunc(l.known, func(d delivered, _ *waiting) bool { return d.kind == kind && !there[d.name] })
	return all, nil
}

// of returns a file with its content, and reads it unless it was read before; nil: it has
// gone.
func (l *line) of(f inbox.File) *waiting {
	w := l.known[delivered{f.Kind, f.At}]
	if w != nil && w.readErr == nil && w.file.Same(f) {
		w.file = f
		return w
	}
	if w == nil {
		w = &waiting{}
		l.known[delivered{f.Kind, f.At}] = w
	}
	*w = waiting{file: f, tries: w.tries}
	if !f.Regular() {
		return w
	}
	w.data, w.file, w.readErr = l.Box.Read(f)
	switch {
	case errors.Is(w.readErr, fs.ErrNotExist):
		return nil // taken back, or settled by another
	case w.readErr != nil:
	case f.Kind == inbox.TaskUpdates:
		w.update, w.dropErr = drop.ParseUpdate(w.data)
		if w.dropErr != nil {
			w.update = nil
		}
	default:
		if w.create, w.dropErr = drop.ParseCreate(w.data); w.dropErr != nil {
			w.create = nil
		} else {
			w.agent = pipeline.FoldName(w.create.Task.Agent)
		}
	}
	return w
}
