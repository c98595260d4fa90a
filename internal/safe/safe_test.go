package safe

import (
	"os/exec"
	"strings"
	"testing"
	"unicode"
)

func TestEscape(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"plain", "Build login page", "Build login page"},
		{"empty", "", ""},
		{"quotes and backslash", `" ' \ $(id)`, `" ' \ $(id)`},
		{"emoji and accents", "🦊 é 日本 שלום", "🦊 é 日本 שלום"},
		{"line ends", "a\nb\r\nc\td", `a\nb\r\nc\td`},
		{"escape and bell", "\x1b[31mred\x1b]0;x\x07", `\x1b[31mred\x1b]0;x\x07`},
		{"NUL and delete", "\x00\x7f", `\x00\x7f`},
		{"C1", "\u009b31m", `\u009b31m`},
		{"right-to-left override", "a\u202eb", `a\u202eb`},
		{"isolates and marks", "\u2066\u2069\u200e\u200f\u061c", `\u2066\u2069\u200e\u200f\u061c`},
		{"separators", "a\u2028b\u2029", `a\u2028b\u2029`},
		{"zero width", "a\u200bb\u2060c\ufeffd\u00ade\u180ef", `a\u200bb\u2060c\ufeffd\u00ade\u180ef`},
		{"joiners that change nothing", "ad\u200cmin ad\u200dmin \u200d", `ad\u200cmin ad\u200dmin \u200d`},
		{"joined emoji", "👩\u200d🚀 👨🏽\u200d💻 🏳️\u200d🌈 ❤️", "👩\u200d🚀 👨🏽\u200d💻 🏳️\u200d🌈 ❤️"},
		{"Persian, Hindi, Mongolian, Arabic number sign", "می\u200cخواهم क्\u200dष ᠬᠠ\u180eᠠ \u0600١", "می\u200cخواهم क्\u200dष ᠬᠠ\u180eᠠ \u0600١"},
		{"joiners in a row", "👩\u200d\u200d🚀 م\u200c\u200cخ", `👩` + "\u200d" + `\u200d🚀 م` + "\u200c" + `\u200cخ`},
		{"words in selectors and tags", "😀\ufe0f\ufe01\U000e0101 🏴\U000e0067\U000e007f", "😀\ufe0f" + `\ufe01\U000e0101 🏴\U000e0067\U000e007f`},
		{"fillers", "\u3164\u115f\u034f", `\u3164\u115f\u034f`},
		{"invalid UTF-8", "a\xffb", `a\ufffdb`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Escape(tt.in); got != tt.want {
				t.Errorf("Escape(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

// TestEscapeLeavesNothing looks at every character: what is left must not move
// a cursor, end a line, turn text around or be invisible.
func TestEscapeLeavesNothing(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		for _, c := range Escape(string(r)) {
			if unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) || unicode.Is(unicode.Zl, c) || unicode.Is(unicode.Zp, c) ||
				unicode.In(c, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) ||
				unicode.Is(unicode.Cf, c) && !unicode.Is(unicode.Prepended_Concatenation_Mark, c) {
				t.Errorf("Escape(%q) = %q", string(r), Escape(string(r)))
			}
		}
	}
}

var words = []string{
	"plain", "", "two words", "it's", `"double"`, "$(id)", "`id`", "${HOME}", "a;b", "a&b", "a|b", "a>b", "*", "?", "~", "~root", "-x", "--title",
	`back\slash`, "a\nb", "a\tb", "'", "''", "é", "🦊", "!x", "#x", "a=b", "T-00035", "/a/b.c", "a@b:c,d+e%f", "\x1b[31m", "[x]", "{a,b}", "(x)", "\u00a0",
}

// TestQuoteInAShell has a shell take the words apart again.
func TestQuoteInAShell(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs a POSIX shell")
	}
	var line strings.Builder
	line.WriteString(`printf '%s\001'`)
	for _, w := range words {
		line.WriteString(" " + Quote(w))
	}
	out, err := exec.Command(sh, "-c", line.String()).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(out), "\x01"), "\x01")
	if len(got) != len(words) {
		t.Fatalf("the shell saw %d words, want %d", len(got), len(words))
	}
	for i, want := range words {
		if got[i] != want {
			t.Errorf("the shell made %q of Quote(%q) = %s", got[i], want, Quote(want))
		}
	}
}

func TestQuoteIsPlainWhereItCan(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"T-00035": "T-00035", "in_progress": "in_progress", "/a/b.c": "/a/b.c", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "é": "'é'", "a=b": "a=b",
	} {
		if got := Quote(in); got != want {
			t.Errorf("Quote(%q) = %s, want %s", in, got, want)
		}
	}
}
