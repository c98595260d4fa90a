package board

import (
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"unicode"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

// pagePolicy lets the page load its own style sheet and nothing else.
const pagePolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// The template is parsed at the first page, not at the start of every command
// that has this package linked in.
var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Parse(pageHTML))
})

func (s *Server) routePage(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", s.servePage)
	mux.HandleFunc("GET /lists/{team}/{list}", s.servePage) // permalinks
	mux.HandleFunc("GET /page.css", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		fmt.Fprint(w, pageCSS)
	})
}

// A pageView is what the template shows: plain text only.
type pageView struct {
	Title   string
	Columns []string
	Rows    []pageRow
}

type pageRow struct {
	Step  bool
	Cells []string
}

func (s *Server) servePage(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	if err := pageTemplate().Execute(w, s.pageView()); err != nil {
		s.log.Debug("page not sent", "err", err)
	}
}

// pageView shows the rows of the default list that are not archived, each
// followed by its steps.
func (s *Server) pageView() pageView {
	var l *list
	var rows []*row
	s.store.view(func(st *state) {
		sh := st.shelves[s.listID]
		l = sh.list
		for _, r := range sh.order {
			if r.Archived || r.Parent != "" {
				continue
			}
			rows = append(rows, r)
			for _, kid := range sh.children(r.ID) {
				if !kid.Archived {
					rows = append(rows, kid)
				}
			}
		}
	})
	columns := l.visible()
	v := pageView{Title: visible(l.Name)}
	for _, c := range columns {
		v.Columns = append(v.Columns, visible(c.Name))
	}
	for _, r := range rows {
		line := pageRow{Step: r.Parent != ""}
		for i := range columns {
			line.Cells = append(line.Cells, visible(plainCell(&columns[i], r.Cells[columns[i].ID])))
		}
		v.Rows = append(v.Rows, line)
	}
	return v
}

// visible writes control characters and those that change the direction of
// text so that they are seen and do nothing.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r < 0x20:
			b.WriteRune(0x2400 + r) // the pictures of the control characters
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
