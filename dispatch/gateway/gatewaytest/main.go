package gatewaytest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Main is a gateway as a program, for scripts: it runs until it gets INT or
// TERM and returns the exit code.
//
//	gateway -profile 2026.9.6 -agent devdas=DIR -run 'some-command {agent}' \
//		-runs runs.jsonl -url-file urls -fault DropQueued
//
// The file of -url-file appears when the gateway answers; it holds its URL and,
// on a second line, that of the control server, which takes
//
//	POST /fault/NAME   the next agent request meets a fault
//	POST /restart, /crash, /kill, /boot, /shutdown, /drain, /starting, /ready
//	POST /advance/DURATION
//	GET  /runs         the executed runs
func Main(args []string, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runMain(ctx, args, stderr); err != nil {
		fmt.Fprintln(stderr, "gatewaytest:", err)
		return 1
	}
	return 0
}

// command is the parsed command line.
type command struct {
	profile Profile
	options Options
	faults  []Fault
	urlFile string
}

func runMain(ctx context.Context, args []string, stderr io.Writer) error {
	cmd, err := parseCommand(args, stderr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var unready error
	err = Serve(ctx, cmd.profile, cmd.options, func(g *Gateway) {
		g.Inject(cmd.faults...)
		url, err := serveControl(ctx, g)
		if err == nil {
			err = publish(cmd.urlFile, g.URL()+"\n"+url+"\n")
		}
		if err != nil {
			unready = err
			cancel()
		}
	})
	return errors.Join(unready, err)
}

func parseCommand(args []string, stderr io.Writer) (command, error) {
	var cmd command
	fs := flag.NewFlagSet("gateway", flag.ContinueOnError)
	fs.SetOutput(stderr)
	version := fs.String("profile", Profile2026_9_6.Version, "version to behave as")
	fs.StringVar(&cmd.options.Listen, "listen", "", "address; default a free port of 127.0.0.1")
	fs.StringVar(&cmd.options.Token, "token", DefaultToken, "token to ask for")
	fs.StringVar(&cmd.options.RunsFile, "runs", "", "file that gets each executed run as a line of JSON")
	fs.StringVar(&cmd.urlFile, "url-file", "", "file that gets the URLs")
	delay := fs.Duration("delay", 0, "length of a turn before its command begins")
	run := fs.String("run", "", "command of every agent, split at spaces; may hold {agent} {dir} {message}")
	fs.Func("agent", "agent as `ID[=WORKSPACE]`; repeatable", func(s string) error {
		id, dir, _ := strings.Cut(s, "=")
		cmd.options.Agents = append(cmd.options.Agents, Agent{ID: id, Name: id, Workspace: dir})
		return nil
	})
	fs.Func("fault", "fault for the next agent request; repeatable", func(s string) error {
		f, err := FaultNamed(s)
		cmd.faults = append(cmd.faults, f)
		return err
	})
	if err := fs.Parse(args); err != nil {
		return cmd, err
	}
	if fs.NArg() > 0 {
		return cmd, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	for i := range cmd.options.Agents {
		cmd.options.Agents[i].Delay = *delay
		cmd.options.Agents[i].Command = strings.Fields(*run)
	}
	var err error
	cmd.profile, err = profileNamed(*version)
	return cmd, err
}

// publish makes the file appear with all its content at once.
func publish(name, content string) error {
	if name == "" {
		return nil
	}
	temp := name + ".tmp" + strconv.Itoa(os.Getpid())
	if err := os.WriteFile(temp, []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, name)
}

// serveControl runs the control server until ctx ends, and returns its URL.
func serveControl(ctx context.Context, g *Gateway) (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	srv := &http.Server{Handler: controlHandler(g), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { srv.Close() })
	g.wg.Go(func() { srv.Serve(ln) })
	return "http://" + ln.Addr().String(), nil
}

func controlHandler(g *Gateway) http.Handler {
	nothing := func(f func()) func() error { return func() error { f(); return nil } }
	mux := http.NewServeMux()
	for name, do := range map[string]func() error{
		"restart": g.Restart, "crash": g.Crash, "boot": g.Boot,
		"kill": nothing(g.Kill), "shutdown": nothing(g.Shutdown),
		"drain": nothing(g.Drain), "starting": nothing(g.Starting), "ready": nothing(g.Ready),
	} {
		mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, _ *http.Request) { answerControl(w, do()) })
	}
	mux.HandleFunc("POST /fault/{name}", func(w http.ResponseWriter, r *http.Request) {
		f, err := FaultNamed(r.PathValue("name"))
		if err == nil {
			g.Inject(f)
		}
		answerControl(w, err)
	})
	mux.HandleFunc("POST /advance/{duration}", func(w http.ResponseWriter, r *http.Request) {
		d, err := time.ParseDuration(r.PathValue("duration"))
		g.Advance(d)
		answerControl(w, err)
	})
	mux.HandleFunc("GET /runs", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, g.Runs())
	})
	return mux
}

func answerControl(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
