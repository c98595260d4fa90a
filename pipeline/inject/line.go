package inject

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// delivered is what a file in an inbox is known by.
type delivered struct {
	kind inbox.Kind
	name string
}

// waiting is a file in an inbox and what is known of it.
type waiting struct {
	file  inbox.File
	tries int // how often it was judged

	read   bool            // what follows is known
	task   pipeline.TaskID // 0: it names none
	agent  string          // of a create, folded
	title  string          // of a create
	dropID string          // of a create
	issued bool            // a create that otm-create wrote: the counter gave its id out for it
}

func (w *waiting) key() delivered { return delivered{w.file.Kind, w.file.Name} }

// turn is who takes turns: reports of one task come in order, creates of one
// agent as well.
func (w *waiting) turn() string {
	if w.file.Kind == inbox.TaskUpdates {
		return w.task.String()
	}
	return "agent " + w.agent
}

// line is the order in which the files of a sweep are handled: reports before
// creates; among reports tasks take turns, among creates agents do, so that a
// thousand files of one delay nobody else.
type line struct {
	*Injector
	served map[string]int // files handled in this sweep, by whose turn it was

	creating map[pipeline.TaskID]bool     // tasks whose create waits
	owners   map[pipeline.TaskID]*waiting // the creates for which the counter gave their id out
}

func newLine(in *Injector) *line { return &line{Injector: in, served: map[string]int{}} }

// look lists the inboxes, in the order in which to handle the files. If an inbox
// cannot be listed, the other's files are returned with the error.
func (l *line) look() (files []*waiting, err error) {
	updates, err := l.list(inbox.TaskUpdates)
	creates, err2 := l.list(inbox.NewTasks)
	l.creating, l.owners = map[pipeline.TaskID]bool{}, map[pipeline.TaskID]*waiting{}
	for _, w := range creates {
		l.creating[w.task] = true
		if w.issued && l.owners[w.task] == nil {
			l.owners[w.task] = w
		}
	}
	// A report whose task is not known may be of any task: then all come in the
	// order of their names.
	if !slices.ContainsFunc(updates, func(w *waiting) bool { return w.task == 0 }) {
		l.takeTurns(updates)
	}
	l.takeTurns(creates)
	return slices.Concat(updates, creates), errors.Join(err, err2)
}

// takeTurns sorts files that are in the order of their names by how many of the
// same turn come before them.
func (l *line) takeTurns(files []*waiting) {
	ranks, next := make(map[*waiting]int, len(files)), map[string]int{}
	for _, w := range files {
		turn := w.turn()
		ranks[w] = l.served[turn] + next[turn]
		next[turn]++
	}
	slices.SortStableFunc(files, func(a, b *waiting) int { return cmp.Compare(ranks[a], ranks[b]) })
}

// list lists one inbox in the order of names, and forgets files that have gone.
func (l *line) list(kind inbox.Kind) ([]*waiting, error) {
	files, err := l.Box.List(kind)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", kind, err)
	}
	there := make(map[string]bool, len(files))
	all := make([]*waiting, len(files))
	for i, f := range files {
		there[f.Name] = true
		all[i] = l.of(f)
	}
	maps.DeleteFunc(l.known, func(d delivered, _ *waiting) bool { return d.kind == kind && !there[d.name] })
	return all, nil
}

// of returns what is known of a file, and reads it unless it was read before.
func (l *line) of(f inbox.File) *waiting {
	w := l.known[delivered{f.Kind, f.Name}]
	if w == nil {
		w = &waiting{}
		l.known[delivered{f.Kind, f.Name}] = w
	}
	if w.read && w.file.Same(f) {
		w.file = f
		return w
	}
	*w = waiting{file: f, tries: w.tries}
	if !f.Regular() {
		return w
	}
	data, _, err := l.Box.Read(f)
	if err != nil {
		return w
	}
	w.read = true
	if f.Kind == inbox.TaskUpdates {
		if u, err := drop.ParseUpdate(data); err == nil {
			w.task = u.TaskID
		}
	} else if c, err := drop.ParseCreate(data); err == nil {
		w.task, w.agent, w.title = c.Task.ID, pipeline.FoldName(c.Task.Agent), c.Task.Title
		w.dropID = c.ID
		w.issued = inbox.IsNewName(f.Name, c.ID)
	}
	return w
}
