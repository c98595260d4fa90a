package board

import (
	"encoding/json"
	"slices"
)

// maxCells is how many cells one items.update carries (facts 1.7).
const maxCells = 100

type itemReply struct {
	OK   bool            `json:"ok"`
	Item json.RawMessage `json:"item"`
}

func (s *Server) itemsCreate(c *call) (any, error) {
	listID := c.required("list_id")
	in := rowInput{parent: c.text("parent_item_id"), duplicated: c.text("duplicated_item_id")}
	fields := c.array("initial_fields")
	if err := c.err(); err != nil {
		return nil, err
	}
	var err error
	if in.cells, err = parseCells(fields); err != nil {
		return nil, err
	}
	var l *list
	var r *row
	err = s.store.do(c.who.UserID, func(t *tx) error {
		var err error
		if l, err = c.writable(t, listID); err != nil {
			return err
		}
		r, err = s.createRow(t, l, in, c.quirks)
		return err
	})
	if err != nil {
		return nil, err
	}
	if c.quirks.OmitParentOnCreate {
		r = r.clone()
		r.Parent = ""
	}
	return itemReply{true, itemBytes(l, r)}, nil
}

func parseCells(raws []json.RawMessage) ([]cellInput, error) {
	cells := make([]cellInput, 0, len(raws))
	for _, raw := range raws {
		in, err := parseCell(raw)
		if err != nil {
			return nil, err
		}
		cells = append(cells, in)
	}
	return cells, nil
}

func (s *Server) itemsUpdate(c *call) (any, error) {
	listID := c.required("list_id")
	raws := c.array("cells")
	if n := len(raws); n == 0 {
		c.missing("cells")
	} else if n > maxCells {
		c.problem("must have at most %d elements: cells", maxCells)
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	cells, err := parseCells(raws)
	if err != nil {
		return nil, err
	}
	cells, partial, err := c.bend(cells)
	if err != nil {
		return nil, err
	}
	err = s.store.do(c.who.UserID, func(t *tx) error {
		l, err := c.writable(t, listID)
		if err != nil {
			return err
		}
		return s.updateCells(t, l, cells, c.quirks)
	})
	if err == nil && partial {
		err = refuse("internal_error")
	}
	if err != nil {
		return nil, err
	}
	return okAnswer, nil
}

// bend applies the quirks of items.update to its cells. If partial, the call
// has to fail after the cells that are left were applied.
func (c *call) bend(cells []cellInput) (bent []cellInput, partial bool, err error) {
	first := cells[0].row
	other := func(in cellInput) bool { return in.row != first }
	if c.quirks.RefuseMultiRow && slices.ContainsFunc(cells, other) {
		return nil, false, refuse("invalid_arguments", "cells name more than one row")
	}
	if c.quirks.FirstRowOnly {
		cells = slices.DeleteFunc(cells, other)
	}
	if n := c.quirks.PartialUpdateCells; n > 0 && len(cells) > n {
		return cells[:n], true, nil
	}
	return cells, false, nil
}

func (s *Server) itemsDelete(c *call) (any, error) {
	listID, id := c.required("list_id"), c.required("id")
	if err := c.err(); err != nil {
		return nil, err
	}
	err := s.store.do(c.who.UserID, func(t *tx) error {
		if _, err := c.writable(t, listID); err != nil {
			return err
		}
		r := t.findRow(listID, id)
		if r == nil {
			return refuse("record_not_found")
		}
		deleteRow(t, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return okAnswer, nil
}

// itemsDeleteMultiple deletes those of the rows that are there and says
// nothing about the others.
func (s *Server) itemsDeleteMultiple(c *call) (any, error) {
	listID := c.required("list_id")
	ids := c.strings("ids")
	if len(ids) == 0 {
		c.missing("ids")
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	err := s.store.do(c.who.UserID, func(t *tx) error {
		if _, err := c.writable(t, listID); err != nil {
			return err
		}
		for _, id := range ids {
			if r := t.findRow(listID, id); r != nil {
				deleteRow(t, r)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return okAnswer, nil
}

type infoReply struct {
	OK       bool              `json:"ok"`
	List     *fileJSON         `json:"list"`
	Record   json.RawMessage   `json:"record"`
	Subtasks []json.RawMessage `json:"subtasks"`
	Parent   json.RawMessage   `json:"parent_task,omitempty"`
}

func (s *Server) itemsInfo(c *call) (any, error) {
	listID, id := c.required("list_id"), c.required("id")
	subscribed := c.flag("include_is_subscribed")
	if err := c.err(); err != nil {
		return nil, err
	}
	var reply infoReply
	var err error
	s.store.view(func(st *state) { reply, err = s.infoOf(c, st, listID, id) })
	if err != nil {
		return nil, err
	}
	if subscribed {
		// Nobody can subscribe here. The capacity is cut, as the bytes are the
		// cache's.
		last := len(reply.Record) - 1
		reply.Record = append(reply.Record[:last:last], `,"is_subscribed":false}`...)
	}
	return reply, nil
}

func (s *Server) infoOf(c *call, st *state, listID, id string) (infoReply, error) {
	l, err := c.who.readable(st, listID)
	if err != nil {
		return infoReply{}, err
	}
	sh := st.shelves[listID]
	r := sh.rows[id]
	if r == nil {
		if _, gone := sh.gone[id]; gone {
			return infoReply{}, refuse("record_deleted")
		}
		return infoReply{}, refuse("record_not_found")
	}
	reply := infoReply{OK: true, List: s.fileOf(c, sh), Record: itemBytes(l, r), Subtasks: []json.RawMessage{}}
	for _, kid := range sh.children(id) {
		reply.Subtasks = append(reply.Subtasks, itemBytes(l, kid))
	}
	if parent := sh.rows[r.Parent]; parent != nil {
		reply.Parent = itemBytes(l, parent)
	}
	return reply, nil
}
