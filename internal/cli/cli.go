// Package cli is how OTM's commands talk to people and scripts: streams, errors
// with the next step, and exit codes.
//
// Answers go to stdout, everything else to stderr with the prefix "otm: ". An
// error is one line, "otm: error: …", followed by "otm: hint: …" lines that can be
// pasted into a shell. A line begins without a capital and ends without a full
// stop. Text from a drop or from the board is escaped before it is printed.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"otm/internal/safe"
)

// The exit codes. They are published; any other code is a failure.
const (
	OK          = 0
	Failed      = 1
	Partial     = 3  // some items failed
	NotInit     = 10 // the directory is not initialised
	Locked      = 11 // another instance runs
	Credentials = 12 // a token is missing or refused
	Usage       = 64 // usage or invalid input, nothing was written
	TryLater    = 75 // it cannot be done now; nothing is lost
	BadConfig   = 78
)

// Streams are the input, the outputs and the environment of a command.
type Streams struct {
	In     io.Reader
	Out    io.Writer
	Err    io.Writer
	Getenv func(string) string
}

// OSStreams are the streams of the process.
func OSStreams() Streams {
	return Streams{In: os.Stdin, Out: &Output{W: os.Stdout}, Err: os.Stderr, Getenv: os.Getenv}
}

// Output remembers that W refused a part of an answer, so that Run does not
// report success. A pipe that its reader has closed is no loss. Several goroutines
// may write to it.
type Output struct {
	W io.Writer

	mu  sync.Mutex
	err error // the first
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.W.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		return len(p), nil
	}
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// lost returns the error with which a part of the answer was not written; nil if
// all was.
func (s Streams) lost() error {
	o, ok := s.Out.(*Output)
	if !ok {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Note writes one line that is neither an answer nor an error.
func (s Streams) Note(format string, args ...any) {
	fmt.Fprintf(s.Err, "otm: note: %s\n", safe.Escape(fmt.Sprintf(format, args...)))
}

// Warn writes one line about a problem that does not stop the command.
func (s Streams) Warn(format string, args ...any) {
	fmt.Fprintf(s.Err, "otm: warning: %s\n", safe.Escape(fmt.Sprintf(format, args...)))
}

// Error is an error with its exit code and the next steps.
type Error struct {
	Code  int
	Err   error
	Hints []string // each a command, or a sentence
	Quiet bool     // the error was printed already: only the hints and the exit code count
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error without hints.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// Hint adds a hint; an empty one adds nothing.
func (e *Error) Hint(format string, args ...any) *Error {
	if hint := fmt.Sprintf(format, args...); hint != "" {
		e.Hints = append(e.Hints, hint)
	}
	return e
}

// Exit ends a command with a code and prints nothing but hints.
func Exit(code int) *Error {
	return &Error{Code: code, Err: fmt.Errorf("exit %d", code), Quiet: true}
}

// Run executes a command and returns the exit code. explain turns an error of a
// library into an Error; if it returns nil, the error stays as it is.
func Run(ctx context.Context, cmd *cobra.Command, args []string, s Streams, explain func(error) *Error) int {
	cmd.SetArgs(args)
	cmd.SetIn(s.In)
	cmd.SetOut(s.Out)
	cmd.SetErr(s.Err)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return flagError(c, err, args) })
	if len(args) > 0 && strings.HasPrefix(args[0], "__complete") {
		noFileNames(cmd)
	}
	ran, err := cmd.ExecuteContextC(ctx)
	if lost := s.lost(); lost != nil {
		err = unwritten(err, lost)
	}
	if err == nil {
		return OK
	}
	var e *Error
	if !errors.As(err, &e) {
		if explain != nil {
			e = explain(err)
		}
		if e == nil {
			e = &Error{Code: Failed, Err: err}
		}
	}
	e.here(ran)
	s.Report(e)
	return e.Code
}

// noFileNames has shells offer no file names where a command takes none.
func noFileNames(c *cobra.Command) {
	if c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, known := c.GetFlagCompletionFunc(f.Name); !known && !slices.Contains([]string{"dir", "from", "token-file"}, f.Name) {
			c.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions) // fails for an unknown flag only
		}
	})
	for _, sub := range c.Commands() {
		noFileNames(sub)
	}
}

// unwritten returns the error of a command that ended with err and whose answer
// was lost. An err with words of its own stays.
func unwritten(err, lost error) error {
	e := Exit(Failed)
	if told := errors.As(err, &e); told && !e.Quiet || !told && err != nil && !errors.Is(err, lost) {
		return err
	}
	return &Error{Code: e.Code, Err: fmt.Errorf("the answer was not written: %w", lost), Hints: e.Hints}
}

// namesDir reports whether a hint names the directory itself.
func namesDir(hint string) bool {
	return slices.ContainsFunc([]string{"'", "/", "~"}, func(begin string) bool { return strings.Contains(hint, "--dir "+begin) })
}

// here adds a hint so that the commands of the other hints find the directory, if
// this command got it by a flag.
func (e *Error) here(c *cobra.Command) {
	dir := c.Flag("dir")
	lost := func(hint string) bool { return strings.HasPrefix(hint, "otm ") && !namesDir(hint) }
	if dir != nil && dir.Value.String() != "" && slices.ContainsFunc(e.Hints, lost) {
		e.Hints = slices.Insert(e.Hints, 0, fmt.Sprintf("export OTM_DIR=%s   # for the commands that follow", safe.Quote(dir.Value.String())))
	}
}

// Report prints an error with its hints.
func (s Streams) Report(e *Error) {
	if !e.Quiet {
		fmt.Fprintf(s.Err, "otm: error: %s\n", safe.Escape(e.Error()))
		if e.Code == TryLater {
			s.Note("try again later (exit %d): nothing is lost, and what OTM has begun it finishes by itself", TryLater)
		}
	}
	for _, hint := range e.Hints {
		fmt.Fprintf(s.Err, "otm: hint: %s\n", safe.Escape(hint))
	}
}

// Tick is the mark of a step in a list.
func Tick(done bool) string {
	if done {
		return "x"
	}
	return " "
}
