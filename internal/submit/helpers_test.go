package submit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/crash"
	"otm/internal/leak"
	"otm/pipeline"
	"otm/pipeline/counter"
	"otm/pipeline/rendering"
)

// as is set in the environment of this binary where it is to be otm-create,
// instead of running tests; "create kill" kills itself at some point.
const as = "OTM_TEST_AS"

func TestMain(m *testing.M) {
	how := os.Getenv(as)
	if how == "" {
		os.Exit(leak.Main(m))
	}
	if how == "create kill" {
		left := 1 + rand.N(5)
		crash.Hook = func(string) {
			if left--; left == 0 {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
	}
	s, args := cli.OSStreams(), os.Args[1:]
	os.Exit(cli.Run(context.Background(), Create("otm-create", "test", s, args), args, s, Explain))
}

// place is a data directory and what a command sees of the world.
type place struct {
	t   *testing.T
	dir string
	env map[string]string
	in  string
	out io.Writer // nil: what run returns
	ctx context.Context
}

// initialised is a data directory as otm init makes it, with a blank in its
// path.
func initialised(t *testing.T) *place {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data dir")
	p := &place{t: t, dir: dir, ctx: t.Context(), env: map[string]string{"OTM_DIR": dir, "HOME": "/no-home"}}
	for _, sub := range []string{"", "new-tasks", "task-updates", "processed", "failed", "tasks", "locks"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.write("format", fmt.Sprintln(config.Format))
	p.write("next-task-id.json", "{\"next\":1}\n")
	return p
}

func (p *place) write(name, data string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(data), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// answered is what a command came to.
type answered struct {
	code           int
	stdout, stderr string
}

func (p *place) run(make func(name, version string, s cli.Streams, args []string) *cobra.Command, name string, args []string) answered {
	p.t.Helper()
	var stdout, stderr bytes.Buffer
	s := cli.Streams{In: strings.NewReader(p.in), Out: &stdout, Err: &stderr, Getenv: func(key string) string { return p.env[key] }}
	if p.out != nil {
		s.Out = p.out
	}
	code := cli.Run(p.ctx, make(name, "v1", s, args), args, s, Explain)
	return answered{code, stdout.String(), stderr.String()}
}

func (p *place) create(args ...string) answered {
	p.t.Helper()
	return p.run(Create, "otm-create", args)
}

func (p *place) update(args ...string) answered {
	p.t.Helper()
	return p.run(Update, "otm-update", args)
}

// ok fails the test unless the command ended well and said nothing else.
func (a answered) ok(t *testing.T) string {
	t.Helper()
	if a.code != 0 || a.stderr != "" {
		t.Fatalf("exit code %d, stdout %q, stderr %q", a.code, a.stdout, a.stderr)
	}
	return a.stdout
}

// refused holds an answer against a refusal: its code, nothing on stdout, and
// what stderr must say.
func (a answered) refused(t *testing.T, code int, says ...string) {
	t.Helper()
	if a.code != code || a.stdout != "" {
		t.Errorf("exit code %d, stdout %q; want %d and nothing", a.code, a.stdout, code)
	}
	for _, want := range says {
		if !strings.Contains(a.stderr, want) {
			t.Errorf("stderr is\n%s\nwant it to say %q", a.stderr, want)
		}
	}
	for line := range strings.Lines(a.stderr) {
		if !strings.HasPrefix(line, "otm: ") {
			t.Errorf("stderr has the line %q", line)
		}
	}
	if !strings.Contains(a.stderr, "\notm: hint: ") {
		t.Errorf("stderr is\n%s\nwant it to say what to do", a.stderr)
	}
}

// drops are the files of an inbox, in the order of their names, decoded. What
// is hidden among them is a mistake.
func (p *place) drops(inbox string) []map[string]any {
	p.t.Helper()
	entries, err := os.ReadDir(filepath.Join(p.dir, inbox))
	if err != nil {
		p.t.Fatal(err)
	}
	list := []map[string]any{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") || strings.HasPrefix(e.Name(), ".") {
			p.t.Errorf("%s holds %q", inbox, e.Name())
		}
		data, err := os.ReadFile(filepath.Join(p.dir, inbox, e.Name()))
		if err != nil {
			p.t.Fatal(err)
		}
		var drop map[string]any
		if err := json.Unmarshal(data, &drop); err != nil {
			p.t.Fatalf("%s: %v\n%s", e.Name(), err, data)
		}
		drop["name"] = e.Name()
		list = append(list, drop)
	}
	return list
}

// untouched fails the test if anything was dropped or an id was taken.
func (p *place) untouched() {
	p.t.Helper()
	for _, inbox := range []string{"new-tasks", "task-updates"} {
		if d := p.drops(inbox); len(d) > 0 {
			p.t.Errorf("%s holds %v", inbox, d)
		}
	}
	if data, err := os.ReadFile(filepath.Join(p.dir, "next-task-id.json")); string(data) != "{\"next\":1}\n" || err != nil {
		p.t.Errorf("the counter holds %q, %v", data, err)
	}
}

// rendered writes the rendering of a task, as the engine does.
func (p *place) rendered(id pipeline.TaskID, status pipeline.Status, steps ...pipeline.Step) {
	p.t.Helper()
	if err := rendering.Write(p.dir, pipeline.Rendering{TaskID: id, Status: status, Steps: steps}); err != nil {
		p.t.Fatal(err)
	}
	taken, err := counter.Open(p.dir, nil).Counter(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	defer taken.Release()
	if err := taken.Raise(id); err != nil {
		p.t.Fatal(err)
	}
}
