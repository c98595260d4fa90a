// Package submit holds the two commands that stand in agents' prompts:
// otm-create and otm-update. They drop files and speak to nothing else, and
// link neither network nor database, so that they start in milliseconds.
package submit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
	"otm/pipeline/task"
)

// base is what both commands have in common.
type base struct {
	cli.Streams
	args    []string // the whole command line, for corrections
	dirFlag string
	from    string
	wait    bool
	waitFor time.Duration
	json    bool
	numbers []int // of the lines of --from that hold something

	dir   string
	box   *inbox.Box
	store *task.Store
}

func (b *base) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&b.dirFlag, "dir", "", "data directory (default: OTM_DIR, else the platform's)")
	f.BoolVar(&b.wait, "wait", false, "wait until it is handled: 0 handled, 1 failed, 75 still queued")
	f.DurationVar(&b.waitFor, "wait-for", 8*time.Second, "how long --wait waits at most")
	f.BoolVar(&b.json, "json", false, "print the answer as JSON")
}

// open finds the data directory.
func (b *base) open() error {
	dir, err := config.FindDir(b.dirFlag, b.Getenv)
	if err != nil {
		return err
	}
	warning, err := config.CheckDir(dir)
	if err != nil {
		return err
	}
	if warning != "" {
		b.Warn("%s", warning)
	}
	b.dir, b.box = dir, inbox.Open(dir)
	b.store = task.Open(dir, func(s string) { b.Warn("%s", s) })
	return nil
}

// agents returns who is configured. A broken configuration stops daemons, not
// a drop: it says so, and then nobody's name is checked.
func (b *base) agents() pipeline.Agents {
	c, err := config.Load(b.dir, b.Getenv)
	if err != nil {
		b.Warn("%v; names of agents are not checked", err)
		return nil
	}
	return c.Agents
}

// maxLine bounds a line of --from, in bytes.
const maxLine = drop.MaxSize

// lines reads the JSON lines of --from, with their numbers. Empty ones are
// passed over. example is a line that is right.
func (b *base) lines(c *cobra.Command, example string) ([]numbered, error) {
	refuse := func(format string, args ...any) error {
		return cli.Errorf(cli.Usage, format, args...).Hint("echo %s | %s --from -", safe.Quote(example), c.CommandPath())
	}
	in := b.In
	if b.from != "-" {
		f, err := os.Open(b.from)
		if err != nil {
			return nil, refuse("--from: %w", err)
		}
		defer f.Close()
		in = f
	}
	var lines []numbered
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxLine+2) // with the line's end
	n := 1
	for ; scanner.Scan(); n++ {
		text := scanner.Bytes()
		if n == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			lines = append(lines, numbered{n, bytes.Clone(text)})
		}
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, refuse("line %d: a line is longer than %d bytes", n, maxLine)
	case err != nil:
		return nil, refuse("--from: %w", err)
	case len(lines) == 0:
		return nil, refuse("nothing to read: --from wants one JSON object a line")
	}
	return lines, nil
}

type numbered struct {
	n    int
	text []byte
}

// maxProblems is how many bad lines are told of at once.
const maxProblems = 20

// refuseLines reports bad lines, all that there are; nothing was written.
func (b *base) refuseLines(problems []string) error {
	for i, p := range problems {
		if i == maxProblems {
			fmt.Fprintf(b.Err, "otm: error: and %d more\n", len(problems)-i)
			break
		}
		fmt.Fprintf(b.Err, "otm: error: %s\n", safe.Escape(p))
	}
	fmt.Fprintln(b.Err, "otm: hint: nothing was written; mend these lines and run it again with all of them")
	return cli.Exit(cli.Usage)
}

// answer is what --json prints for each task or update.
type answer struct {
	TaskID   pipeline.TaskID `json:"taskId"`
	File     string          `json:"file,omitempty"`
	Existing bool            `json:"existing,omitempty"` // the key was used before
}

// answer prints what was dropped, the ids alone or as JSON. It is on disk
// whether or not anybody can be told.
func (b *base) answer(all []answer) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	for _, a := range all {
		if !b.json {
			fmt.Fprintln(&text, a.TaskID)
		} else if err := enc.Encode(a); err != nil {
			return err
		}
	}
	if _, err := b.Out.Write(text.Bytes()); err != nil {
		return cli.Errorf(cli.Failed, "the drop of %v is on disk, but the answer was not written: %w", all[0].TaskID, err).
			Hint("otm list")
	}
	return nil
}

// awaited is a drop whose handling is waited for. Its data is nil where an
// earlier call delivered it.
type awaited struct {
	id   pipeline.TaskID
	kind inbox.Kind
	name string
	data []byte
}

// Looking for a settled file costs two system calls, and these commands link
// no watcher; so they look again and again, less often as time goes by.
const (
	firstLook = 5 * time.Millisecond
	lastLook  = 200 * time.Millisecond
)

// await waits until all drops are settled, or the time is over. Whoever
// interrupts it is told the same as when the time is over: the drops stand.
func (b *base) await(ctx context.Context, drops []awaited) error {
	deadline := time.Now().Add(b.waitFor)
	failed := false
	for pause := firstLook; ; pause = min(pause*3/2, lastLook) {
		var left []awaited
		for _, d := range drops {
			result, settled, err := b.settled(d)
			if err != nil {
				return err
			}
			if !settled {
				left = append(left, d)
				continue
			}
			if result.Class != "" {
				failed = true
				b.reportFailure(d, result)
			}
		}
		drops = left
		if len(drops) == 0 || !time.Now().Before(deadline) || ctx.Err() != nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(pause, time.Until(deadline))):
		}
	}
	for _, d := range drops {
		if d.kind == inbox.NewTasks {
			b.Note("%v is queued; do not create it again", d.id)
		} else {
			b.Note("the update of %v is queued; do not send it again", d.id)
		}
	}
	why := ""
	switch len(drops) {
	case 0:
	case 1:
		why = "otm why " + drops[0].id.String()
	default:
		why = "otm why --all"
	}
	switch {
	case failed:
		return cli.Exit(cli.Failed).Hint("%s", why)
	case len(drops) > 0:
		return cli.Exit(cli.TryLater).Hint("%s", why)
	}
	return nil
}

func (b *base) settled(d awaited) (inbox.Result, bool, error) {
	if waits, err := b.box.Waiting(d.kind, d.name); waits || err != nil {
		return inbox.Result{}, false, err
	}
	result, settled, err := b.box.Find(d.kind, d.name, d.data)
	if d.data == nil && err == nil && !settled {
		settled = true // it was delivered once, and has been cleared away since
	}
	return result, settled, err
}

func (b *base) reportFailure(d awaited, r inbox.Result) {
	fmt.Fprintf(b.Err, "otm: error: %v: %s\n", d.id, safe.Escape(r.Error))
	if r.Hint != "" {
		fmt.Fprintf(b.Err, "otm: hint: %s\n", safe.Escape(r.Hint))
	}
}

// usage turns what is wrong with a drop into a refusal, where nothing better is
// known than what the flags are.
func usage(c *cobra.Command, err error) *cli.Error {
	return cli.Errorf(cli.Usage, "%w", err).Hint("%s --help", c.CommandPath())
}
