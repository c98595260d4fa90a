package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"otm/pipeline"
)

// described is an agent as these tests compare it.
func described(a pipeline.Agent) string {
	return strings.Join([]string{a.Name, a.GatewayAgent, string(a.Trigger), a.Workspace, string(a.Source)}, " ")
}

// squadOf returns the agents of a directory with an otm.toml, an openclaw.json and the list
// of the gateway; "": there is none of them.
func squadOf(t *testing.T, toml, openclaw, list string) (agents []string, err error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{FileName: toml, "openclaw.json": openclaw, "board/agents.json": list} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load(dir, env("HOME", "/home/robin"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.AllAgents()
	for _, a := range all {
		agents = append(agents, strings.ReplaceAll(described(a), dir, "DIR"))
	}
	return agents, err
}

// TestAllAgents: agents come from otm.toml, from both forms of openclaw.json, and from the
// gateway's list. The former wins.
func TestAllAgents(t *testing.T) {
	t.Parallel()
	const (
		gate   = "[gateway]\nconfig = \"openclaw.json\"\n"
		devdas = "[agents.devdas]\nworkspace = \"/w/d\"\ntrigger = \"gateway\"\n"
		ours   = "devdas devdas gateway /w/d otm.toml"
	)
	for _, tt := range []struct {
		name, toml, openclaw, list string
		want                       []string
		err                        string
	}{
		{name: "without a gateway nothing is read", toml: "[agents.x]\nworkspace = \"/x\"\n", openclaw: `{}`, list: `[{"id":"a","workspace":"/a"}]`, want: []string{"x x none /x otm.toml"}},
		{name: "the list adds what otm.toml lacks", toml: devdas, list: `[{"id":"DevDas","workspace":"/no"},{"id":"emil","workspace":"/w/emil"},{"id":"poor"}]`,
			want: []string{ours, "emil emil gateway /w/emil gateway"}},
		{name: "an id that otm.toml uses is no second agent", toml: devdas + "gateway_agent = \"dev2\"\nlabel = \"Dev the Great\"\n",
			list: `[{"id":"dev2","workspace":"/no"},{"id":"dev-the-great","workspace":"/no"}]`, want: []string{"devdas dev2 gateway /w/d otm.toml"}},
		{name: "a list that is damaged is none", toml: devdas, list: "\x00\x00", want: []string{ours}},
		{name: "entries", toml: gate + devdas, openclaw: `{agents: {ownership: 'explicit', entries: { // two
			devdas: {workspace: '/no'}, "fadime": {name: "Fadime",}, gudrun: {workspace: "~/g"} }}}`,
			want: []string{ours, "fadime fadime gateway DIR/workspace-fadime openclaw.json", "gudrun gudrun gateway /home/robin/g openclaw.json"}},
		{name: "list", toml: gate, openclaw: `{"agents":{"list":[{"id":"one"},{"id":"two","default":true},{"id":"three","workspace":"/w/3"},{"id":"a/b"}]}}`,
			want: []string{"one one gateway DIR/workspace-one openclaw.json", "two two gateway DIR/workspace openclaw.json", "three three gateway /w/3 openclaw.json"}},
		{name: "the first of a list is the default", toml: gate, openclaw: `{"agents":{"defaults":{"workspace":"/w"},"list":[{"id":"one"},{"id":"two"}]}}`,
			want: []string{"one one gateway /w openclaw.json", "two two gateway /w/two openclaw.json"}},
		{name: "the only one of entries is the default", toml: gate, openclaw: `{"agents":{"entries":{"one":{}}}}`, want: []string{"one one gateway DIR/workspace openclaw.json"}},
		{name: "a file without agents has main", toml: gate, openclaw: `{"gateway":{}}`, want: []string{"main main gateway DIR/workspace openclaw.json"}},
		{name: "the gateway knows better than what is derived", toml: gate, openclaw: `{"agents":{"entries":{"one":{},"two":{"workspace":"/2"}}}}`,
			list: `[{"id":"one","workspace":"/1"},{"id":"two","workspace":"/no"},{"id":"three","workspace":"/3"}]`,
			want: []string{"one one gateway /1 openclaw.json", "two two gateway /2 openclaw.json", "three three gateway /3 gateway"}},
		{name: "no file", toml: gate + devdas, list: `[{"id":"emil","workspace":"/e"}]`, want: []string{ours, "emil emil gateway /e gateway"}, err: "there is no file"},
		{name: "broken", toml: gate + devdas, openclaw: "{agents: {\nlist: [}", want: []string{ours}, err: "openclaw.json"},
		{name: "agents are of another kind", toml: gate + devdas, openclaw: `{agents: {list: 5}}`, want: []string{ours}, err: "openclaw.json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := squadOf(t, tt.toml, tt.openclaw, tt.list)
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("agents\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}
