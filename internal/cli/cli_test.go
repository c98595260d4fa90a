package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// streams are streams that a test can look into.
func streams() (s Streams, out, stderr *bytes.Buffer) {
	out, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	return Streams{In: strings.NewReader(""), Out: out, Err: stderr, Getenv: func(string) string { return "" }}, out, stderr
}

// command is a command with flags of every kind.
func command(run func(c *cobra.Command) error, args []string) *cobra.Command {
	c := &cobra.Command{Use: "otm-create", Version: "v1", Args: NoWords(args, "title"), RunE: func(c *cobra.Command, _ []string) error { return run(c) }}
	c.Flags().String("title", "", "")
	c.Flags().String("dir", "", "")
	c.Flags().String("agent", "", "")
	c.Flags().String("status", "", "")
	c.Flags().String("description", "", "")
	c.Flags().StringArray("subtask", nil, "")
	c.Flags().Bool("wait", false, "")
	c.Flags().Duration("wait-for", 0, "")
	return c
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	library := errors.New("library")
	explain := func(err error) *Error {
		if errors.Is(err, library) {
			return Errorf(TryLater, "explained: %w", err).Hint("try again")
		}
		return nil
	}
	tests := []struct {
		name   string
		args   []string
		err    error
		code   int
		stderr string
	}{
		{"fine", nil, nil, 0, ""},
		{"any error", nil, io.ErrUnexpectedEOF, 1, "otm: error: unexpected EOF\n"},
		{"with a code", nil, Errorf(BadConfig, "bad"), 78, "otm: error: bad\n"},
		{"wrapped", nil, fmt.Errorf("more: %w", Errorf(Partial, "some failed").Hint("look")), 3, "otm: error: some failed\notm: hint: look\n"},
		{"hints", nil, Errorf(Usage, "no").Hint("one").Hint("").Hint("%s", "two 100%"), 64, "otm: error: no\notm: hint: one\notm: hint: two 100%\n"},
		{"explained", nil, fmt.Errorf("x: %w", library), 75, "otm: error: explained: x: library\notm: note: try again later (exit 75): nothing is lost, and what OTM has begun it finishes by itself\notm: hint: try again\n"},
		{"quiet", nil, Exit(Locked), 11, ""},
		{"quiet, with a hint", []string{"--dir", "/a"}, Exit(TryLater).Hint("otm why T-00001"), 75, "otm: hint: export OTM_DIR=/a   # for the commands that follow\notm: hint: otm why T-00001\n"},
		{"hostile text", nil, Errorf(Failed, "title %s", "a\x1b[2J\nb\u202e").Hint("run\r\x07"), 1, "otm: error: title a\\x1b[2J\\nb\\u202e\notm: hint: run\\r\\x07\n"},
		{"unknown flag", []string{"--nonsense"}, nil, 64, "otm: error: unknown flag: --nonsense\notm: hint: otm-create --help\n"},
		{"bad value", []string{"--wait-for", "soon"}, nil, 64, "otm: error: invalid argument \"soon\""},
		{"missing value", []string{"--title"}, nil, 64, "otm: error: flag needs an argument: --title\n"},
		{"a directory by its flag", []string{"--dir", "/a b"}, Errorf(Failed, "no").Hint("otm list"), 1, "otm: error: no\notm: hint: export OTM_DIR='/a b'   # for the commands that follow\notm: hint: otm list\n"},
		{"a directory by its flag, no command", []string{"--dir", "/a"}, Errorf(Failed, "no").Hint("look"), 1, "otm: error: no\notm: hint: look\n"},
		{"a directory by its flag, in quotes", []string{"--dir", "~/a"}, Errorf(Failed, "no").Hint("otm init, or point --dir elsewhere"), 1, "otm: error: no\notm: hint: export OTM_DIR='~/a'   # for the commands that follow\notm: hint: otm init, or"},
		{"an empty flag", []string{"--dir="}, Errorf(Failed, "no").Hint("otm list"), 1, "otm: error: no\notm: hint: otm list\n"},
		{"a directory in the hint", []string{"--dir", "/a"}, Errorf(Failed, "no").Hint("otm list --dir /a"), 1, "otm: error: no\notm: hint: otm list --dir /a\n"},
		{"words", []string{"--agent", "x", "y"}, nil, 64, "otm: error: unexpected \"y\": a value follows its flag, in quotes if it has spaces\notm: hint: otm-create --agent 'x y'\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, out, stderr := streams()
			code := Run(context.Background(), command(func(*cobra.Command) error { return tt.err }, tt.args), tt.args, s, explain)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if got := stderr.String(); !strings.HasPrefix(got, tt.stderr) || tt.stderr == "" && got != "" {
				t.Errorf("stderr %q, want %q", got, tt.stderr)
			}
			if out.Len() > 0 {
				t.Errorf("stdout %q, want nothing", out)
			}
		})
	}
}

type full struct{ err error }

func (f full) Write([]byte) (int, error) { return 0, f.err }

// TestAnswerNotWritten: an answer that was lost is told, unless the command has
// words of its own for what went wrong.
func TestAnswerNotWritten(t *testing.T) {
	t.Parallel()
	lost := errors.New("disk full")
	const told = "otm: error: the answer was not written: disk full\n"
	for _, tt := range []struct {
		name   string
		err    error
		code   int
		stderr string
	}{
		{"passed over", nil, Failed, told},
		{"passed on", fmt.Errorf("flush: %w", lost), Failed, told},
		{"quiet", Exit(Partial).Hint("look"), Partial, told + "otm: hint: look\n"},
		{"in words of its own", Errorf(Failed, "T-00001 is not told: %w", lost), Failed, "otm: error: T-00001 is not told: disk full\n"},
		{"something else", io.ErrUnexpectedEOF, Failed, "otm: error: unexpected EOF\n"},
	} {
		s, _, stderr := streams()
		s.Out = &Output{W: full{lost}}
		run := func(*cobra.Command) error { fmt.Fprintln(s.Out, "answer"); return tt.err }
		if code := Run(context.Background(), command(run, nil), nil, s, nil); code != tt.code || stderr.String() != tt.stderr {
			t.Errorf("%s: exit code %d, stderr %q; want %d, %q", tt.name, code, stderr, tt.code, tt.stderr)
		}
		stderr.Reset()
		s.Out = &Output{W: full{syscall.EPIPE}} // who closed the pipe has read enough
		if code := Run(context.Background(), command(run, nil), nil, s, nil); (code == OK) != (tt.err == nil) || strings.Contains(stderr.String(), "not written") {
			t.Errorf("%s: into a closed pipe: exit code %d, stderr %q", tt.name, code, stderr)
		}
	}
}

func TestExplainMayBeMissing(t *testing.T) {
	t.Parallel()
	s, _, stderr := streams()
	if code := Run(context.Background(), command(func(*cobra.Command) error { return io.EOF }, nil), nil, s, nil); code != Failed || stderr.String() != "otm: error: EOF\n" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

func TestHelpAndVersionAreAnswers(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{"--help": "Usage:", "--version": "otm-create version v1"} {
		s, out, stderr := streams()
		code := Run(context.Background(), command(func(*cobra.Command) error { return nil }, []string{arg}), []string{arg}, s, nil)
		if code != 0 || !strings.Contains(out.String(), want) || stderr.Len() > 0 {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", arg, code, out, stderr)
		}
	}
}

func TestNoteAndWarn(t *testing.T) {
	t.Parallel()
	s, _, stderr := streams()
	s.Note("T-00035 is %s", "queued\n\x1b")
	s.Warn("%s", "100% \u202e")
	if got, want := stderr.String(), "otm: note: T-00035 is queued\\n\\x1b\notm: warning: 100% \\u202e\n"; got != want {
		t.Errorf("stderr %q, want %q", got, want)
	}
}

func TestErrorUnwraps(t *testing.T) {
	t.Parallel()
	if err := error(Errorf(Failed, "x: %w", io.EOF)); !errors.Is(err, io.EOF) || err.Error() != "x: EOF" {
		t.Errorf("the error is %q", err)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if Version() == "" {
		t.Error("Version is empty")
	}
}
