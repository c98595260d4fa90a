package config

import (
	"errors"
	"testing"
)

// What people write stays: comments, line ends, order, other tables.
func TestSet(t *testing.T) {
	t.Parallel()
	values := []Value{{"list_id", "F1"}, {"token_file", "secrets/slack"}}
	const set = "list_id = \"F1\"\ntoken_file = \"secrets/slack\"\n"
	for _, tt := range []struct{ name, before, after string }{
		{"nothing", "", "\n[slack]\n" + set},
		{"without the table", "# mine\n[board]\nlisten = \"x\"\n", "# mine\n[board]\nlisten = \"x\"\n\n[slack]\n" + set},
		{"without a last line end", "[board]", "[board]\n\n[slack]\n" + set},
		{"an empty table", "[slack]\n", "[slack]\n" + set},
		{"a last line [slack] without its end", "[board]\n[slack]", "[board]\n[slack]\n" + set},
		{"another key", "[slack] # here\nbudget = 0.5\n[board]\n", "[slack] # here\n" + set + "budget = 0.5\n[board]\n"},
		{"replaced, with comments", "[slack]\nlist_id = 'F0' # the old one\n  token_file=\"x\\\"y\" # \"mine\"\n",
			"[slack]\nlist_id = \"F1\" # the old one\n  token_file=\"secrets/slack\" # \"mine\"\n"},
		{"quoted names", "[ \"slack\" ]\n\"list_id\" = \"F0\"\n'token_file' = \"x\"\n", "[ \"slack\" ]\n\"list_id\" = \"F1\"\n'token_file' = \"secrets/slack\"\n"},
		{"of Windows", "[slack]\r\nlist_id = \"F0\" # c\r\n[board]\r\n", "[slack]\r\ntoken_file = \"secrets/slack\"\r\nlist_id = \"F1\" # c\r\n[board]\r\n"},
		{"subtables", "[slack.columns]\ntitle = \"T\"\n", "[slack.columns]\ntitle = \"T\"\n\n[slack]\n" + set},
		{"of another table", "[gateway]\ntoken_file = \"g\"\n[slack]\n[agents.a]\ntoken_file = 'a'\n", "[gateway]\ntoken_file = \"g\"\n[slack]\n" + set + "[agents.a]\ntoken_file = 'a'\n"},
	} {
		got, err := Set([]byte(tt.before), "slack", values)
		if err != nil || string(got) != tt.after {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.after)
		}
		again, err := Set(got, "slack", values)
		if err != nil || string(again) != string(got) {
			t.Errorf("%s, again: %q, %v", tt.name, again, err)
		}
	}
}

// What is not understood is not edited.
func TestSetUnusual(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"inline":             "slack = { list_id = \"F0\" }\n",
		"dotted":             "slack.list_id = \"F0\"\n",
		"text over lines":    "[slack]\nlist_id = \"\"\"F0\"\"\"\n",
		"a table in a text":  "x = '''\n[slack]\n'''\n[slack]\nbudget = 1.0\n",
		"no text":            "[slack]\nlist_id = 7\n",
		"not a table":        "slack = 1\n",
		"a list of tables":   "[[slack]]\n",
		"broken":             "[slack\n",
		"the key in a table": "[slack]\nlist_id.x = \"y\"\n",
	} {
		if got, err := Set([]byte(text), "slack", []Value{{"list_id", "F1"}}); !errors.Is(err, ErrUnusual) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func FuzzSet(f *testing.F) {
	f.Add("[slack]\nlist_id = 'x' # c\r\n", "F1")
	f.Add("x = '''\n[slack]\n'''", "\"\n")
	f.Fuzz(func(t *testing.T, text, value string) {
		after, err := Set([]byte(text), "slack", []Value{{"list_id", value}})
		if err != nil {
			return
		}
		again, err := Set(after, "slack", []Value{{"list_id", value}})
		if err != nil || string(again) != string(after) {
			t.Errorf("of %q: %q, then %q, %v", text, after, again, err)
		}
	})
}
