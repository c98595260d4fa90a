package boardtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"time"

	"otm/internal/board"
)

// Quirks are behaviours of Slack that are rare, unproven or unpleasant. The
// zero value is the plain board; each field says which fact stands behind it
// (facts: the research note on Slack Lists, by section).
type Quirks struct {
	// VisibleAfter hides a new row from items.list for this long, measured by
	// Options.Now. Facts 5: "row indexing can lag a few seconds" after a
	// create; items.info sees the row at once.
	VisibleAfter time.Duration

	// OmitParentOnCreate leaves parent_record_id out of the answer to the
	// creation of a subtask. Facts 1.6: the documentation's sample omits it.
	OmitParentOnCreate bool

	// IgnoreIncludeList makes items.list ignore include_list. Facts 3: older
	// tenants may not know the argument.
	IgnoreIncludeList bool

	// RefuseMultiRow refuses an items.update whose cells name more than one
	// row, with invalid_arguments. Facts 5: no public proof that one call may
	// touch several rows.
	RefuseMultiRow bool

	// PartialUpdateCells, if positive, makes an items.update with more cells
	// than this apply so many and answer internal_error. Facts 1.1:
	// internal_error means "part of the operation may have succeeded".
	PartialUpdateCells int
}

// A double is the board's handler with the quirks, the scopes and the methods
// of the double.
type double struct {
	server *Server
	next   http.Handler
	scopes map[string][]string
	now    func() time.Time
}

// Scopes of Slack that our client asks for.
var scopeOf = map[string]string{
	"slackLists.items.list": "lists:read", "slackLists.items.info": "lists:read", "files.info": "files:read",
	"slackLists.items.create": "lists:write", "slackLists.items.update": "lists:write",
	"slackLists.items.deleteMultiple": "lists:write", "slackLists.create": "lists:write", "slackLists.access.set": "lists:write", "slackLists.update": "lists:write",
}

// ServeHTTP answers a call, or lets the board answer.
func (d *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method, isAPI := strings.CutPrefix(r.URL.Path, "/api/")
	if !isAPI || r.Method != http.MethodPost {
		d.next.ServeHTTP(w, r)
		return
	}
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	granted, limited := d.scopes[token]
	if need := scopeOf[method]; limited && need != "" && !slices.Contains(granted, need) {
		answer(w, fmt.Sprintf(`{"ok":false,"error":"missing_scope","needed":%q,"provided":%q}`, need, strings.Join(granted, ",")))
		return
	}
	switch method {
	case "slackLists.create":
		d.extra(w, r, d.server.makeList)
	case "slackLists.access.set":
		d.extra(w, r, d.server.share)
	default:
		rec := d.bent(method, r)
		for name, values := range rec.Header() {
			w.Header()[name] = values
		}
		if limited {
			w.Header().Set("X-OAuth-Scopes", strings.Join(granted, ","))
		}
		w.WriteHeader(rec.Code)
		w.Write(rec.Body.Bytes())
	}
}

func answer(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	io.WriteString(w, body)
}

// extra answers a method that the board does not have. Whose token it is, the
// board says.
func (d *double) extra(w http.ResponseWriter, r *http.Request, run func(user string, args map[string]string) (map[string]any, error)) {
	raw, _ := io.ReadAll(r.Body)
	who := r.Clone(r.Context())
	who.URL, who.Body, who.ContentLength = &url.URL{Path: "/api/auth.test"}, http.NoBody, 0
	rec := httptest.NewRecorder()
	d.next.ServeHTTP(rec, who)
	var auth struct {
		OK     bool
		UserID string `json:"user_id"`
	}
	form, err := url.ParseQuery(string(raw))
	if json.Unmarshal(rec.Body.Bytes(), &auth) != nil || !auth.OK || err != nil {
		answer(w, rec.Body.String())
		return
	}
	args := make(map[string]string)
	for name := range form {
		args[name] = form.Get(name)
	}
	result, err := run(auth.UserID, args)
	if refused, ok := errors.AsType[*board.Error](err); ok {
		result = map[string]any{"ok": false, "error": refused.Code}
	} else if err != nil {
		result = map[string]any{"ok": false, "error": "internal_error"}
	}
	body, err := json.Marshal(result)
	if err != nil {
		panic("internal error: answer does not encode: " + err.Error())
	}
	answer(w, string(body))
}

// bent lets the board answer the call, as the quirks have it.
func (d *double) bent(method string, r *http.Request) *httptest.ResponseRecorder {
	q, rec := *d.server.quirks.Load(), httptest.NewRecorder()
	body, _ := io.ReadAll(http.MaxBytesReader(rec, r.Body, 2<<20)) // the board refuses more than one
	form, err := url.ParseQuery(string(body))
	if err != nil {
		form = url.Values{}
	}
	partial := false
	switch method {
	case "slackLists.items.update":
		cells, refused := []Cell(nil), false
		json.Unmarshal([]byte(form.Get("cells")), &cells)
		if cells, partial, refused = q.bend(cells); refused {
			answer(rec, `{"ok":false,"error":"invalid_arguments"}`)
			return rec
		}
		if partial {
			form.Set("cells", string(encode(cells)))
			body = []byte(form.Encode())
		}
	case "slackLists.items.deleteMultiple":
		var ids []string
		json.Unmarshal([]byte(form.Get("ids")), &ids)
		d.rememberRows(form.Get("list_id"), ids...)
	}
	again := r.Clone(r.Context())
	again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	d.next.ServeHTTP(rec, again)
	switch {
	case partial && strings.Contains(rec.Body.String(), `"ok":true`):
		rec = httptest.NewRecorder()
		answer(rec, `{"ok":false,"error":"internal_error"}`)
	case method == "slackLists.items.create" && q.OmitParentOnCreate:
		editBody(rec, func(answer map[string]any) {
			if item, ok := answer["item"].(map[string]any); ok {
				delete(item, "parent_record_id")
			}
		})
	case method == "slackLists.items.list" && (q.IgnoreIncludeList || q.VisibleAfter > 0):
		editBody(rec, func(answer map[string]any) {
			if q.IgnoreIncludeList {
				delete(answer, "list")
			}
			d.hideNew(form.Get("list_id"), answer, q.VisibleAfter)
		})
	}
	rec.Header().Del("Content-Length") // the body may have been edited; the server sets it
	return rec
}

// bend applies the quirks of items.update to its cells. If partial, the call
// has to fail after the cells that are left were applied.
func (q *Quirks) bend(cells []Cell) (bent []Cell, partial, refused bool) {
	other := func(in Cell) bool { return in["row_id"] != cells[0]["row_id"] }
	if q.RefuseMultiRow && slices.ContainsFunc(cells, other) {
		return nil, false, true
	}
	if n := q.PartialUpdateCells; n > 0 && len(cells) > n {
		return cells[:n], true, false
	}
	return cells, false, false
}

// hideNew takes rows out of a page that are younger than lag.
func (d *double) hideNew(listID string, answer map[string]any, lag time.Duration) {
	items, _ := answer["items"].([]any)
	if lag <= 0 || items == nil {
		return
	}
	horizon := d.now().Add(-lag)
	d.server.look(listID, func(t *board.Tx, _ *board.List) {
		answer["items"] = slices.DeleteFunc(items, func(item any) bool {
			m, _ := item.(map[string]any)
			r := t.Row(listID, textOf(m["id"]))
			return r != nil && r.Created.After(horizon)
		})
	})
}

// rememberRows keeps rows that the API is about to delete, for RestoreRow.
func (d *double) rememberRows(listID string, ids ...string) {
	d.server.look(listID, func(t *board.Tx, _ *board.List) {
		for _, id := range ids {
			if r := t.Row(listID, id); r != nil {
				d.server.remember(t, r)
			}
		}
	})
}
