package config

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"otm/pipeline"
)

func (c *Config) fillAgents(f *file, p *problemList) {
	folded, users := map[string]string{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(f.Agents)) {
		a := c.agentOf(name, f.Agents[name], p)
		for _, alias := range slices.Compact([]string{pipeline.FoldName(name), pipeline.FoldName(a.Label)}) {
			if other, taken := folded[alias]; taken && other != name {
				p.add("agents."+name, "is the same as agents.%s: names and labels are compared without case, spaces, - and _", other)
			}
			folded[alias] = name
		}
		if other, taken := users[a.User]; taken && a.User != "" {
			p.add("agents."+name+".slack_user", "is that of agents.%s: a row would not show whose task it is", other)
		}
		users[a.User] = name
		c.Agents = append(c.Agents, a)
	}
}

// isPlaceholder reports whether an argument can only be meant as a placeholder. Within
// an argument, words in braces may belong to the language of a program, such as awk.
func isPlaceholder(arg string) bool {
	name, begins := strings.CutPrefix(arg, "{")
	name, ends := strings.CutSuffix(name, "}")
	other := func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') }
	return begins && ends && name != "" && !strings.ContainsFunc(name, other)
}

// placeholders are those that the dispatcher replaces.
var placeholders = []string{"{message}", "{agent}", "{task}", "{file}", "{dir}"}

func (c *Config) agentOf(name string, t agentTable, p *problemList) pipeline.Agent {
	table := "agents." + name
	a := pipeline.Agent{Name: pipeline.CleanName(name), Label: cmp.Or(t.Label, name), User: t.SlackUser, GatewayAgent: cmp.Or(t.GatewayAgent, name), Source: pipeline.SourceOTM}
	if !pipeline.ValidAgentName(name) {
		p.add(table, "%q is not a name for an agent: use at most %d letters, digits, spaces, '.', '-' and '_'", name, pipeline.MaxAgentName)
	}
	for _, is := range []string{name, a.Label} {
		if pipeline.IsSharedQueue(is) {
			p.add(table, "%q stands for the tasks that any agent may claim: give this agent another name and label", is)
			break
		}
	}
	switch t.Kind {
	case "", "ai":
	case "human":
		a.Person = true
	default:
		p.add(table+".kind", "%q: want ai or human", t.Kind)
	}
	a.Trigger = pipeline.Trigger(t.Trigger)
	switch a.Trigger {
	case "":
		a.Trigger = pipeline.TriggerNone
		if len(t.Command) > 0 {
			a.Trigger = pipeline.TriggerExec
		}
	case pipeline.TriggerGateway, pipeline.TriggerNone:
	case pipeline.TriggerExec:
		if len(t.Command) == 0 {
			p.add(table+".command", "is missing: the trigger exec starts it")
		}
	default:
		p.add(table+".trigger", "%q: want gateway, exec or none", t.Trigger)
	}
	a.Command = c.program(table+".command", t.Command, p)
	for _, arg := range t.Command {
		if isPlaceholder(arg) && !slices.Contains(placeholders, arg) {
			p.add(table+".command", "%s is not known: use %s", arg, strings.Join(placeholders, ", "))
		}
	}
	if a.Person && len(t.Command) > 0 {
		p.add(table+".command", "a person is not started: leave it out, or write kind = \"ai\"")
	}
	if a.Person {
		a.Trigger = pipeline.TriggerNone
		return a
	}
	a.Workspace = expand(t.Workspace, c.home)
	switch {
	case t.Workspace == "":
		p.add(table+".workspace", "is missing: an agent of kind ai needs one")
	case !filepath.IsAbs(a.Workspace):
		p.add(table+".workspace", "%q is not absolute", t.Workspace)
	}
	return a
}
