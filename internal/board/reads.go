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

// read calls fn with a snapshot of the list, if the arguments are right.
func (c *call) read(listID, missing string, fn func(*Tx, *List) error) error {
	if err := c.err(); err != nil {
		return err
	}
	return c.store.view(func(t *Tx) error {
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

func itemsInfo(c *call) (any, error) {
	listID, id := c.required("list_id"), c.required("id")
	reply := object{"ok": true}
	err := c.read(listID, "list_not_found", func(t *Tx, l *List) error {
		r := t.Row(listID, id)
		switch {
		case r != nil:
		case t.isGone(listID, id):
			return refuse("record_deleted")
		default:
			return refuse("record_not_found")
		}
		steps := []json.RawMessage{}
		for _, step := range t.texts("SELECT item FROM rows WHERE list = $1 AND parent = $2 ORDER BY seq", listID, id) {
			steps = append(steps, json.RawMessage(step))
		}
		reply["list"], reply["record"], reply["subtasks"] = c.fileOf(t, l), t.item(listID, id), steps
		if r.Parent != "" {
			reply["parent_task"] = t.item(listID, r.Parent)
		}
		return nil
	})
	return reply, err
}

func filesInfo(c *call) (any, error) {
	id := c.required("file")
	reply := object{"ok": true}
	err := c.read(id, "file_not_found", func(t *Tx, l *List) error {
		reply["file"] = c.fileOf(t, l)
		return nil
	})
	return reply, err
}

func authTest(c *call) (any, error) {
	reply := object{"ok": true, "url": c.base, "team": "OTM", "team_id": teamID, "user": c.who.UserID, "user_id": c.who.UserID}
	if c.who.UserID == BotUser {
		reply["user"], reply["bot_id"] = "otm", "B0OTMBOT"
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

// fileOf shows the list as a file, as items.list, items.info and files.info do. It
// has the members that clients of lists read.
func (c *call) fileOf(t *Tx, l *List) object {
	created := l.Created.Unix()
	updated, editor := created, l.Owner // of the last change of anything in the list
	t.one(&updated, "SELECT updated FROM changes WHERE list = $1", l.ID)
	t.one(&editor, "SELECT editor FROM changes WHERE list = $1", l.ID)
	rows, most, over := t.count(l.ID, false), unlimitedRows, false
	if limit := t.store.opts.RowLimit; limit > 0 {
		most, over = limit, rows >= limit
	}
	description := l.Description
	if description == nil {
		description = json.RawMessage("[]")
	}
	return object{
		"id": l.ID, "name": "list", "title": l.Name, "user": l.Owner, "editable": true, "mode": "list",
		"mimetype": "application/vnd.slack-list", "filetype": "list", "pretty_type": "List",
		"created": created, "timestamp": created, "updated": updated, "last_editor": editor,
		"edit_timestamp": l.Edited.Unix(), // of the last change of the list itself
		"permalink":      c.base + "lists/" + teamID + "/" + l.ID,
		"list_metadata":  object{"schema": l.Columns, "subtask_schema": l.subtaskColumns(), "todo_mode": l.Todo, "description_blocks": description},
		"list_limits": object{
			"over_row_maximum": over, "row_count_limit": most, "row_count": rows, "archived_row_count": t.count(l.ID, true),
			"column_count": len(l.Columns), "column_count_limit": maxColumns,
		},
	}
}
