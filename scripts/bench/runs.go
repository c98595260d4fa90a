package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"otm/dispatch/gateway/gatewaytest"
)

// turn is what the agents of runs do, as a process or as a turn at the gateway. Its last
// report is in the inbox when it ends. The first run of a task of "asker" asks.
const turn = `
date +%s%N >>begins
id=$(otm next --agent "$1" --json | sed 's/.*"taskId":"\(T-[0-9]*\)".*/\1/')
if test "$1" = asker && ! test -e "$id"; then
	: >"$id"
	otm-update --task-id "$id" --status blocked --reason 'Blue or green?'
else
	otm-update --task-id "$id" --status agent_done --result done
fi
date +%s%N >>ends
`

// runs times what follows the end of a run, and an answer, under otm up.
func (b *bench) runs() error {
	v, n := b.latest(), b.pick(20, 4)
	script := filepath.Join(b.root, "turn.sh")
	if err := os.WriteFile(script, []byte(turn), 0o600); err != nil {
		return err
	}
	dir := filepath.Join(b.root, "runs-"+v.name, "data")
	does := func(agent string) []string {
		return []string{"env", "OTM_DIR=" + dir, "PATH=" + v.bin + ":" + os.Getenv("PATH"), "sh", script, agent}
	}
	config := listen
	for _, agent := range []string{"devdas", "asker"} {
		config += b.agent(v, agent, fmt.Sprintf("command = [%s]", quoted(does(agent))))
	}
	config += b.agent(v, "archibald", `trigger = "gateway"`)
	ws := func(agent string) string { return filepath.Join(b.root, "ws-"+v.name, agent) }

	ctx, stopGateway := context.WithCancel(context.Background())
	ready, over := make(chan string, 1), make(chan error, 1)
	go func() {
		over <- gatewaytest.Serve(ctx, gatewaytest.Profile2026_9_6, gatewaytest.Options{
			Token: "sesame", Agents: []gatewaytest.Agent{{ID: "archibald", Workspace: ws("archibald"), Command: does("archibald")}},
		}, func(g *gatewaytest.Gateway) { ready <- g.URL() })
	}()
	defer func() { stopGateway(); <-over }()
	h, err := b.newHome(v, "runs", config+fmt.Sprintf("[gateway]\nurl = %q\ntoken_file = \"secrets/gateway\"\n", <-ready))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(h.dir, "secrets", "gateway"), []byte("sesame\n"), 0o600); err != nil {
		return err
	}
	h.env = append(h.env, "OTM_TOKEN_FILE="+filepath.Join(h.dir, "secrets", "owner"))
	_, stop, err := h.up("otm", "up")
	if err != nil {
		return err
	}
	defer stop()

	fmt.Printf("%-62s %10s %10s\n", fmt.Sprintf("what follows, under otm up, %d times", n), "median", "longest")
	for _, of := range []struct{ agent, what string }{
		{"devdas", "the end of a command to the next start of its agent"},
		{"archibald", "the end of a turn at the gateway (a double) to the next one"},
	} {
		agent := of.agent
		if err := h.createMany(n+1, 0, func(int) string { return agent }); err != nil {
			return err
		}
		ends, err := stamps(filepath.Join(ws(agent), "ends"), n+1)
		if err != nil {
			return err
		}
		begins, err := stamps(filepath.Join(ws(agent), "begins"), n+1)
		if err != nil {
			return err
		}
		var gaps []time.Duration
		for i := range n {
			gaps = append(gaps, begins[i+1].Sub(ends[i]))
		}
		printGaps(of.what, gaps)
	}
	var answers []time.Duration
	for i := range n {
		if err := h.otm("otm-create", "--title", "Paint it", "--agent", "asker"); err != nil {
			return err
		}
		id := fmt.Sprintf("T-%05d", 2*(n+1)+i+1)
		if _, err := stamps(filepath.Join(ws("asker"), "ends"), 2*i+1); err != nil {
			return err
		}
		if err := h.awaitStatus(id, "blocked"); err != nil {
			return err
		}
		asked := time.Now()
		if err := h.otm("otm", "unblock", id, "--reason", "Green."); err != nil {
			return err
		}
		begins, err := stamps(filepath.Join(ws("asker"), "begins"), 2*i+2)
		if err != nil {
			return err
		}
		answers = append(answers, begins[2*i+1].Sub(asked))
		if err := h.awaitStatus(id, "agent_done"); err != nil {
			return err
		}
	}
	printGaps("otm unblock to the start of the agent that asked", answers)
	return nil
}

func printGaps(what string, gaps []time.Duration) {
	ms := func(d time.Duration) string { return figure(float64(d) / float64(time.Millisecond)) }
	fmt.Printf("%-62s %10s %10s  ms\n", what, ms(quantile(gaps, 0.5)), ms(quantile(gaps, 1)))
}

// stamps waits until a file has n times, and returns them.
func stamps(path string, n int) (times []time.Time, err error) {
	err = await(fmt.Sprintf("%d times in %s", n, filepath.Base(path)), 2*time.Minute, func() bool {
		data, err := os.ReadFile(path)
		lines := strings.Fields(string(data))
		if err != nil || len(lines) < n {
			return false
		}
		times = nil
		for _, line := range lines {
			ns, _ := strconv.ParseInt(line, 10, 64)
			times = append(times, time.Unix(0, ns))
		}
		return true
	})
	return times, err
}

// quoted writes words as an array of TOML has them.
func quoted(words []string) string {
	var all []string
	for _, w := range words {
		all = append(all, strconv.Quote(w))
	}
	return strings.Join(all, ", ")
}
