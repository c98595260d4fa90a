package app

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"otm/internal/cli"
	"otm/internal/explain"
	"otm/internal/safe"
	"otm/internal/view"
	"otm/internal/why"
	"otm/pipeline"
)

// agentsCommand is otm agents.
func agentsCommand(s cli.Streams) *cobra.Command {
	return reading(&cobra.Command{
		Use:   "agents",
		Short: "Say who works at what, and what comes next",
		Long: `Say of each agent what it is doing, since when, when it was last heard of, which
task comes next, and how many tasks it has. States:

  working         it took the task that is shown, and has not ended it
  woken           it was woken, and has taken nothing yet
  still runs      its process runs on, with no task to work on
  ending          it has nothing and OTM told its process to end, or OTM ends
                  what a killed one left
  ended           its process ended, and left the task that is shown unfinished
  free            it has nothing to do, or looks for tasks by itself
  not ready       its workspace or its command is missing
  waits           it is not started before the time that is shown, before another
                  agent has ended, as max_running says, or before the dispatcher
                  runs
  paused          by a person, until otm resume
  left alone      its runs failed; it is started only for a probe
  not configured  tasks name it, and neither otm.toml nor the gateway does

FROM says where OTM knows an agent from: otm.toml, openclaw.json, or the list of the
gateway. The lines below tell what is wrong, as otm status and otm why do.`,
	}, s, true, func(h *Home, v *view.View, _ []string) error {
		agents, err := AgentLines(v)
		if err != nil {
			return err
		}
		return h.answer(agents, func() error { return printRegistry(h, v, agents) })
	})
}

// AgentLine is an agent, with the reason why the task on which it works is where it is.
type AgentLine struct {
	view.Registered
	Why string `json:"why,omitempty"`
}

// AgentLines returns the agents in the order of the configuration.
func AgentLines(v *view.View) ([]AgentLine, error) {
	agents := []AgentLine{}
	for _, r := range view.RegistryOf(v) {
		line := AgentLine{Registered: r}
		if r.TaskID != 0 {
			reason, err := why.Of(v, r.TaskID)
			if err != nil {
				return nil, err
			}
			line.Why = reason.Sentence
			for _, f := range reason.Findings {
				known := slices.ContainsFunc(r.Findings, func(k explain.Told) bool { return k.Code == f.Code })
				if f.Level() != explain.OK && !known {
					line.Findings = append(line.Findings, explain.Tell(f.On(r.TaskID), v.Now))
				}
			}
		}
		agents = append(agents, line)
	}
	return agents, v.Err()
}

func printRegistry(h *Home, v *view.View, agents []AgentLine) error {
	if len(agents) == 0 {
		h.Note("no agents; name them in %s", safe.Quote(h.Dir+"/otm.toml"))
		return nil
	}
	w := tabwriter.NewWriter(h.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AGENT\tSTATE\tSINCE\tTASK\tLAST WORD\tNEXT\tFROM\tTASKS")
	for _, a := range agents {
		state := string(a.State)
		if !a.Until.IsZero() {
			state += ", next start " + explain.When(a.Until, v.Now)
		}
		var counts []string
		for _, st := range pipeline.Statuses {
			if n := a.Tasks[st]; n > 0 {
				counts = append(counts, fmt.Sprintf("%d %s", n, st))
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", short(a.Name, 30), state, agoOrDash(a.Since, v.Now), idOrDash(a.TaskID), agoOrDash(a.Heard, v.Now), idOrDash(a.Next), cmp.Or(a.Source, "-"), strings.Join(counts, ", "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	told := map[string]bool{} // components whose problem is printed
	for _, a := range agents {
		for _, f := range a.Findings {
			switch component := f.Args["component"]; {
			case told[component]:
				continue
			case component != "":
				told[component] = true
			default:
				f.Text = a.Name + ": " + f.Text
			}
			printProblem(h.Out, "", &f)
		}
	}
	return nil
}
