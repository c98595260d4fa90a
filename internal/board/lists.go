package board

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// maxLists is how many lists the board keeps; Slack's number is unpublished.
const maxLists = 1000

type createListReply struct {
	OK           bool          `json:"ok"`
	ListID       string        `json:"list_id"`
	ListMetadata *metadataJSON `json:"list_metadata,omitempty"`
}

// A listInput is what a new list is made of.
type listInput struct {
	name        string
	description json.RawMessage
	columns     []column
	todo        bool
	copyFrom    string
	withRows    bool
}

func (s *Server) listsCreate(c *call) (any, error) {
	in, err := c.listInput()
	if err != nil {
		return nil, err
	}
	var made *list
	err = s.store.do(c.who.UserID, func(t *tx) error {
		if t.countLists() >= maxLists {
			return refuse("over_list_file_maximum")
		}
		if in.copyFrom != "" {
			made, err = s.copyList(t, c, in)
			return err
		}
		made = t.newList(in)
		t.putList(made)
		return nil
	})
	if err != nil {
		return nil, err
	}
	reply := createListReply{OK: true, ListID: made.ID}
	bare := !c.has("schema") && !c.has("description_blocks") && !in.todo && in.copyFrom == ""
	if !bare && !c.quirks.OmitListMetadata {
		reply.ListMetadata = schemaOf(made)
	}
	return reply, nil
}

func (c *call) listInput() (listInput, error) {
	in := listInput{
		name:     c.required("name"),
		todo:     c.flag("todo_mode"),
		copyFrom: c.text("copy_from_list_id"),
		withRows: c.flag("include_copied_list_records"),
	}
	description, schema := c.array("description_blocks"), c.raw("schema")
	if err := c.err(); err != nil {
		return in, err
	}
	var err error
	switch {
	case utf8.RuneCountInString(in.name) > maxTitleLength:
		return in, refuse("over_title_length_maximum")
	case schema != nil && in.copyFrom != "":
		return in, refuse("invalid_copy_and_schema_args")
	case in.withRows && in.copyFrom == "":
		return in, refuse("missing_arg_copy_from_list_id")
	case schema != nil:
		if in.columns, err = parseSchema(schema); err != nil {
			return in, err
		}
	default:
		in.columns = []column{{ID: newColumnID(), Name: "Name", Key: "name", Type: "text", Primary: true}}
	}
	if in.todo && in.copyFrom == "" && len(in.columns)+len(todoColumns()) > maxColumns {
		return in, refuse("over_column_maximum")
	}
	in.description, err = parseDescription(description)
	return in, err
}

// parseDescription checks the blocks of a list's description.
func parseDescription(blocks []json.RawMessage) (json.RawMessage, error) {
	stored, err := normalizeBlocks(blocks)
	if err != nil {
		return nil, refuse("invalid_arguments", "description_blocks must be rich_text blocks")
	}
	return stored, nil
}

// newList makes a list owned by the actor; it is not put yet.
func (t *tx) newList(in listInput) *list {
	id := newListID()
	for t.findList(id) != nil {
		id = newListID()
	}
	l := &list{
		ID: id, Num: newNum(), Name: in.name, Description: in.description,
		Columns: in.columns, View: newViewID(),
		Owner: t.actor, Created: t.now, CreatedBy: t.actor,
	}
	for _, c := range l.Columns {
		if c.Primary {
			l.Subtask = append(l.Subtask, c.ID)
		}
	}
	if in.todo {
		l.setTodo(true)
	}
	return l
}

// copyList makes a list with the columns of another, and on demand its rows.
// Column ids stay: they are not unique across lists.
func (s *Server) copyList(t *tx, c *call, in listInput) (*list, error) {
	source, err := c.who.readable(t, in.copyFrom)
	if err != nil {
		return nil, refuse("permission_denied", "copy_from_list_id names no list you can read")
	}
	from := source.clone()
	in.columns = from.Columns
	l := t.newList(in)
	l.Subtask, l.Todo, l.CopiedFrom = from.Subtask, from.Todo, source.ID
	if in.description == nil {
		l.Description = from.Description
	}
	if in.todo {
		l.setTodo(true)
	}
	if len(l.visible()) > maxColumns {
		return nil, refuse("over_column_maximum")
	}
	t.putList(l)
	if in.withRows {
		copyRows(t, source.ID, l.ID)
	}
	return l, nil
}

// copyRows copies the rows that are not archived, subtasks to their parents.
func copyRows(t *tx, from, to string) {
	ids := make(map[string]string) // old id → new id
	for _, steps := range []bool{false, true} {
		for _, old := range t.allRows(from) {
			if old.Archived || (old.Parent != "") != steps {
				continue
			}
			r := old.clone()
			r.List, r.ID, r.Num = to, t.freeRowID(to), newNum()
			// A nanosecond each keeps their order.
			r.Created, r.CreatedBy = t.now.Add(time.Duration(len(ids))), t.actor
			r.Updated, r.UpdatedBy = r.Created, t.actor
			r.Parent = ids[old.Parent]
			ids[old.ID] = r.ID
			t.putRow(r)
		}
	}
}

func (s *Server) listsUpdate(c *call) (any, error) {
	id, name := c.required("id"), c.text("name")
	description := c.array("description_blocks")
	setTodo, todo := c.has("todo_mode"), c.flag("todo_mode")
	if err := c.err(); err != nil {
		return nil, err
	}
	if name == "" && description == nil && !setTodo {
		return nil, refuse("missing_arguments")
	}
	if utf8.RuneCountInString(name) > maxTitleLength {
		return nil, refuse("over_title_length_maximum")
	}
	blocks, err := parseDescription(description)
	if err != nil {
		return nil, err
	}
	err = s.store.do(c.who.UserID, func(t *tx) error {
		found, err := c.writable(t, id)
		if err != nil {
			return err
		}
		l := found.clone()
		if name != "" {
			l.Name = name
		}
		if description != nil {
			l.Description = blocks
		}
		if setTodo {
			l.setTodo(todo)
		}
		if len(l.visible()) > maxColumns {
			return refuse("list_edits_update_error", "too many columns for the todo columns")
		}
		t.putList(l)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return okAnswer, nil
}
