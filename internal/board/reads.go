package board

import (
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
)

// teamID is the workspace that the board claims to be.
const teamID = "T0OTM"

// Page sizes of items.list (facts 1.8).
const (
	defaultPage = 100
	maxPage     = 1000
)

// read calls fn with a snapshot of the list.
func (c *call) read(listID, missing string, fn func(*Tx, *List) error) error {
	return c.store.view(c.ctx, func(t *Tx) error {
		l := t.List(listID)
		if l == nil {
			return refuse(missing)
		}
		return fn(t, l)
	})
}

func itemsList(c *call) (any, error) {
	listID, cursor := c.required("list_id"), c.text("cursor")
	limit := c.number("limit", defaultPage, 1, maxPage)
	archived, includeList := c.flag("archived"), c.flag("include_list")
	if err := c.err(); err != nil {
		return nil, err
	}
	var answer json.RawMessage
	err := c.read(listID, "list_not_found", func(t *Tx, l *List) error {
		b, next, err := t.page(l, cursor, limit, archived)
		if err == nil && includeList {
			b = append(b, `,"list":`...)
			b = append(b, t.encode(c.fileOf(t, l))...)
		}
		answer = fmt.Appendf(b, `,"response_metadata":{"next_cursor":%q}}`, next) // base64, or empty
		return err
	})
	return answer, err
}

// A place is a row's position in the listing, and what a cursor holds.
type place struct {
	second, num int64
}

// page begins the answer with up to limit rows after the cursor: newest second
// first, then by the rows' random number, because the order within a second says
// nothing in Slack either.
func (t *Tx) page(l *List, cursor string, limit int, archived bool) (answer []byte, next string, err error) {
	after := place{math.MaxInt64, 0}
	if cursor != "" {
		if after, err = parseCursor(cursor, l.Num); err != nil {
			return nil, "", err
		}
	}
	answer = append(make([]byte, 0, t.store.lastPage.Load()+64<<10), `{"ok":true,"items":[`...)
	n, last := 0, place{}
	t.each(func(rows *sql.Rows) error {
		if n++; n > limit {
			next = formatCursor(l.Num, last)
			return nil
		}
		if n > 1 {
			answer = append(answer, ',')
		}
		var item sql.RawBytes
		err := rows.Scan(&last.second, &last.num, &item)
		answer = append(answer, item...)
		return err
	}, `SELECT created, num, item FROM rows WHERE list = $1 AND archived = $2 AND (created, num) < ($3, $4)
		ORDER BY created DESC, num DESC LIMIT $5`, l.ID, archived, after.second, after.num, limit+1)
	t.store.lastPage.Store(int64(len(answer)))
	return append(answer, ']'), next, t.err
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
	err := c.read(listID, "list_not_found", func(t *Tx, l *List) error {
		r := t.Row(listID, id)
		switch {
		case r != nil:
		case t.isGone(listID, id):
			return refuse("record_deleted")
		default:
			return refuse("record_not_found")
		}
		reply = infoReply{OK: true, List: c.fileOf(t, l), Record: t.item(listID, id), Subtasks: []json.RawMessage{}}
		for _, step := range t.texts("SELECT item FROM rows WHERE list = $1 AND parent = $2 ORDER BY seq", listID, id) {
			reply.Subtasks = append(reply.Subtasks, json.RawMessage(step))
		}
		reply.Parent = t.item(listID, r.Parent)
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
	err := c.read(id, "file_not_found", func(t *Tx, l *List) error {
		reply.File = c.fileOf(t, l)
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

// fileOf shows the list to the caller.
func (c *call) fileOf(t *Tx, l *List) *fileJSON {
	created := l.Created.Unix()
	limits := limitsJSON{
		RowCountLimit: unlimitedRows, RowCount: t.count(l.ID, false), ArchivedRowCount: t.count(l.ID, true),
		ColumnCount: len(l.Columns), ColumnCountLimit: maxColumns,
	}
	if limit := t.store.opts.RowLimit; limit > 0 {
		limits.RowCountLimit, limits.OverRowMaximum = limit, limits.RowCount >= limit
	}
	updated, editor := created, l.Owner
	t.one(&updated, "SELECT updated FROM changes WHERE list = $1", l.ID)
	t.one(&editor, "SELECT editor FROM changes WHERE list = $1", l.ID)
	return &fileJSON{
		ID: l.ID, Created: created, Timestamp: created, Name: "list", Title: l.Name,
		Mimetype: "application/vnd.slack-list", Filetype: "list", PrettyType: "List",
		User: l.Owner, Editable: true, Mode: "list",
		ListMetadata: metadataJSON{l.Columns, l.subtaskColumns(), l.Todo}, ListLimits: limits,
		Permalink:  c.base + "lists/" + teamID + "/" + l.ID,
		LastEditor: editor, Updated: updated, EditTimestamp: l.Edited.Unix(),
	}
}
