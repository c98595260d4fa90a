package board

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// fill adds n rows that look like OTM's: a task, or a step of it.
func fill(b *testing.B, s *Server, n int) {
	b.Helper()
	columns := s.columns()
	sel := func(column int, value string) cellJSON {
		return cellJSON{"column_id": columns[column].ID, "select": []string{value}}
	}
	num := func(column int, n float64) cellJSON {
		return cellJSON{"column_id": columns[column].ID, "number": []float64{n}}
	}
	cells := func(i int) []cellJSON {
		return []cellJSON{
			textCell(columns[0].ID, fmt.Sprint("Build the login page, part ", i)),
			textCell(columns[1].ID, fmt.Sprintf("T-%05d", i)),
			sel(2, "action"),
			sel(3, "devdas"),
			textCell(columns[4].ID, "PRJ-012 App"),
			sel(5, "normal"),
			sel(6, "in_progress"),
			num(7, 3),
			num(8, 25),
			textCell(columns[9].ID, "2026-03-14T10:15:00Z"),
			textCell(columns[11].ID, "Waiting for the design of the form"),
			textCell(columns[12].ID, strings.Repeat("It works on my machine. ", 10)),
		}
	}
	err := s.Edit(BotUser, func(t *Tx) error {
		for i := range n {
			// The row before may have given the list its first assignee.
			if _, err := t.Create(t.List(s.ListID()), "", cellsJSON("", cells(i))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

func benchOpen(b *testing.B) *Server {
	b.Helper()
	s, err := Open(Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

func post(b *testing.B, base, token, method string, form url.Values) int {
	req, err := http.NewRequest(http.MethodPost, base+"/api/"+method, strings.NewReader(form.Encode()))
	if err != nil {
		b.Error(err)
		return 0
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Error(err)
		return 0
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Contains(body, []byte(`"ok":true`)) {
		b.Errorf("%s: %.200s, %v", method, body, err)
	}
	return len(body)
}

// BenchmarkItemsList is one items.list of a full page over HTTP.
func BenchmarkItemsList(b *testing.B) {
	for _, rows := range []int{100, 1000} {
		b.Run(fmt.Sprint(rows, " rows"), func(b *testing.B) {
			s := benchOpen(b)
			fill(b, s, rows)
			web := httptest.NewServer(s.Handler())
			defer web.Close()
			form := url.Values{"list_id": {s.ListID()}, "limit": {"1000"}, "include_list": {"true"}}
			b.ReportAllocs()
			for b.Loop() {
				b.SetBytes(int64(post(b, web.URL, s.Token(), "slackLists.items.list", form)))
			}
		})
	}
}

// BenchmarkCreate is items.create over HTTP, each durable before its answer,
// by so many callers at once.
func BenchmarkCreate(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(callers, " callers"), func(b *testing.B) {
			s := benchOpen(b)
			web := httptest.NewServer(s.Handler())
			defer web.Close()
			http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = callers
			columns := s.columns()
			fields := `[{"column_id":"` + columns[0].ID + `","rich_text":[{"type":"rich_text","elements":[` +
				`{"type":"rich_text_section","elements":[{"type":"text","text":"Build the login page"}]}]}]}]`
			form := url.Values{"list_id": {s.ListID()}, "initial_fields": {fields}}
			var begun atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range callers {
				wg.Go(func() {
					for begun.Add(1) <= int64(b.N) {
						post(b, web.URL, s.Token(), "slackLists.items.create", form)
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkOpen is the start with 5,000 rows.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	fill(b, s, 5000)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := Open(Options{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
