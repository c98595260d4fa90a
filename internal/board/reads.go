package board

import (
	"bytes"
	"cmp"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// maxPage is the most rows of a page of items.list (facts 1.8).
const maxPage = 1000

// read calls fn with a snapshot of the list, if the arguments are right.
func (c *call) read(listID, missing string, fn func(*Tx, *List) error) error {
	if c.err != nil {
		return c.err
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
	limit, err := strconv.Atoi(cmp.Or(c.text("limit"), "100"))
	if err != nil || limit < 1 || limit > maxPage {
		c.problem("must be a whole number from 1 to %d: limit", maxPage)
	}
	var answer json.RawMessage
	err = c.read(listID, "list_not_found", func(t *Tx, l *List) error {
		b, next, err := t.page(l, cursor, limit)
		if err == nil && c.text("include_list") == "true" {
			b = append(b, `,"list":`...)
			b = append(b, t.encode(t.fileOf(l))...)
		}
		answer = fmt.Appendf(b, `,"response_metadata":{"next_cursor":%q}}`, next) // base64, or empty
		return err
	})
	return answer, err
}

// A place is a row's position in the listing. A cursor holds one.
type place struct {
	second, num int64
}

// page begins the answer with up to limit rows after the cursor: newest second
// first, then by the rows' random number, because the order within a second says
// nothing in Slack either.
func (t *Tx) page(l *List, cursor string, limit int) (answer []byte, next string, err error) {
	after := place{math.MaxInt64, 0}
	if cursor != "" {
		if after, err = parseCursor(cursor, l.Num); err != nil {
			return nil, "", err
		}
	}
	var b bytes.Buffer // it doubles where a slice grows by a quarter: a page can have megabytes
	b.WriteString(`{"ok":true,"items":[`)
	n, last := 0, place{}
	t.each(func(rows *sql.Rows) error {
		if n++; n > limit {
			next = formatCursor(l.Num, last)
			return nil
		}
		if n > 1 {
			b.WriteByte(',')
		}
		var item sql.RawBytes
		err := rows.Scan(&last.second, &last.num, &item)
		b.Write(item)
		return err
	}, `SELECT created, num, item FROM rows WHERE list = $1 AND archived = 0 AND (created, num) < ($2, $3)
		ORDER BY created DESC, num DESC LIMIT $4`, l.ID, after.second, after.num, limit+1)
	b.WriteByte(']')
	return b.Bytes(), next, t.err
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
	return reply, c.read(listID, "list_not_found", func(t *Tx, l *List) error {
		record := t.item(listID, id)
		if record == nil {
			return refuse("record_not_found")
		}
		reply["record"] = record
		return nil
	})
}

func filesInfo(c *call) (any, error) {
	id := c.required("file")
	reply := object{"ok": true}
	return reply, c.read(id, "file_not_found", func(t *Tx, l *List) error {
		reply["file"] = t.fileOf(l)
		return nil
	})
}

func authTest(c *call) (any, error) {
	reply := object{"ok": true, "team": "OTM", "user": c.who.UserID, "user_id": c.who.UserID}
	if c.who.UserID == BotUser {
		reply["user"] = "otm"
	}
	return reply, nil
}

// unlimitedRows is what row_count_limit says if nothing limits rows: a number, so that a
// client that divides by it works.
const unlimitedRows = 1_000_000

// fileOf shows the list as a file, as items.list and files.info do. It has the members
// that our client reads.
func (t *Tx) fileOf(l *List) object {
	most := unlimitedRows
	if limit := t.store.opts.RowLimit; limit > 0 {
		most = limit
	}
	description := l.Description
	if description == nil {
		description = json.RawMessage("[]")
	}
	return object{
		"id": l.ID, "title": l.Name, "filetype": "list",
		"list_metadata": object{"schema": l.Columns, "description_blocks": description},
		"list_limits":   object{"row_count_limit": most, "row_count": t.count(l.ID)},
	}
}
