package board

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sort"
	"time"
)

// Page sizes of items.list (facts 1.8).
const (
	defaultPage = 100
	maxPage     = 1000
)

// A page is what one items.list answers: references to published rows, so
// that they can be rendered without the lock.
type page struct {
	list *list
	rows []*row
	file *fileJSON // with include_list
	next string
}

func (s *Server) itemsList(c *call) (any, error) {
	listID, cursor := c.required("list_id"), c.text("cursor")
	limit := c.number("limit", defaultPage, 1, maxPage)
	archived, includeList := c.flag("archived"), c.flag("include_list")
	if err := c.err(); err != nil {
		return nil, err
	}
	if archived && c.quirks.ArchiveNotSupported {
		return nil, refuse("archive_not_supported")
	}
	show := func(r *row) bool { return r.Archived == archived }
	if lag := c.quirks.VisibleAfter; lag > 0 {
		horizon := s.now().Add(-lag)
		show = func(r *row) bool { return r.Archived == archived && !r.Created.After(horizon) }
	}
	var p page
	var err error
	s.store.view(func(st *state) {
		var l *list
		if l, err = c.who.readable(st, listID); err != nil {
			return
		}
		sh := st.shelves[listID]
		if p, err = sh.page(cursor, limit, show); err != nil {
			return
		}
		p.list = l
		if includeList && !c.quirks.IgnoreIncludeList {
			p.file = s.fileOf(c, sh)
		}
	})
	if err != nil {
		return nil, err
	}
	return p.json()
}

// page collects up to limit rows after the cursor, newest first.
func (sh *shelf) page(cursor string, limit int, show func(*row) bool) (page, error) {
	start := 0
	if cursor != "" {
		at, err := parseCursor(cursor, sh.list.Num)
		if err != nil {
			return page{}, err
		}
		start = sort.Search(len(sh.order), func(i int) bool { return comparePlace(placeOf(sh.order[i]), at) > 0 })
	}
	var p page
	for _, r := range sh.order[start:] {
		if !show(r) {
			continue
		}
		if len(p.rows) == limit {
			p.next = formatCursor(sh.list.Num, placeOf(p.rows[limit-1]))
			break
		}
		p.rows = append(p.rows, r)
	}
	return p, nil
}

// json renders the page. The rows are joined by hand, each from its cache: a
// page of 1,000 rows is a few megabytes.
func (p *page) json() (json.RawMessage, error) {
	size := 0
	for _, r := range p.rows {
		size += len(itemBytes(p.list, r)) + 1
	}
	b := make([]byte, 0, size+64<<10)
	b = append(b, `{"ok":true,"items":[`...)
	for i, r := range p.rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, itemBytes(p.list, r)...)
	}
	b = append(b, ']')
	if p.file != nil {
		raw, err := marshal(p.file)
		if err != nil {
			return nil, err
		}
		b = append(b, `,"list":`...)
		b = append(b, raw...)
	}
	b = appendMember(b, `,"response_metadata":{"next_cursor":`, p.next)
	return append(b, `}}`...), nil
}

// The cursor is what Slack's is: base64 of the place of the last row.
const cursorForm = "list_id:%d;id:%d;date_created:%d"

func formatCursor(listNum int64, at place) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, cursorForm, listNum, at.num, at.second))
}

func parseCursor(cursor string, listNum int64) (place, error) {
	bad := refuse("invalid_cursor")
	raw, err := base64.StdEncoding.DecodeString(cursor)
	if err != nil {
		return place{}, bad
	}
	var num int64
	var at place
	if _, err := fmt.Sscanf(string(raw), cursorForm, &num, &at.num, &at.second); err != nil || num != listNum {
		return place{}, bad
	}
	if formatCursor(listNum, at) != cursor {
		return place{}, bad
	}
	return at, nil
}

// secondsOf is a time as the seconds with microseconds of a message's ts.
func secondsOf(t time.Time) string {
	return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000)
}
