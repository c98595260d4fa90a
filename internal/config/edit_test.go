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
		{"nothing", "", "[slack]\n" + set},
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
		{"of Windows, added at the end", "[board]\r\nlisten = \"x\"", "[board]\r\nlisten = \"x\"\r\n\r\n[slack]\r\nlist_id = \"F1\"\r\ntoken_file = \"secrets/slack\"\r\n"},
		{"of Windows here alone", "# c\n[slack]\r\n[board]\n", "# c\n[slack]\r\nlist_id = \"F1\"\r\ntoken_file = \"secrets/slack\"\r\n[board]\n"},
		{"a mark in front", "\xef\xbb\xbf[slack]\n", "\xef\xbb\xbf[slack]\n" + set},
		{"a mark alone", "\xef\xbb\xbf", "\xef\xbb\xbf[slack]\n" + set},
		{"a table in a text", "x = '''\n[slack]\n'''\n[slack]\nbudget = 1.0\n", "x = '''\n[slack]\n'''\n[slack]\n" + set + "budget = 1.0\n"},
		{"a table in a text alone", "x = '''\n[slack]\nlist_id = 'F0'\n'''", "x = '''\n[slack]\nlist_id = 'F0'\n'''\n\n[slack]\n" + set},
		{"a table in a comment", "# [slack]\n# list_id = \"F0\"\n", "# [slack]\n# list_id = \"F0\"\n\n[slack]\n" + set},
		{"texts over lines", "[slack]\nlist_id = \"\"\"F\n0\"\"\" # c\ntoken_file = '''x'''\n", "[slack]\nlist_id = \"F1\" # c\ntoken_file = \"secrets/slack\"\n"},
		{"an escaped name", "[\"sl\\u0061ck\"] # c\n", "[\"sl\\u0061ck\"] # c\n" + set},
		{"dotted", "# c\n  slack.list_id = \"F0\" # d\n[board]\n", "# c\nslack.token_file = \"secrets/slack\"\n  slack.list_id = \"F1\" # d\n[board]\n"},
		{"dotted, deeper", "slack.columns.title = \"T\"\n[board]\n", "slack.list_id = \"F1\"\nslack.token_file = \"secrets/slack\"\nslack.columns.title = \"T\"\n[board]\n"},
		{"dotted, without a line end", "slack.budget = 1", "slack.list_id = \"F1\"\nslack.token_file = \"secrets/slack\"\nslack.budget = 1"},
		{"inline", "slack = { budget = 0.5 } # c\n", "slack = { list_id = \"F1\", token_file = \"secrets/slack\", budget = 0.5 } # c\n"},
		{"inline, replaced", "slack = {token_file='x', columns.title = \"T\", list_id=\"F0\"}", "slack = {token_file=\"secrets/slack\", columns.title = \"T\", list_id=\"F1\"}"},
		{"inline, empty", "slack = {}\n", "slack = { list_id = \"F1\", token_file = \"secrets/slack\" }\n"},
		{"inline, over lines", "slack = { # c\n  budget = 1,\n}\n", "slack = { list_id = \"F1\", token_file = \"secrets/slack\", # c\n  budget = 1,\n}\n"},
		{"an array before the next table", "[slack]\nx = [\n[\"slack\"],\n]\nlist_id = \"F0\"\n", "[slack]\ntoken_file = \"secrets/slack\"\nx = [\n[\"slack\"],\n]\nlist_id = \"F1\"\n"},
		{"the key of a subtable", "[slack]\n[slack.columns]\nlist_id = \"T\"\n", "[slack]\n" + set + "[slack.columns]\nlist_id = \"T\"\n"},
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
		"inline, no text":    "slack = { list_id = 7 }\n",
		"dotted, no text":    "slack.list_id = 7\n",
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

// What would be read as something else is refused: the parser is the judge.
func TestSetIsJudged(t *testing.T) {
	t.Parallel()
	for _, v := range []Value{{"columns.title", "T"}, {"a = 1\nlist_id", "F1"}, {"list_id", "\xff"}, {"list_id", "\a"}} {
		if got, err := Set([]byte("[slack]\n"), "slack", []Value{v}); !errors.Is(err, ErrUnusual) {
			t.Errorf("%q: %q, %v", v, got, err)
		}
	}
}

// What the configuration is read from can be edited, and edited again nothing
// changes.
func FuzzSet(f *testing.F) {
	f.Add("[slack]\r\nlist_id = 'x' # c\r\n")
	f.Add("[agents.a]\nlabel = '''\n[slack]\n'''\nkind = \"human\"")
	f.Add("slack = { budget = 1 }")
	f.Add("\xef\xbb\xbfslack.columns.title = \"T\"")
	f.Fuzz(func(t *testing.T, text string) {
		values := []Value{{"list_id", "F0123456789"}, {"token_file", "secrets/slack"}}
		after, err := Set([]byte(text), "slack", values)
		if _, perr := Parse("/data", []byte(text), func(string) string { return "" }); err != nil {
			if perr == nil {
				t.Errorf("%q is read, but not edited: %v", text, err)
			}
			return
		}
		again, err := Set(after, "slack", values)
		if err != nil || string(again) != string(after) {
			t.Errorf("of %q: %q, then %q, %v", text, after, again, err)
		}
	})
}
