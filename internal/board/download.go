package board

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// maxJobs bounds the export jobs in memory; the oldest go first.
const maxJobs = 100

// A job is one export: what was asked for, and how often it was asked about.
type job struct {
	id       string
	listID   string
	form     jobForm
	archived bool
	asked    int
}

// A jobForm is what download.get has to repeat.
type jobForm struct {
	format      string
	threads     bool
	attachments bool
}

type jobs struct {
	mu  sync.Mutex // guards all, and the jobs in it
	all []*job     // oldest first
}

func (c *call) jobForm() jobForm {
	f := jobForm{c.text("format"), c.flag("include_threads"), c.flag("include_attachments")}
	switch f.format {
	case "":
		f.format = "csv"
	case "csv", "json":
	default:
		c.problem("must be one of csv, json: format")
	}
	return f
}

type jobReply struct {
	OK    bool   `json:"ok"`
	JobID string `json:"job_id"`
}

func (s *Server) downloadStart(c *call) (any, error) {
	j := &job{id: newJobID(), listID: c.required("list_id"), form: c.jobForm(), archived: c.flag("include_archived")}
	if err := c.err(); err != nil {
		return nil, err
	}
	if err := s.seesList(c, j.listID); err != nil {
		return nil, err
	}
	s.jobs.add(j)
	return jobReply{true, j.id}, nil
}

func (s *Server) seesList(c *call, listID string) error {
	var err error
	s.store.view(func(st *state) { _, err = c.who.readable(st, listID) })
	return err
}

type downloadReply struct {
	OK          bool   `json:"ok"`
	Status      string `json:"status"`
	DownloadURL string `json:"download_url,omitempty"`
}

// downloadGet answers at least once that the job is on its way, so that a
// client has to poll as with Slack.
func (s *Server) downloadGet(c *call) (any, error) {
	listID, id, form := c.required("list_id"), c.required("job_id"), c.jobForm()
	if err := c.err(); err != nil {
		return nil, err
	}
	if err := s.seesList(c, listID); err != nil {
		return nil, err
	}
	asked, found := s.jobs.ask(id, listID, form)
	switch {
	case !found:
		return nil, refuse("job_not_found")
	case asked == 1:
		return downloadReply{OK: true, Status: "IN_PROGRESS"}, nil
	}
	address := c.base + "files-pri/" + teamID + "-" + listID + "/" + form.format + "/list"
	return downloadReply{true, "COMPLETED", address + "?job=" + url.QueryEscape(id)}, nil
}

func (js *jobs) add(j *job) {
	js.mu.Lock()
	defer js.mu.Unlock()
	js.all = append(js.all, j)
	if len(js.all) > maxJobs {
		js.all = js.all[1:]
	}
}

// ask counts a question about the job; it is found only under the arguments it
// was started with.
func (js *jobs) ask(id, listID string, form jobForm) (asked int, found bool) {
	js.mu.Lock()
	defer js.mu.Unlock()
	for _, j := range js.all {
		if j.id == id && j.listID == listID && j.form == form {
			j.asked++
			return j.asked, true
		}
	}
	return 0, false
}

// archivedToo says whether the job of that id, if any, includes archived rows.
func (js *jobs) archivedToo(id string) bool {
	js.mu.Lock()
	defer js.mu.Unlock()
	for _, j := range js.all {
		if j.id == id {
			return j.archived
		}
	}
	return false
}

// serveExport answers /files-pri/<team>-<list>/<csv|json>/list to the bearer
// of a token.
func (s *Server) serveExport(w http.ResponseWriter, r *http.Request) {
	who, err := s.identify(bearer(r.Header))
	if err != nil || !who.hasScope(ScopeListsRead) {
		http.Error(w, "a bearer token with "+ScopeListsRead+" is needed", http.StatusForbidden)
		return
	}
	listID, _ := strings.CutPrefix(r.PathValue("file"), teamID+"-")
	archived := s.jobs.archivedToo(r.URL.Query().Get("job"))
	var l *list
	var rows []*row
	s.store.view(func(st *state) {
		if l, err = who.readable(st, listID); err != nil {
			return
		}
		for _, r := range st.shelves[listID].order {
			if archived || !r.Archived {
				rows = append(rows, r)
			}
		}
	})
	if err != nil {
		http.NotFound(w, r)
		return
	}
	kind, body, err := export(l, rows, r.PathValue("format"))
	if err != nil {
		s.log.Error("export failed", "list", listID, "err", err)
		http.Error(w, "export failed", http.StatusInternalServerError)
		return
	}
	if body == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", "attachment")
	w.Write(body)
}

// export writes the rows in the format; the body is nil for an unknown one.
func export(l *list, rows []*row, format string) (kind string, body []byte, err error) {
	switch format {
	case "csv":
		body, err = exportCSV(l, rows)
		return "text/csv; charset=utf-8", body, err
	case "json":
		items := make([]json.RawMessage, 0, len(rows))
		for _, r := range rows {
			items = append(items, itemBytes(l, r))
		}
		body, err = marshal(items)
		return "application/json; charset=utf-8", body, err
	}
	return "", nil, nil
}

func exportCSV(l *list, rows []*row) ([]byte, error) {
	var buf bytes.Buffer
	out := csv.NewWriter(&buf)
	columns := l.visible()
	var header []string
	for _, c := range columns {
		header = append(header, c.Name)
	}
	out.Write(header)
	for _, r := range rows {
		var line []string
		for i := range columns {
			line = append(line, plainCell(&columns[i], r.Cells[columns[i].ID]))
		}
		out.Write(line)
	}
	out.Flush()
	return buf.Bytes(), out.Error()
}

// plainCell is a cell as people read it; options show as their labels.
func plainCell(c *column, cell json.RawMessage) string {
	if cell == nil {
		return ""
	}
	key := keyOf(c.Type)
	if key == "rich_text" {
		return mrkdwn(cell)
	}
	if key == "checkbox" {
		return string(cell)
	}
	var values []json.RawMessage
	if json.Unmarshal(cell, &values) != nil {
		return ""
	}
	var parts []string
	for _, raw := range values {
		s, err := toString(raw)
		if err != nil {
			s = string(raw) // a number, or an object
		}
		if key == "select" {
			s = c.labelFor(s)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}

// labelFor is the label of the option, or the value where the option is gone.
func (c *column) labelFor(value string) string {
	if c.Options != nil {
		for _, o := range c.Options.Choices {
			if o.Value == value {
				return o.Label
			}
		}
	}
	return value
}
