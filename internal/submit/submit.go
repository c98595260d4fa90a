// Package submit holds the two commands that stand in agents' prompts:
// otm-create and otm-update. They drop files and speak to nothing else. They
// link neither network nor database, so that they start in milliseconds.
package submit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/datadir"
	"otm/internal/safe"
	"otm/pipeline"
	"otm/pipeline/counter"
	"otm/pipeline/drop"
	"otm/pipeline/inbox"
)

// base is what both commands have in common.
type base struct {
	cli.Streams
	args    []string // the whole command line, for corrections
	first   []string // the flags that words before any flag belong to
	dirFlag string
	from    string
	wait    bool
	waitFor time.Duration
	json    bool
	numbers []int // of the lines of --from that hold something

	dir string
	box *inbox.Box
	ids *counter.Dir
}

// command completes a command with the flags, arguments and steps of both.
func (b *base) command(c *cobra.Command, run func(*cobra.Command) error) *cobra.Command {
	c.Args = cli.NoWords(b.args, b.first...)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if b.waits(c) { // else an interrupt ends the process as a kill would: to hear of one takes a thread
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			c.SetContext(ctx)
		}
		return run(c)
	}
	f := c.Flags()
	f.StringVar(&b.from, "from", "", "JSON lines from a file, or - for stdin; other flags are their defaults")
	f.StringVar(&b.dirFlag, "dir", "", "data directory (default: OTM_DIR, else the platform's)")
	f.BoolVar(&b.wait, "wait", false, "wait until it is handled: 0 handled, 1 failed, 75 still queued")
	f.DurationVar(&b.waitFor, "wait-for", 8*time.Second, "how long --wait waits at most")
	f.BoolVar(&b.json, "json", false, "print the answer as JSON")
	return c
}

// waits reports whether the command waits for what comes of its drops.
func (b *base) waits(c *cobra.Command) bool { return b.wait || c.Flags().Changed("wait-for") }

// corrected is the command line as it was given, to be corrected.
func (b *base) corrected(c *cobra.Command) *cli.Line { return cli.ParseLine(c, b.args, b.first...) }

// nearest is the command line with the word of a closed list that a flag's value
// probably stands for.
func (b *base) nearest(c *cobra.Command, flag, value string, all []string) string {
	if near := pipeline.Nearest(value, all); near != "" {
		return b.corrected(c).Set(flag, near).String()
	}
	return c.CommandPath() + " --help"
}

// trace is the trace in which the command runs, as its environment says.
func (b *base) trace() pipeline.Trace { return pipeline.ParseTrace(b.Getenv("TRACEPARENT")) }

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
	if err := datadir.Check(dir); err != nil {
		return err
	}
	b.dir, b.box = dir, inbox.Open(dir)
	b.ids = counter.Open(dir, func(s string) { b.Warn("%s", s) })
	return nil
}

// config returns the configuration; nil: it is broken. That stops daemons, but no drop:
// names are not checked then.
func (b *base) config() *config.Config {
	c, err := config.Load(b.dir, b.Getenv)
	if err != nil {
		b.Warn("%v; names of agents and types are not checked", err)
		return nil
	}
	return c
}

// agents returns everybody who is known.
func (b *base) agents(c *config.Config) pipeline.Agents {
	agents, err := c.AllAgents()
	if err != nil {
		b.Warn("%v; agents that only it names are not known", err)
	}
	return agents
}

// maxLine bounds a line of --from, in bytes.
const maxLine = drop.MaxSize

// parseLines parses the JSON lines of --from. It returns what is wrong with
// single lines as problems; the numbers of the good ones are in b.numbers.
// example is a line that is right.
func parseLines[T any](b *base, c *cobra.Command, example string, parse func([]byte) (T, error)) (all []T, problems []string, err error) {
	err = b.eachLine(func(n int, text []byte) {
		v, err := parse(text)
		if syntax, ok := errors.AsType[*drop.SyntaxError](err); ok && syntax.Line > 0 {
			syntax.Line = n
			problems = append(problems, syntax.Error())
		} else if err != nil {
			problems = append(problems, fmt.Sprintf("line %d: %v", n, err))
		} else {
			all = append(all, v)
			b.numbers = append(b.numbers, n)
		}
	})
	if err != nil {
		return nil, nil, cli.Errorf(cli.Usage, "%w", err).Hint("echo %s | %s --from -", safe.Quote(example), c.CommandPath())
	}
	return all, problems, nil
}

// eachLine calls do with the lines of --from that are not blank, and their numbers.
func (b *base) eachLine(do func(n int, text []byte)) error {
	in := b.In
	if b.from != "-" {
		f, err := os.Open(b.from)
		if err != nil {
			return fmt.Errorf("--from: %w", err)
		}
		defer f.Close()
		in = f
	}
	found := false
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxLine+2) // with the line's end
	n := 1
	for ; scanner.Scan(); n++ {
		text := scanner.Bytes()
		if n == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			found = true
			do(n, bytes.Clone(text))
		}
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("line %d: a line is longer than %d bytes", n, maxLine)
	case err != nil:
		return fmt.Errorf("--from: %w", err)
	case !found:
		return errors.New("nothing to read: --from wants one JSON object a line")
	}
	return nil
}

// checkEach checks n drops: that of the flags, or those of the lines of --from.
func (b *base) checkEach(n int, check func(i int) error) error {
	var problems []string
	for i := range n {
		err := check(i)
		if err != nil && b.from == "" {
			return err
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("line %d: %v", b.numbers[i], err))
		}
	}
	return b.refuseLines(problems)
}

// maxProblems is how many bad lines are printed.
const maxProblems = 20

// refuseLines reports the bad lines of --from. Nothing was written.
func (b *base) refuseLines(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
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

// dropped is a task or an update that is durable in its inbox, or was handled
// since.
type dropped struct {
	id       pipeline.TaskID
	kind     inbox.Kind
	name     string // of the file
	data     []byte // nil if an earlier call delivered it
	existing bool   // the key was used before
	other    string // the title under which the key was used, if it was another
}

// finish prints the answer, and waits if that was asked for. The drops are
// durable whether or not the answer can be printed.
func (b *base) finish(c *cobra.Command, drops []dropped) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	for _, d := range drops {
		answer := struct {
			TaskID   pipeline.TaskID `json:"taskId"`
			File     string          `json:"file,omitempty"`
			Existing bool            `json:"existing,omitempty"` // the key was used before
		}{d.id, d.name, d.existing}
		if d.existing {
			answer.File = ""
		}
		if !b.json {
			fmt.Fprintln(&text, d.id)
		} else if err := enc.Encode(answer); err != nil {
			return err
		}
	}
	if _, err := b.Out.Write(text.Bytes()); err != nil {
		return cli.Errorf(cli.Failed, "the drop of %v is on disk, but the answer was not written: %w", drops[0].id, err).
			Hint("otm list")
	}
	if !b.waits(c) {
		return nil
	}
	return b.await(c.Context(), drops)
}

// usage turns what is wrong with a drop into a refusal with the corrected line,
// or with what else to do about a flag.
func (b *base) usage(c *cobra.Command, err error, flags map[string]string, hint func(*drop.InvalidError) string) error {
	var invalid *drop.InvalidError
	if !errors.As(err, &invalid) {
		return cli.Errorf(cli.Usage, "%w", err).Hint("%s --help", c.CommandPath())
	}
	field := invalid.Name()
	if flag := flags[field]; flag != "" {
		field = flag
	}
	e := cli.Errorf(cli.Usage, "--%s %s", field, invalid.Reason)
	if h := hint(invalid); h != "" {
		return e.Hint("%s", h)
	}
	return e.Hint("%s --help", c.CommandPath())
}
