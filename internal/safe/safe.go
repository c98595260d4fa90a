// Package safe makes untrusted text harmless where it would be more than text:
// on a terminal and in a shell.
package safe

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape makes untrusted text harmless on a terminal: control characters, line
// ends, the characters that change the direction of text, and those that nobody sees are
// shown as \x1b, \n, \u202e or \u200b. Everything else stays as it is.
func Escape(s string) string {
	return escape(s, func(b *strings.Builder, r rune) {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(b, `\U%08x`, r)
		default:
			fmt.Fprintf(b, `\u%04x`, r)
		}
	})
}

// escape has write show the characters of s that must not be left in it.
func escape(s string, write func(*strings.Builder, rune)) string {
	var b strings.Builder
	prev, done := rune(0), 0 // done is up to where b has s
	for i, r := range s {
		if mustEscape(prev, r) {
			b.WriteString(s[done:i])
			write(&b, r)
			_, size := utf8.DecodeRuneInString(s[i:])
			done = i + size
		}
		prev = r
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

const (
	zwnj, zwj     = '\u200c', '\u200d'
	vowelSplitter = '\u180e' // of Mongolian
)

// mustEscape reports whether a character that stands after prev (0: at the beginning) is
// to be shown. Two titles that look alike must be alike, and nobody may hide words in one:
// so it is where nobody would see it. Joiners and variation selectors stay after what they
// change, since emoji (a family, a red heart), Persian, Indic and Mongolian words break
// without them: one of them, and none after Latin letters. Tags (U+E0020…) are shown,
// although the flags of England, Scotland and Wales need them: any text can hide in them.
func mustEscape(prev, r rune) bool {
	switch {
	case r < 0x80 || unicode.IsControl(r):
		return unicode.IsControl(r)
	case r == unicode.ReplacementChar, r == '\u2028', r == '\u2029':
		return true
	case r == zwj, r == zwnj:
		return !unicode.In(prev, joining...) && (r == zwnj || !unicode.In(prev, unicode.So, unicode.Sk) && prev != '\ufe0f')
	case r == vowelSplitter:
		return !unicode.Is(unicode.Mongolian, prev)
	case unicode.Is(unicode.Variation_Selector, r):
		return !unicode.IsGraphic(prev) || prev == ' ' || unicode.Is(unicode.Variation_Selector, prev)
	}
	return unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// joining are the scripts whose letters change their form beside a joiner.
var joining = []*unicode.RangeTable{
	unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Mandaic, unicode.Mongolian, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati,
	unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala, unicode.Khmer, unicode.Myanmar, unicode.Tibetan,
	unicode.Balinese, unicode.Javanese,
}

// Quote returns s as one word of a POSIX shell, in single quotes where it
// needs any.
func Quote(s string) string {
	plain := func(r rune) bool {
		return r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:=@%+,", r))
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Cut bounds a text, in code points.
func Cut(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}
