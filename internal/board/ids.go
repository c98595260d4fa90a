package board

import (
	"crypto/rand"
	mathrand "math/rand/v2"
	"strings"
)

// upperAlnum is the alphabet of Slack's ids.
const upperAlnum = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// newID returns the prefix and ten random characters, such as Rec018B8X2B3M.
func newID(prefix string) string { return prefix + randomText(10) }

// randomText returns n random characters; the small bias of the modulo does
// not matter for ids.
func randomText(n int) string {
	raw := make([]byte, n)
	rand.Read(raw) // never fails, see crypto/rand
	for i, b := range raw {
		raw[i] = upperAlnum[int(b)%len(upperAlnum)]
	}
	return string(raw)
}

// newNum returns a random internal number of the size Slack shows in cursors.
func newNum() int64 { return 1e12 + mathrand.Int64N(9e12) }

// isID reports whether s is one of the prefixes, followed by upper-case letters
// and digits.
func isID(s string, prefixes ...string) bool {
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(s, p); ok && rest != "" && strings.Trim(rest, upperAlnum) == "" {
			return true
		}
	}
	return false
}
