package board

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sort"
)

// teamID is the workspace that the board claims to be.
const teamID = "T0OTM"

// Page sizes of items.list (facts 1.8).
const (
	defaultPage = 100
	maxPage     = 1000
)

// A page is what one items.list answers: references to published rows, so
// that they can be rendered without the lock.
type page struct {
	list *List
	rows []*Row
	file *fileJSON // with include_list
	next string
}

// read calls fn with the list's shelf under the lock for readers.
func (c *call) read(listID, missing string, fn func(*shelf) error) (err error) {
	c.store.view(func(st *state) {
		sh := st.shelves[listID]
		if sh == nil {
			err = refuse(missing)
			return
		}
		err = fn(sh)
	})
	return err
}

func itemsList(c *call) (any, error) {
	listID, cursor := c.required("list_id"), c.text("cursor")
	limit := c.number("limit", defaultPage, 1, maxPage)
	archived, includeList := c.flag("archived"), c.flag("include_list")
	if err := c.err(); err != nil {
		return nil, err
	}
	var p page
	err := c.read(listID, "list_not_found", func(sh *shelf) (err error) {
		if p, err = sh.page(cursor, limit, archived); err == nil && includeList {
			p.file = c.fileOf(sh)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return p.json()
}

// page collects up to limit rows after the cursor, newest first.
func (sh *shelf) page(cursor string, limit int, archived bool) (page, error) {
	start := 0
	if cursor != "" {
		at, err := parseCursor(cursor, sh.list.Num)
		if err != nil {
			return page{}, err
		}
		start = sort.Search(len(sh.order), func(i int) bool { return comparePlace(placeOf(sh.order[i]), at) > 0 })
	}
	p := page{list: sh.list}
	for _, r := range sh.order[start:] {
		if r.Archived != archived {
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
	return fmt.Appendf(b, `,"response_metadata":{"next_cursor":%q}}`, p.next), nil // base64, or empty
}

// The cursor is what Slack's is: base64 of the place of the last row.
const cursorForm = "list_id:%d;id:%d;date_created:%d"

func formatCursor(listNum int64, at place) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, cursorForm, listNum, at.num, at.second))
}

func parseCursor(cursor string, listNum int64) (place, error) {
	var num int64
	var at place
	raw, err := base64.StdEncoding.DecodeString(cursor)
	if err == nil {
		_, err = fmt.Sscanf(string(raw), cursorForm, &num, &at.num, &at.second)
	}
	if err != nil || num != listNum || formatCursor(listNum, at) != cursor {
		return place{}, refuse("invalid_cursor")
	}
	return at, nil
}

type infoReply struct {
	OK       bool              `json:"ok"`
	List     *fileJSON         `json:"list"`
	Record   json.RawMessage   `json:"record"`
	Subtasks []json.RawMessage `json:"subtasks"`
	Parent   json.RawMessage   `json:"parent_task,omitempty"`
}

func itemsInfo(c *call) (any, error) {
	listID, id := c.required("list_id"), c.required("id")
	if err := c.err(); err != nil {
		return nil, err
	}
	var reply infoReply
	err := c.read(listID, "list_not_found", func(sh *shelf) error {
		r := sh.rows[id]
		if r == nil {
			if sh.gone[id] {
				return refuse("record_deleted")
			}
			return refuse("record_not_found")
		}
		reply = infoReply{OK: true, List: c.fileOf(sh), Record: itemBytes(sh.list, r), Subtasks: []json.RawMessage{}}
		for _, kid := range sh.kids[id] {
			reply.Subtasks = append(reply.Subtasks, itemBytes(sh.list, sh.rows[kid]))
		}
		if parent := sh.rows[r.Parent]; parent != nil {
			reply.Parent = itemBytes(sh.list, parent)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return reply, nil
}

type filesInfoReply struct {
	OK   bool      `json:"ok"`
	File *fileJSON `json:"file"`
}

func filesInfo(c *call) (any, error) {
	id := c.required("file")
	if err := c.err(); err != nil {
		return nil, err
	}
	reply := filesInfoReply{OK: true}
	err := c.read(id, "file_not_found", func(sh *shelf) error {
		reply.File = c.fileOf(sh)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return reply, nil
}

type authReply struct {
	OK     bool   `json:"ok"`
	URL    string `json:"url"`
	Team   string `json:"team"`
	User   string `json:"user"`
	TeamID string `json:"team_id"`
	UserID string `json:"user_id"`
	BotID  string `json:"bot_id,omitempty"`
}

func authTest(c *call) (any, error) {
	reply := authReply{OK: true, URL: c.base, Team: "OTM", User: c.who.UserID, TeamID: teamID, UserID: c.who.UserID}
	if c.who.UserID == BotUser {
		reply.User, reply.BotID = "otm", "B0OTMBOT"
	}
	return reply, nil
}

// Counters of list_limits.
const (
	maxColumns = 30
	// unlimitedRows is what row_count_limit says if nothing limits rows: a
	// number, so that a client that divides by it works.
	unlimitedRows = 1_000_000
)

// A fileJSON is a list as a file: the list object of items.list and items.info,
// and the file of files.info. It has the members that clients of lists read.
type fileJSON struct {
	ID            string       `json:"id"`
	Created       int64        `json:"created"`
	Timestamp     int64        `json:"timestamp"`
	Name          string       `json:"name"`
	Title         string       `json:"title"`
	Mimetype      string       `json:"mimetype"`
	Filetype      string       `json:"filetype"`
	PrettyType    string       `json:"pretty_type"`
	User          string       `json:"user"`
	Editable      bool         `json:"editable"`
	Mode          string       `json:"mode"`
	ListMetadata  metadataJSON `json:"list_metadata"`
	ListLimits    limitsJSON   `json:"list_limits"`
	Permalink     string       `json:"permalink"`
	LastEditor    string       `json:"last_editor"`
	Updated       int64        `json:"updated"`        // last change of anything in the list
	EditTimestamp int64        `json:"edit_timestamp"` // last change of the list itself
}

type metadataJSON struct {
	Schema        []Column `json:"schema"`
	SubtaskSchema []Column `json:"subtask_schema"`
	TodoMode      bool     `json:"todo_mode"`
}

type limitsJSON struct {
	OverRowMaximum   bool `json:"over_row_maximum"`
	RowCountLimit    int  `json:"row_count_limit"`
	RowCount         int  `json:"row_count"`
	ArchivedRowCount int  `json:"archived_row_count"`
	ColumnCount      int  `json:"column_count"`
	ColumnCountLimit int  `json:"column_count_limit"`
}

// fileOf shows the list to the caller. It reads the shelf's counters, so the
// store must be locked for reading.
func (c *call) fileOf(sh *shelf) *fileJSON {
	l, created := sh.list, sh.list.Created.Unix()
	limits := limitsJSON{
		RowCountLimit: unlimitedRows, RowCount: sh.active, ArchivedRowCount: len(sh.rows) - sh.active,
		ColumnCount: len(l.Columns), ColumnCountLimit: maxColumns,
	}
	if limit := c.store.opts.RowLimit; limit > 0 {
		limits.RowCountLimit, limits.OverRowMaximum = limit, sh.active >= limit
	}
	return &fileJSON{
		ID: l.ID, Created: created, Timestamp: created, Name: "list", Title: l.Name,
		Mimetype: "application/vnd.slack-list", Filetype: "list", PrettyType: "List",
		User: l.Owner, Editable: true, Mode: "list",
		ListMetadata: metadataJSON{l.Columns, l.subtaskColumns(), l.Todo}, ListLimits: limits,
		Permalink:  c.base + "lists/" + teamID + "/" + l.ID,
		LastEditor: sh.editor, Updated: sh.updated.Unix(), EditTimestamp: l.Edited.Unix(),
	}
}
