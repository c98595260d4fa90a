package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/lock"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// retryCommand is otm retry.
func retryCommand(s cli.Streams) *cobra.Command {
	var all, newID bool
	c := &cobra.Command{
		Use:   "retry FILE...",
		Short: "Put failed drops back into their inbox",
		Long: `Put failed drops back into their inbox. --new-id gives a task a new id, if its
own belongs to another task.`,
		Example: "  otm retry --all\n  otm retry --new-id 20260314T082019.000000000Z-….json",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && !all {
				return cli.Errorf(cli.Usage, "name the files, or give --all").Hint("otm retry --all")
			}
			if len(args) > 0 && all {
				return cli.Errorf(cli.Usage, "give either files or --all").Hint("otm retry --all")
			}
			return nil
		},
		RunE: withHome(s, func(ctx context.Context, h *Home, args []string) (err error) {
			if all {
				if args, err = h.Box.SettledNames(inbox.FailedDir); err != nil {
					return err
				}
			}
			return retry(ctx, h, args, newID, all)
		}),
	}
	c.Flags().BoolVar(&all, "all", false, "all failed drops")
	jsonFlag(c, "print the result of each file as one JSON array")
	c.Flags().BoolVar(&newID, "new-id", false, "give each task a new id")
	return c
}

// Retried is the result of putting one file back.
type Retried struct {
	File   string          `json:"file"`
	Inbox  inbox.Kind      `json:"inbox,omitempty"`
	Name   string          `json:"name,omitempty" doc:"In the inbox"`
	TaskID pipeline.TaskID `json:"newTaskId,omitempty" doc:"The new id of the task, where one was asked for"`
	Error  string          `json:"error,omitempty"`
}

// retry puts the named files back; all says that they are all there were, so that
// one which another retry has just taken is no error. An error of one does not stop
// the others.
func retry(ctx context.Context, h *Home, names []string, newID, all bool) error {
	results := []Retried{}
	failed := 0
	for _, name := range explainedOf(names) {
		r, err := retryOne(ctx, h, filepath.Base(name), newID)
		switch {
		case errors.Is(err, ErrNotFailed) && all:
			continue
		case err != nil:
			failed++
			r.Error = err.Error()
		}
		results = append(results, r)
		switch {
		case h.asJSON:
		case err != nil:
			fmt.Fprintf(h.Err, "otm: error: %s: %s\n", safe.Escape(r.File), safe.Escape(r.Error))
		default:
			if r.TaskID != 0 {
				h.Note("the task has the new id %v", r.TaskID)
			}
			fmt.Fprintf(h.Out, "%s/%s\n", r.Inbox, safe.Escape(r.Name))
		}
	}
	err := h.answer(results, printed)
	if err != nil || failed == 0 {
		return err
	}
	return someFailed(failed, len(results)).Hint("ls %s", safe.Quote(filepath.Join(h.Dir, inbox.FailedDir)))
}

// explainedOf replaces explanations by the files that they explain: failed/*.json
// matches both.
func explainedOf(names []string) []string {
	var all []string
	for _, name := range names {
		if name = strings.TrimSuffix(name, inbox.ExplainSuffix); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// retryWait is how long to wait for another retry. It needs milliseconds a file.
const retryWait = 60 * time.Second

// ErrNotFailed says that no failed drop has the name.
var ErrNotFailed = errors.New("is not in failed/")

// retryOne puts one file back, under a lock: two retries at once could deliver it
// twice, with --new-id under two ids.
func retryOne(ctx context.Context, h *Home, name string, newID bool) (r Retried, err error) {
	r.File = name
	l, err := lock.Acquire(ctx, h.lockPath("retry"), retryWait)
	if err != nil {
		return r, err
	}
	defer l.Release()
	var edit func(*drop.Object) error
	if newID {
		edit = func(o *drop.Object) (err error) {
			r.TaskID, err = renumber(ctx, h, o)
			return err
		}
	}
	r.Inbox, r.Name, err = h.Box.Retry(name, edit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = ErrNotFailed
	case errors.Is(err, inbox.ErrNoInbox):
		err = fmt.Errorf("%w: move it there by hand", err)
	}
	return r, err
}

var errIsUpdate = errors.New("is an update: its task id is not its own to change")

// renumber gives a create a new task id. It asks for another task then, so the
// drop gets a new id as well.
func renumber(ctx context.Context, h *Home, o *drop.Object) (pipeline.TaskID, error) {
	if o.Get("title") == nil {
		return 0, errIsUpdate
	}
	id, err := h.Counter.TakeOne(ctx)
	if err != nil {
		return 0, err
	}
	return id, errors.Join(o.Set("taskId", id), o.Set("id", pipeline.NewDropID()))
}
