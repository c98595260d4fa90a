package api

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkAPI sends 100 requests a second, whatever the answers take, to everything that
// otm up runs, with 250 tasks of three steps on the embedded board. Of 20 requests, 14 read
// and 6 change something: who reads looks at lists of 100 tasks, at single tasks, at agents,
// at the status and at events.
func BenchmarkAPI(b *testing.B) {
	const tasksThere, pace = 250, 10 * time.Millisecond
	c := upped(b, newHome(b, ""))
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 100
	for range tasksThere {
		ask[answer](c, "POST", "/tasks", object{"title": "Build the login page", "agent": "devdas", "subtasks": []string{"Form", "Check", "Tests"}})
	}
	until(c, "/tasks?status=assigned&limit=1000", func(l tasks) bool { return len(l.Tasks) == tasksThere })
	requests := []struct{ method, path, body string }{
		{"GET", "/tasks", ""}, {"GET", "/tasks?status=assigned", ""}, {"POST", "/tasks/%d/report", "note"}, {"GET", "/tasks/%d", ""}, {"GET", "/events?after=0", ""},
		{"GET", "/tasks?agent=devdas", ""}, {"POST", "/tasks", "task"}, {"GET", "/tasks/%d", ""}, {"GET", "/tasks", ""}, {"POST", "/tasks/%d/report", "step"},
		{"GET", "/status", ""}, {"GET", "/tasks", ""}, {"GET", "/tasks/%d", ""}, {"POST", "/tasks/%d/report", "done"}, {"GET", "/agents", ""},
		{"GET", "/tasks/%d", ""}, {"POST", "/tasks/%d/accept", "none"}, {"GET", "/tasks", ""}, {"GET", "/events?after=100", ""}, {"POST", "/tasks/%d/say", "say"},
	}
	bodies := map[string]object{
		"note": {"agent": "devdas", "note": "half of it"}, "step": {"agent": "devdas", "subtasksDone": []string{"1"}}, "done": {"agent": "devdas", "status": "agent_done", "result": "built"},
		"task": {"title": "One more", "agent": "archibald"}, "say": {"text": "thanks"}, "none": {},
	}
	var mu sync.Mutex
	took := map[string][]time.Duration{}
	var running sync.WaitGroup
	cpu := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := cpu()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for n := 0; b.Loop(); n++ {
		<-tick.C
		r := requests[n%len(requests)]
		path, began := r.path, time.Now()
		if slices.Contains([]byte(path), '%') {
			path = fmt.Sprintf(path, 1+n/len(requests)%tasksThere)
		}
		running.Go(func() {
			var status int
			if r.method == http.MethodGet {
				status, _ = c.send(r.method, Prefix+path, nil)
			} else {
				status, _ = c.send(r.method, Prefix+path, bodies[r.body])
			}
			mu.Lock()
			defer mu.Unlock()
			took["all"] = append(took["all"], time.Since(began))
			took[r.method] = append(took[r.method], time.Since(began))
			took[r.path] = append(took[r.path], time.Since(began))
			if status != http.StatusOK && status != http.StatusConflict {
				b.Errorf("%s %s: status %d", r.method, path, status)
			}
		})
	}
	running.Wait()
	b.ReportMetric(float64((cpu()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	for name, all := range took {
		slices.Sort(all)
		b.Logf("%-28s p50 %v  p99 %v  of %d", name, all[len(all)/2].Round(100*time.Microsecond), all[len(all)*99/100].Round(100*time.Microsecond), len(all))
	}
	for name, unit := range map[string]string{"all": "p99-ms", "GET": "read-p99-ms", "POST": "change-p99-ms"} {
		if all := took[name]; len(all) > 0 {
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, unit)
		}
	}
}
