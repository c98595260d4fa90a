// Package safe makes untrusted text harmless where it would be more than text:
// on a terminal and in a shell.
package safe

import (
	"fmt"
	"strings"
	"unicode"
)

// Escape makes untrusted text harmless on a terminal: control characters, line
// ends and the characters that change the direction of text are shown as \x1b,
// \n or \u202e. Everything else stays as it is.
func Escape(s string) string {
	if !strings.ContainsFunc(s, mustEscape) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case !mustEscape(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func mustEscape(r rune) bool {
	if unicode.IsControl(r) || r == unicode.ReplacementChar || r == '\u2028' || r == '\u2029' {
		return true
	}
	// The marks, embeddings, overrides and isolates of the Unicode
	// bidirectional algorithm (UAX #9).
	return r == '\u061c' || r == '\u200e' || r == '\u200f' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
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
