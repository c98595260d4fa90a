package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"otm/core"
	"otm/internal/app"
	"otm/internal/explain"
	"otm/internal/view"
	"otm/pipeline"
)

// requests counts the requests to the API.
type requests struct{ took *prometheus.HistogramVec }

func newRequests() *requests {
	return &requests{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "otm_http_request_duration_seconds", Help: "Requests to the API by operation and status code; streams of events are left out.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
	}, []string{"operation", "code"})}
}

// count measures a request.
func (q *requests) count(c huma.Context, next func(huma.Context)) {
	began := time.Now()
	next(c)
	if id := c.Operation().OperationID; id != streamID {
		q.took.WithLabelValues(id, strconv.Itoa(c.Status())).Observe(time.Since(began).Seconds())
	}
}

// metrics serves /metrics.
func metrics(s *server) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.seen.took, collector{s.back})
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.token(r.Header.Get("Authorization")); err != nil {
			s.refuse(w, err)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// collector reads how the directory stands when somebody asks for metrics.
type collector struct{ back *app.Backend }

// descs are all that there is to measure.
var descs []*prometheus.Desc

func desc(name, help string, labels ...string) *prometheus.Desc {
	descs = append(descs, prometheus.NewDesc("otm_"+name, help, labels, nil))
	return descs[len(descs)-1]
}

// What there is to measure. docs/metrics.md lists it.
var (
	tasksDesc     = desc("tasks", "Tasks by status; those that are archived are left out.", "status")
	agentsDesc    = desc("agents", "Agents by what they are doing.", "state")
	dropsDesc     = desc("drops_waiting", "Files that wait in an inbox.", "inbox")
	oldestDesc    = desc("drops_oldest_age_seconds", "Age of the oldest file that waits in an inbox.")
	failedDesc    = desc("drops_failed", "Files in failed/.")
	effectsDesc   = desc("effects_waiting", "Effects that are not delivered yet, by sink.", "sink")
	effectAgeDesc = desc("effects_oldest_age_seconds", "Age of the oldest effect that is not delivered yet, by sink.", "sink")
	beatDesc      = desc("component_last_run_age_seconds", "Age of the last run of a component; absent: it never ran.", "component")
	upDesc        = desc("component_resident", "1: a process stays for the component.", "component")
	incidentsDesc = desc("incidents_open", "Incidents that stand, by level.", "level")
	gatewayDesc   = desc("gateway_connected", "1: the dispatcher is connected to the gateway; absent: it keeps no connection.")
	eventsDesc    = desc("store_events_total", "Events that were committed to the store.")
	rowsDesc      = desc("board_rows", "Rows on the list, steps counted.")
	roomDesc      = desc("board_row_limit", "Rows that the list may hold; absent: no limit is known.")
	infoDesc      = desc("build_info", "1, with the version of the process that answers.", "version")
)

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range descs {
		out <- d
	}
}

// scrapeTime bounds how long the reading for one scrape takes.
const scrapeTime = 20 * time.Second

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	if err := c.collect(ctx, out); err != nil {
		out <- prometheus.NewInvalidMetric(infoDesc, err)
	}
}

func (c collector) collect(ctx context.Context, out chan<- prometheus.Metric) error {
	v, err := c.back.View(ctx, true)
	if err != nil {
		return err
	}
	tasks, err := v.Store.Tasks(ctx, core.Filter{Live: true})
	if err != nil {
		return err
	}
	pending, err := v.Store.Pending(ctx, "")
	if err != nil {
		return err
	}
	last, err := v.Store.LastEvent(ctx)
	if err != nil {
		return err
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	out <- prometheus.MustNewConstMetric(eventsDesc, prometheus.CounterValue, float64(last))
	counts := map[pipeline.Status]int{}
	for _, t := range tasks {
		counts[t.Status]++
	}
	for _, status := range pipeline.Statuses {
		if status != pipeline.Archived {
			gauge(tasksDesc, float64(counts[status]), string(status))
		}
	}
	doing := map[view.Doing]int{}
	for _, a := range view.RegistryOf(v) {
		doing[a.State]++
	}
	for _, state := range view.Doings {
		gauge(agentsDesc, float64(doing[state]), string(state))
	}
	for kind, n := range v.Inbox.Waiting {
		gauge(dropsDesc, float64(n), string(kind))
	}
	gauge(oldestDesc, age(v.Now, v.Inbox.Oldest))
	gauge(failedDesc, float64(len(v.Inbox.Failed)))
	waiting, oldest := map[core.Sink]int{}, map[core.Sink]time.Time{}
	for _, p := range pending {
		if waiting[p.Sink]++; oldest[p.Sink].IsZero() || p.Since.Before(oldest[p.Sink]) {
			oldest[p.Sink] = p.Since
		}
	}
	for _, sink := range core.Sinks {
		gauge(effectsDesc, float64(waiting[sink]), string(sink))
		gauge(effectAgeDesc, age(v.Now, oldest[sink]), string(sink))
	}
	incidents, err := app.IncidentsOf(ctx, v, false, time.Time{})
	if err != nil {
		return err
	}
	levels := map[explain.Level]int{}
	for _, i := range incidents {
		levels[i.Level]++
	}
	for _, level := range []explain.Level{explain.OK, explain.Warn, explain.Fail} {
		gauge(incidentsDesc, float64(levels[level]), string(level))
	}
	c.health(v, gauge)
	gauge(infoDesc, 1, c.back.Home.Version)
	return v.Err()
}

// health tells how the components, the gateway and the list are.
func (c collector) health(v *view.View, gauge func(*prometheus.Desc, float64, ...string)) {
	for i := range v.Components {
		is := &v.Components[i]
		gauge(upDesc, number(is.Resident), is.ID)
		if is.Beat != nil {
			gauge(beatDesc, age(v.Now, is.Beat.LastRun), is.ID)
		}
	}
	if v.Link != nil {
		gauge(gatewayDesc, number(v.Link.Up))
	}
	gauge(rowsDesc, float64(v.Board.Count))
	if limit := v.RowLimit(); limit > 0 {
		gauge(roomDesc, float64(limit))
	}
}

// age is how old something is, in seconds; 0: there is nothing.
func age(now, since time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return max(0, now.Sub(since).Seconds())
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
