package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"otm/internal/tokens"
)

// scrape reads the metrics: the values by name and labels.
func (c *client) scrape() map[string]float64 {
	c.t.Helper()
	status, data := c.send(http.MethodGet, "/metrics", nil)
	if status != http.StatusOK {
		c.t.Fatalf("status %d, %s", status, data)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(data)))
	if err != nil {
		c.t.Fatal(err)
	}
	values := map[string]float64{}
	for name, f := range families {
		if f.GetHelp() == "" {
			c.t.Errorf("%s has no help", name)
		}
		for _, m := range f.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			values[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

// The metrics say how things stand, while everything runs.
func TestMetrics(t *testing.T) {
	t.Parallel()
	c := upped(t, newHome(t, ""))
	c.create(3)
	until(c, "/tasks", func(l tasks) bool { return len(l.Tasks) == 3 && l.Tasks[2].Status == "assigned" })
	c.refused(http.StatusConflict, "POST", "/tasks/1/accept", nil)
	c.with("Authorization", "").refused(http.StatusUnauthorized, "GET", "/agents", nil)
	c.refused(http.StatusUnprocessableEntity, "GET", "/agents?x=1", nil)
	if err := os.WriteFile(c.home.Dir+"/failed/x.json", []byte(`{"_result":{"inbox":"new-tasks","error":"no"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	got := c.as("prometheus", tokens.Viewer).scrape()
	for name, want := range map[string]float64{
		"otm_tasks status=assigned": 3, "otm_tasks status=failed": 0, "otm_agents state=free": 3, "otm_drops_failed": 1, "otm_drops_waiting inbox=new-tasks": 0,
		"otm_component_resident component=otm-dispatcher": 1, "otm_incidents_open level=fail": 0,
		"otm_http_request_duration_seconds code=200 operation=createTask": 3, "otm_http_request_duration_seconds code=409 operation=acceptTask": 1,
		"otm_http_request_duration_seconds code=401 operation=listAgents": 1, "otm_http_request_duration_seconds code=422 operation=listAgents": 1,
	} {
		if value, there := got[name]; !there || value != want {
			t.Errorf("%s is %v (%v), want %v", name, value, there, want)
		}
	}
	for _, positive := range []string{"otm_store_events_total", "otm_board_rows", "otm_build_info version=" + c.home.Version} {
		if got[positive] <= 0 {
			t.Errorf("%s is %v", positive, got[positive])
		}
	}
	if status, _ := c.with("Authorization", "").send("GET", "/metrics", nil); status != http.StatusUnauthorized {
		t.Errorf("without a token: status %d", status)
	}
}

// docs/metrics.md names every metric, and none that is not there; the dashboard uses only
// those.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	there := map[string]bool{"otm_http_request_duration_seconds": true}
	for _, d := range descs {
		there[regexp.MustCompile(`fqName: "([a-z_]+)"`).FindStringSubmatch(d.String())[1]] = true
	}
	names := func(text string) map[string]bool {
		all := map[string]bool{}
		for _, name := range regexp.MustCompile(`\botm_[a-z_]+`).FindAllString(text, -1) {
			all[regexp.MustCompile(`(duration_seconds)_(bucket|count|sum)$`).ReplaceAllString(name, "$1")] = true
		}
		return all
	}
	doc, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if named := names(string(doc)); !maps.Equal(named, there) {
		t.Errorf("docs/metrics.md names %v, there are %v", slices.Sorted(maps.Keys(named)), slices.Sorted(maps.Keys(there)))
	}
	alerts, err := os.ReadFile("../../docs/prometheus-alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	for name := range names(string(alerts)) {
		if !there[name] {
			t.Errorf("an alert uses %s, which is not there", name)
		}
	}
	data, err := os.ReadFile("../../docs/grafana-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			used := names(target.Expr)
			for name := range used {
				if !there[name] {
					t.Errorf("%s uses %s, which is not there", p.Title, name)
				}
			}
			if len(used) == 0 {
				t.Errorf("%s uses nothing: %q", p.Title, target.Expr)
			}
		}
	}
}
