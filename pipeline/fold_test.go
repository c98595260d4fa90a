package pipeline

import (
	"strings"
	"testing"
	"unicode"
)

func TestFoldName(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"spaces", "In Progress", "in_progress"},
		{"hyphen", "in-progress", "in_progress"},
		{"underscore", "IN_PROGRESS", "in_progress"},
		{"runs", " in - _ progress ", "in_progress"},
		{"tab and no-break space", "in\tprogress\u00a0now", "in_progress_now"},
		{"empty", "", ""},
		{"blanks only", " -_ ", ""},
		{"composed", "Jos\u00e9", "jos\u00e9"},
		{"decomposed", "Jose\u0301", "jos\u00e9"},
		{"decomposed capital", "JOSE\u0301", "jos\u00e9"},
		{"composed in lower case alone", "J\u030c", "\u01f0"},
		{"sigma", "ΟΔΟΣ", "οδοσ"},
		{"final sigma", "οδος", "οδοσ"},
		{"Kelvin sign", "\u212a", "k"},
		{"emoji", "🦊 Fox", "🦊_fox"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := FoldName(tt.in); got != tt.want {
				t.Errorf("FoldName(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

// A name that needs no folding is told from others without folding it: that changes nothing.
func TestFoldNameOfFolded(t *testing.T) {
	t.Parallel()
	names := []string{""}
	for range 4 {
		for _, name := range names {
			for _, c := range "az0._- A\u00e9" {
				names = append(names, name+string(c))
			}
		}
	}
	for _, name := range names {
		if got, want := FoldName(name), FoldName(name+" "); got != want {
			t.Fatalf("FoldName(%q) = %q, with a space behind it %q", name, got, want)
		}
	}
}

func TestFoldTitle(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"trimmed", "  Create Form ", "create form"},
		{"white space", "Create\t\n form", "create form"},
		{"hyphen stays", "re-do", "re-do"},
		{"underscore stays", "a_b", "a_b"},
		{"decomposed", "CAFE\u0301", "caf\u00e9"},
		{"blank", " \u00a0 ", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := FoldTitle(tt.in); got != tt.want {
				t.Errorf("FoldTitle(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

// TestFoldIsStable holds every character that has case or composes, alone and
// with a mark, against folding twice: what is compared must not depend on how
// often it was folded.
func TestFoldIsStable(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= 0x1ffff; r++ {
		if !unicode.IsLetter(r) && !unicode.IsMark(r) {
			continue
		}
		for _, s := range []string{string(r), string(r) + "\u030c"} {
			if once := FoldTitle(s); FoldTitle(once) != once {
				t.Errorf("FoldTitle(%q) = %q, and folded again %q", s, once, FoldTitle(once))
			}
		}
	}
}

func TestCaseB16ComposedAndDecomposedNamesMatch(t *testing.T) {
	t.Parallel()
	agents := Agents{{Name: "Jos\u00e9", Label: "Jos\u00e9"}}
	if a := agents.Named("Jose\u0301"); a == nil {
		t.Error("the decomposed name of an agent does not match the composed one")
	}
	steps := []Step{{Title: "Visit the Cafe\u0301"}}
	if i := FindStep(steps, "Visit the Caf\u00e9"); i != 0 {
		t.Errorf("FindStep of the composed title = %d, want 0", i)
	}
}

func TestValidAgentName(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		want     bool
	}{
		{"plain", "devdas", true},
		{"digits first", "7of9", true},
		{"inner punctuation", "dev.das-2_b c", true},
		{"composed", "Jos\u00e9", true},
		{"decomposed", "Jose\u0301", true},
		{"Devanagari with marks", "देवदास", true},
		{"64 characters", strings.Repeat("a", 64), true},
		{"65 characters", strings.Repeat("a", 65), false},
		{"64 characters of three bytes", strings.Repeat("देव", 21) + "द", true},
		{"64 characters of four bytes", strings.Repeat("𐌰", 64), false},
		{"empty", "", false},
		{"blank", " ", false},
		{"blank behind", "devdas ", false},
		{"dot", ".", false},
		{"dots", "..", false},
		{"hidden", ".devdas", false},
		{"parent", "../x", false},
		{"slash", "a/b", false},
		{"backslash", `a\b`, false},
		{"option", "-x", false},
		{"option of two", "--x", false},
		{"NUL", "a\x00", false},
		{"line feed", "a\nb", false},
		{"tab", "a\tb", false},
		{"escape", "a\x1b[31m", false},
		{"right-to-left override", "a\u202eb", false},
		{"no-break space", "a\u00a0b", false},
		{"dollar", "$(id)", false},
		{"backtick", "`id`", false},
		{"quote", "a'b", false},
		{"invalid UTF-8", "a\xff", false},
		{"mark first", "\u0301a", false},
		{"emoji", "🦊", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := ValidAgentName(tt.in); got != tt.want {
				t.Errorf("ValidAgentName(%q) = %v, want %v", tt.in, got, tt.want)
			}
		})
	}
}

func TestCleanName(t *testing.T) {
	t.Parallel()
	if got := CleanName("Jose\u0301"); got != "Jos\u00e9" {
		t.Errorf("CleanName of a decomposed name = %q, want it composed", got)
	}
}

func FuzzFold(f *testing.F) {
	for _, s := range []string{"In Progress", "Cafe\u0301", "J\u030c", "İı", "a\xffb", "\u00a0-_"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, fold := range map[string]func(string) string{"FoldName": FoldName, "FoldTitle": FoldTitle} {
			if once := fold(s); fold(once) != once {
				t.Errorf("%s(%q) = %q, and folded again %q", name, s, once, fold(once))
			}
		}
	})
}
