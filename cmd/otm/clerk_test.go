package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"otm/internal/board"
	"otm/internal/board/boardtest"
)

// desk is where people work on the board: over its API, without our client.
// What it says may fail, as boards are killed.
type desk struct {
	find    func() (base, token, list string, err error)
	columns map[string]column // by key
}

// deskOf is the desk of the embedded board of a data directory.
func deskOf(dir string) *desk {
	dir = filepath.Join(dir, "board")
	return &desk{find: func() (base, token, list string, err error) {
		e, err := board.ReadEndpoint(dir)
		if err != nil {
			return "", "", "", err
		}
		token, err = board.ReadToken(dir)
		return e.URL, token, e.ListID, err
	}}
}

// column is one of the list's.
type column struct{ ID, Type string }

// card is a row as people see it.
type card struct {
	ID, Parent string
	cells      map[string]string // by the key of the column
}

// call makes a call, again if the daemons have used up the calls of the moment. Only time
// frees calls again, so it waits a second between two tries.
func (d *desk) call(method string, form url.Values, into any) error {
	for end := time.Now().Add(patience); ; time.Sleep(time.Second) { // only time frees calls again
		err := d.callOnce(method, form, into)
		if !errors.Is(err, errRateLimited) || time.Now().After(end) {
			return err
		}
	}
}

var errRateLimited = errors.New("ratelimited")

func (d *desk) callOnce(method string, form url.Values, into any) error {
	base, token, list, err := d.find()
	if err != nil {
		return err
	}
	if method != "files.info" {
		form.Set("list_id", list)
	} else {
		form.Set("file", list)
	}
	client := http.Client{Timeout: patience}
	req, err := http.NewRequest(http.MethodPost, base+method, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var verdict struct {
		OK    bool
		Error string
	}
	if err := json.Unmarshal(data, &verdict); err != nil {
		return err
	}
	if verdict.Error == errRateLimited.Error() {
		return fmt.Errorf("%s: %w", method, errRateLimited)
	}
	if !verdict.OK {
		return fmt.Errorf("%s: %s", method, verdict.Error)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(data, into)
}

// cards are all rows.
func (d *desk) cards() ([]card, error) {
	var cards []card
	for cursor := ""; ; {
		var page struct {
			Items []struct {
				ID     string
				Parent string `json:"parent_record_id"`
				Fields []struct {
					Key      string
					RichText json.RawMessage `json:"rich_text"`
					Select   []string
					Number   []float64
					Checkbox *bool
				}
			}
			Meta struct {
				Next string `json:"next_cursor"`
			} `json:"response_metadata"`
		}
		if err := d.call("slackLists.items.list", url.Values{"limit": {"1000"}, "cursor": {cursor}}, &page); err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			c := card{ID: item.ID, Parent: item.Parent, cells: map[string]string{}}
			for _, f := range item.Fields {
				c.cells[f.Key] = boardtest.Text(f.RichText)
				if len(f.Select) > 0 {
					c.cells[f.Key] = f.Select[0]
				}
				if len(f.Number) > 0 {
					c.cells[f.Key] = strconv.FormatFloat(f.Number[0], 'f', -1, 64)
				}
				if f.Checkbox != nil {
					c.cells[f.Key] = fmt.Sprint(*f.Checkbox)
				}
			}
			cards = append(cards, c)
		}
		if cursor = page.Meta.Next; cursor == "" {
			return cards, nil
		}
	}
}

// cell is one cell as the API takes it, without its row.
func (d *desk) cell(key, value string) (map[string]any, error) {
	if d.columns == nil {
		var info struct {
			File struct {
				Meta struct {
					Schema []struct {
						column
						Key string
					}
				} `json:"list_metadata"`
			}
		}
		if err := d.call("files.info", url.Values{}, &info); err != nil {
			return nil, err
		}
		d.columns = map[string]column{}
		for _, c := range info.File.Meta.Schema {
			d.columns[c.Key] = c.column
		}
	}
	c, ok := d.columns[key]
	if !ok {
		return nil, fmt.Errorf("no column %s", key)
	}
	cell := map[string]any{"column_id": c.ID}
	switch c.Type {
	case "select":
		cell["select"] = []string{value}
		if value == "" {
			cell["select"] = []string{}
		}
	case "todo_completed":
		cell["checkbox"] = value == "true"
	default:
		cell["rich_text"] = []any{map[string]any{"type": "rich_text", "elements": []any{
			map[string]any{"type": "rich_text_section", "elements": []any{map[string]any{"type": "text", "text": value}}}}}}
		if value == "" {
			cell["rich_text"] = []any{}
		}
	}
	return cell, nil
}

// set edits a cell of some rows, in one call.
func (d *desk) set(key, value string, rows ...string) error {
	var cells []map[string]any
	for _, row := range rows {
		cell, err := d.cell(key, value)
		if err != nil {
			return err
		}
		cell["row_id"] = row
		cells = append(cells, cell)
	}
	data, err := json.Marshal(cells)
	if err != nil {
		return err
	}
	return d.call("slackLists.items.update", url.Values{"cells": {string(data)}}, nil)
}

// add types a row, with its cells as pairs of key and value.
func (d *desk) add(pairs ...string) error {
	var cells []map[string]any
	for i := 0; i < len(pairs); i += 2 {
		cell, err := d.cell(pairs[i], pairs[i+1])
		if err != nil {
			return err
		}
		cells = append(cells, cell)
	}
	data, err := json.Marshal(cells)
	if err != nil {
		return err
	}
	return d.call("slackLists.items.create", url.Values{"initial_fields": {string(data)}}, nil)
}

func (d *desk) remove(row string) error {
	return d.call("slackLists.items.deleteMultiple", url.Values{"ids": {`["` + row + `"]`}}, nil)
}

// line is a row as scripts compare it.
func (c *card) line() string {
	v := c.cells
	if c.Parent == "" {
		return fmt.Sprintf("%s %q status=%s agent=%s priority=%s remaining=%s completion=%s checked=%s reason=%q result=%q", v["task_id"], v["title"],
			v["status"], v["assignee"], v["priority"], v["subtasks_remaining"], v["completion"], v["todo_completed"], v["reason"], v["result"])
	}
	return fmt.Sprintf("  step %q status=%s checked=%s", v["title"], v["status"], v["todo_completed"])
}

// isTask reports whether a row is a task's, not a step's.
func (c *card) isTask() bool { return c.Parent == "" && strings.HasPrefix(c.cells["task_id"], "T-") }
