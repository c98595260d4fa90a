package board

import (
	"encoding/json"
	"maps"
)

// MethodNames are all methods of the API.
func MethodNames() (names []string) {
	for _, m := range methods() {
		names = append(names, m.name)
	}
	return names
}

// The edits below are those of boardtest.Server, for tests inside the package.

type cellJSON map[string]any

func textCell(columnID, text string) cellJSON {
	return cellJSON{"column_id": columnID, "rich_text": []any{map[string]any{
		"type": "rich_text",
		"elements": []any{map[string]any{
			"type":     "rich_text_section",
			"elements": []any{map[string]any{"type": "text", "text": text}},
		}},
	}}}
}

func cellsJSON(rowID string, cells []cellJSON) json.RawMessage {
	named := make([]cellJSON, len(cells))
	for i, c := range cells {
		named[i] = cellJSON{"row_id": rowID}
		maps.Copy(named[i], c)
	}
	raw, err := json.Marshal(named)
	if err != nil {
		panic(err)
	}
	return raw
}

func (s *Server) add(parent string, cells ...cellJSON) (id string, err error) {
	err = s.Edit(HumanUser, func(t *Tx) error {
		r, err := t.Create(t.List(s.store.listID), parent, cellsJSON("", cells))
		if err == nil {
			id = r.ID
		}
		return err
	})
	return id, err
}

func (s *Server) remove(rowID string) error {
	return s.Edit(HumanUser, func(t *Tx) error { t.Delete(t.Row(s.store.listID, rowID)); return nil })
}

func (s *Server) columns() (columns []Column) {
	if err := s.View(func(t *Tx) error { columns = t.List(s.ListID()).Columns; return nil }); err != nil {
		panic(err)
	}
	return columns
}

// text is the text of a cell's blocks.
func text(blocks json.RawMessage) string {
	var parsed []struct{ Elements []element }
	if err := json.Unmarshal(blocks, &parsed); err != nil || len(parsed) == 0 {
		return ""
	}
	return parsed[0].Elements[0].Elements[0].Text
}
