package board

import (
	"crypto/rand"
	"encoding/binary"
	"strings"
)

const (
	upperAlnum = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lowerAlnum = "0123456789abcdefghijklmnopqrstuvwxyz"
)

// newID returns prefix and n random characters of the alphabet; the small bias
// of the modulo does not matter for ids.
func newID(prefix, alphabet string, n int) string {
	raw := make([]byte, n)
	rand.Read(raw) // never fails, see crypto/rand
	for i, b := range raw {
		raw[i] = alphabet[int(b)%len(alphabet)]
	}
	return prefix + string(raw)
}

// newNum returns a random internal number of the size Slack shows in cursors.
func newNum() int64 {
	var raw [8]byte
	rand.Read(raw[:])
	return int64(binary.BigEndian.Uint64(raw[:])%9e12) + 1e12
}

func newRowID() string    { return newID("Rec", upperAlnum, 10) }
func newColumnID() string { return newID("Col", upperAlnum, 10) }
func newListID() string   { return newID("F", upperAlnum, 10) }
func newViewID() string   { return newID("View", upperAlnum, 10) }
func newJobID() string    { return newID("LeF", upperAlnum, 9) }

// isID says whether s is one of the prefixes, followed by upper-case letters
// and digits.
func isID(s string, prefixes ...string) bool {
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(s, p); ok && rest != "" && strings.Trim(rest, upperAlnum) == "" {
			return true
		}
	}
	return false
}

func isUserID(s string) bool    { return isID(s, "U", "W") }
func isChannelID(s string) bool { return isID(s, "C", "G", "D") }
func isRowID(s string) bool     { return isID(s, "Rec") }
