package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"otm/internal/durable"
	"otm/internal/json5"
	"otm/pipeline"
)

// UsesGateway reports whether OTM works with the gateway: an agent of otm.toml is woken
// over it, or openclaw.json is named.
func (c *Config) UsesGateway() bool {
	return c.Gateway.Config != "" || slices.ContainsFunc(c.Agents, func(a pipeline.Agent) bool {
		return !a.Person && a.Trigger == pipeline.TriggerGateway
	})
}

// AllAgents returns the agents of otm.toml, then those that only openclaw.json names, then
// those that only the gateway listed. Each other one has its id for a name, and is woken
// over the gateway. The error says why openclaw.json could not be read. The agents are
// good all the same, without those that it names.
func (c *Config) AllAgents() (pipeline.Agents, error) {
	if !c.UsesGateway() {
		return c.Agents, nil
	}
	listed := c.readList()
	named, err := c.readOpenClaw(listed)
	all := slices.Clone(c.Agents)
	for _, l := range named {
		all = addAgent(all, l, pipeline.SourceOpenClaw)
	}
	for _, l := range listed {
		all = addAgent(all, l, pipeline.SourceGateway)
	}
	return all, err
}

// AgentFiles lists the files besides otm.toml that AllAgents reads.
func (c *Config) AgentFiles() []string {
	switch {
	case !c.UsesGateway():
		return nil
	case c.Gateway.Config == "":
		return []string{ListPath(c.Dir)}
	}
	return []string{c.Gateway.Config, ListPath(c.Dir)}
}

// addAgent adds an agent of the gateway, unless it is one of those that are known, by name,
// label or id at the gateway, or cannot be one.
func addAgent(all pipeline.Agents, l Listed, from pipeline.Source) pipeline.Agents {
	known := all.Assigned(l.ID) != nil || slices.ContainsFunc(all, func(a pipeline.Agent) bool {
		return !a.Person && a.Trigger == pipeline.TriggerGateway && a.GatewayAgent == l.ID
	})
	if known || !pipeline.ValidAgentName(l.ID) || pipeline.IsSharedQueue(l.ID) || !filepath.IsAbs(l.Workspace) {
		return all
	}
	return append(all, pipeline.Agent{
		Name: pipeline.CleanName(l.ID), Label: l.ID, Workspace: l.Workspace,
		Trigger: pipeline.TriggerGateway, GatewayAgent: l.ID, Source: from,
	})
}

// Listed is an agent as the gateway, or its configuration, names it.
type Listed struct {
	ID        string `json:"id"`
	Workspace string `json:"workspace,omitempty"`
}

// ListPath is the file of the agents that the gateway listed last. The dispatcher writes it.
func ListPath(dir string) string { return filepath.Join(dir, "board", "agents.json") }

// WriteList replaces the list, and reports whether it is another one than before. It is not
// durable: the gateway is asked again.
func WriteList(dir string, agents []Listed) (changed bool, err error) {
	data, err := json.Marshal(agents)
	if err != nil {
		return false, err
	}
	data = append(data, '\n')
	if before, err := durable.ReadFile(ListPath(dir)); err == nil && bytes.Equal(before, data) {
		return false, nil
	}
	return true, durable.ReplaceVolatile(ListPath(dir), data)
}

// readList reads the list. One that is missing or damaged is empty.
func (c *Config) readList() (agents []Listed) {
	data, err := durable.ReadFile(ListPath(c.Dir))
	if err != nil || json.Unmarshal(data, &agents) != nil {
		return nil
	}
	return agents
}

// maxOpenClaw bounds openclaw.json, in bytes.
const maxOpenClaw = 4 << 20

// openClawEntry is an agent in either form of openclaw.json.
type openClawEntry struct {
	ID        string `json:"id"` // of the list
	Workspace string `json:"workspace"`
	Default   bool   `json:"default"` // of the list
}

// readOpenClaw reads the agents of openclaw.json: agents.entries, as 2026.9.6 writes it,
// and agents.list, as 2026.3.13 does. A file without agents has one, main. Where the file does
// not say where an agent works, the gateway knows best: listed is what it said.
func (c *Config) readOpenClaw(listed []Listed) (agents []Listed, err error) {
	path := c.Gateway.Config
	if path == "" {
		return nil, nil
	}
	info, err := durable.Stat(path)
	if err == nil && info.Size() > maxOpenClaw {
		return nil, fmt.Errorf("%q has more than %d MiB", path, maxOpenClaw>>20)
	}
	data, err := durable.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %q", path)
	}
	if err != nil {
		return nil, err
	}
	var file struct {
		Agents struct {
			Defaults struct {
				Workspace string `json:"workspace"`
			} `json:"defaults"`
			List    []openClawEntry          `json:"list"`
			Entries map[string]openClawEntry `json:"entries"`
		} `json:"agents"`
	}
	if err := json5.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%q: %w", path, err)
	}
	list := file.Agents.List
	for _, id := range slices.Sorted(maps.Keys(file.Agents.Entries)) {
		e := file.Agents.Entries[id]
		e.ID = id
		list = append(slices.DeleteFunc(list, func(o openClawEntry) bool { return o.ID == id }), e)
	}
	if len(list) == 0 {
		list = []openClawEntry{{ID: "main"}}
	}
	first := slices.IndexFunc(list, func(e openClawEntry) bool { return e.Default })
	if first < 0 && (len(list) == 1 || len(file.Agents.Entries) == 0) {
		first = 0
	}
	for i, e := range list {
		known := pipeline.Find(listed, func(l *Listed) bool { return l.ID == e.ID && l.Workspace != "" })
		if e.Workspace == "" && known != nil {
			agents = append(agents, *known)
			continue
		}
		workspace := cmp.Or(e.Workspace, defaultWorkspace(path, file.Agents.Defaults.Workspace, e.ID, i == first))
		agents = append(agents, Listed{e.ID, expand(workspace, c.home)})
	}
	return agents, nil
}

// defaultWorkspace is where the gateway has an agent work whose workspace is not set: beside
// its configuration, or where its defaults say. first: it is the default agent, or the only
// one.
func defaultWorkspace(path, defaults, id string, first bool) string {
	state := filepath.Dir(path)
	switch {
	case first && defaults != "":
		return defaults
	case first:
		return filepath.Join(state, "workspace")
	case defaults != "":
		return filepath.Join(defaults, id)
	}
	return filepath.Join(state, "workspace-"+id)
}
