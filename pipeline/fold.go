package pipeline

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// FoldName brings the name of an agent, a column or an option of a select to
// the form in which two spellings of it are equal: composed (NFC), lower case,
// with an underscore for each run of spaces, hyphens and underscores. "In
// Progress" becomes in_progress.
func FoldName(s string) string {
	if isFolded(s) {
		return s
	}
	parts := strings.FieldsFunc(foldCase(s), func(r rune) bool {
		return unicode.IsSpace(r) || r == '-' || r == '_'
	})
	return strings.Join(parts, "_")
}

// isFolded reports whether FoldName would return s as it is: so it is with most names, and
// each pass folds thousands.
func isFolded(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '.':
		case c == '_' && 0 < i && i < len(s)-1 && s[i-1] != '_':
		default:
			return false
		}
	}
	return true
}

// FoldTitle brings a title to the form in which two spellings of it are equal:
// composed (NFC), lower case, trimmed, with one space for each run of white
// space.
func FoldTitle(s string) string {
	return strings.Join(strings.Fields(foldCase(s)), " ")
}

// foldCase goes by way of upper case, as some letters have two lower ones (σ
// and ς), and composes once more, as some have a composed form in lower case
// alone (ǰ).
func foldCase(s string) string {
	return norm.NFC.String(strings.ToLower(strings.ToUpper(norm.NFC.String(s))))
}

// CleanName returns the composed form (NFC) of a name, in which it is stored:
// the same name may be typed decomposed on another system.
func CleanName(s string) string { return norm.NFC.String(s) }

// MaxAgentName is how long the name of an agent may be, in characters.
const MaxAgentName = 64

// maxAgentBytes leaves room for what file names add to the name of an agent:
// they end at 255 bytes.
const maxAgentBytes = 200

// ValidAgentName reports whether s can name an agent: letters, digits, spaces,
// dots, hyphens and underscores, beginning with a letter or a digit and not
// ending in a space. Such a name is one harmless path element.
func ValidAgentName(s string) bool {
	s = norm.NFC.String(s)
	if s == "" || utf8.RuneCountInString(s) > MaxAgentName || len(s) > maxAgentBytes || strings.HasSuffix(s, " ") || !utf8.ValidString(s) {
		return false
	}
	for i, r := range s {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r):
		case i > 0 && (r == ' ' || r == '.' || r == '-' || r == '_' || unicode.IsMark(r)):
		default:
			return false
		}
	}
	return true
}
