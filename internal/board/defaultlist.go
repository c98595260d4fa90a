package board

import "strings"

// A columnSpec describes a column of the default list.
type columnSpec struct {
	name    string
	kind    string
	choices []string // values; labelOf makes the labels
}

// openColumn is the name of the column that takes new names as options.
const openColumn = "Assignee"

// defaultColumns are the columns that OTM works with, in order. The three todo
// columns follow; one of them is named Assignee too, as in Slack.
func defaultColumns() []columnSpec {
	return []columnSpec{
		{name: "Title", kind: "text"},
		{name: "Task ID", kind: "text"},
		{name: "Type", kind: "select", choices: []string{"action", "decision", "review"}},
		{name: openColumn, kind: "select"},
		{name: "Project 2", kind: "text"},
		{name: "Priority", kind: "select", choices: []string{"critical", "high", "normal", "low", "batchable"}},
		{name: "Status", kind: "select", choices: []string{
			"new", "assigned", "pending", "in_progress", "blocked", "agent_done",
			"done", "rejected", "failed", "cancelled", "dormant", "archived",
		}},
		{name: "Subtasks remaining", kind: "number"},
		{name: "Completion", kind: "number"},
		{name: "Assigned at", kind: "text"},
		{name: "Completed at", kind: "text"},
		{name: "Reason", kind: "text"},
		{name: "Result", kind: "text"},
	}
}

// newDefaultList makes the list of a fresh store.
func newDefaultList(assignees []string) *List {
	l := &List{ID: newID("F"), Num: newNum(), Name: "OTM", Default: true}
	for i, spec := range defaultColumns() {
		key := strings.ReplaceAll(strings.ToLower(spec.name), " ", "_")
		c := Column{ID: newID("Col"), Name: spec.name, Key: key, Type: spec.kind, Primary: i == 0}
		if spec.kind == "select" {
			c.Options = &ColumnOptions{Choices: []Choice{}, Format: "single_select"}
		}
		for _, value := range spec.choices {
			c.AddChoice(value, labelOf(value))
		}
		if spec.name == openColumn {
			l.OpenColumn = c.ID
			for _, name := range assignees {
				c.AddChoice(name, name)
			}
		}
		l.Columns = append(l.Columns, c)
	}
	l.AddTodoColumns()
	return l
}

// labelOf writes a value as people read it: in_progress is In Progress.
func labelOf(value string) string {
	words := strings.Split(value, "_")
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, " ")
}
