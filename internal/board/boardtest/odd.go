package boardtest

import (
	"encoding/json"
)

// An OddBody is a way in which one item of a page can be odd. The item stays
// an object with an id; what is odd about it has been seen, or is documented
// in contradiction to what has been seen (facts 10.3).
type OddBody struct {
	// Name says what is odd.
	Name string
	// Edit makes the decoded item odd.
	Edit func(item map[string]any)
}

// OddBodies are all odd items the facts know of. A client must show the other
// rows of the page in spite of any of them.
func OddBodies() []OddBody {
	field := func(name string, value any) func(map[string]any) {
		return func(item map[string]any) {
			fields, _ := item["fields"].([]any)
			item["fields"] = append(fields, map[string]any{"key": "odd", "column_id": "Col0ODD", name: value})
		}
	}
	set := func(name string, value any) func(map[string]any) {
		return func(item map[string]any) { item[name] = value }
	}
	return []OddBody{
		{"checkbox as an array", field("checkbox", []any{true})},
		{"checkbox null", field("checkbox", nil)},
		{"message as an object", field("message", map[string]any{"value": "https://ws.slack.com/archives/C1/p1"})},
		{"message as strings", field("message", []any{"https://ws.slack.com/archives/C1/p1"})},
		{"rating with a fraction", field("rating", []any{json.Number("4.5")})},
		{"rating written 4.0", field("rating", []any{json.Number("4.0")})},
		{"timestamp with a fraction", field("timestamp", []any{json.Number("1.5")})},
		{"number as a string", field("number", []any{"3"})},
		{"select as an object", field("select", map[string]any{"value": "done"})},
		{"value as an array", field("value", []any{"a"})},
		{"unknown typed key", field("vote", []any{map[string]any{"user": "U1"}})},
		{"updated_timestamp as a number", set("updated_timestamp", json.Number("2"))},
		{"date_created as a string", set("date_created", "2")},
		{"date_created with a fraction", set("date_created", json.Number("2.5"))},
		{"fields null", set("fields", nil)},
		{"unknown keys", set("view_positions", []any{map[string]any{"position": json.Number("5000")}})},
		{"no created_by and updated_by", func(item map[string]any) {
			delete(item, "created_by")
			delete(item, "updated_by")
		}},
	}
}

// Odd makes the item with the index odd in every items.list page that has so
// many.
func Odd(body OddBody, index int) Fault {
	return Rewrite("odd item: "+body.Name, func(answer map[string]any) {
		items, _ := answer["items"].([]any)
		if index >= len(items) {
			return
		}
		if item, ok := items[index].(map[string]any); ok {
			body.Edit(item)
		}
	})
}

// OddErrors adds an errors array of the wrong shape to an error answer, under
// which some clients lose the code.
func OddErrors(code string) Fault {
	return Body("odd errors", `{"ok":false,"error":"`+code+`","errors":[{"foo":1}]}`)
}

// OddList makes the list object of a page odd: integrations are no array, and a
// view's position is a number.
func OddList() Fault {
	return Rewrite("odd list object", func(answer map[string]any) {
		list, _ := answer["list"].(map[string]any)
		if list == nil {
			list, _ = answer["file"].(map[string]any)
		}
		meta, _ := list["list_metadata"].(map[string]any)
		if meta == nil {
			return
		}
		meta["integrations"] = map[string]any{}
		meta["views"] = []any{map[string]any{"id": "View0ODD", "position": json.Number("5000")}}
	})
}
