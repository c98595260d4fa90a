package slacklist

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A walk brings megabytes of JSON. OTM needs little of it, and any cell may have a
// form that no struct foresees. So it is not decoded but cut into members and
// elements, down to the values that OTM needs. One pass over the bytes takes a
// tenth of the time of encoding/json, and no odd value can spoil another.

// eachMember calls visit for each member of a JSON object. It returns false if
// data is no object, or a broken one; the members before the flaw were visited.
func eachMember(data []byte, visit func(key, value []byte)) bool {
	return cut(data, '{', '}', visit)
}

// eachElement does the same for an array.
func eachElement(data []byte, visit func(value []byte)) bool {
	return cut(data, '[', ']', func(_, value []byte) { visit(value) })
}

// member is the value of one member of an object; nil if there is none.
func member(data []byte, name string) []byte {
	var found []byte
	eachMember(data, func(key, value []byte) {
		if string(key) == name {
			found = value
		}
	})
	return found
}

func cut(data []byte, begin, end byte, visit func(key, value []byte)) bool {
	i := skipSpace(data, 0)
	if i == len(data) || data[i] != begin {
		return false
	}
	i = skipSpace(data, i+1)
	if i < len(data) && data[i] == end {
		return skipSpace(data, i+1) == len(data)
	}
	for {
		var key []byte
		if begin == '{' {
			after := skipString(data, i)
			if after < 0 {
				return false
			}
			key = unescapeKey(data[i:after])
			i = skipSpace(data, after)
			if i == len(data) || data[i] != ':' {
				return false
			}
			i = skipSpace(data, i+1)
		}
		after := skipValue(data, i)
		if after < 0 {
			return false
		}
		visit(key, data[i:after])
		i = skipSpace(data, after)
		switch {
		case i == len(data):
			return false
		case data[i] == end:
			return skipSpace(data, i+1) == len(data)
		case data[i] != ',':
			return false
		}
		i = skipSpace(data, i+1)
	}
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index after the string that begins at i; -1 if there is
// none, or it does not end.
func skipString(data []byte, i int) int {
	if i >= len(data) || data[i] != '"' {
		return -1
	}
	for i++; i < len(data); i++ {
		switch data[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return -1
}

// skipValue returns the index after the value that begins at i; -1 if there is
// none. Of objects and arrays it only counts the brackets, without recursion, so
// no depth is too deep.
func skipValue(data []byte, i int) int {
	if i >= len(data) {
		return -1
	}
	switch data[i] {
	case '"':
		return skipString(data, i)
	case '{', '[':
		return skipBrackets(data, i)
	}
	start := i
	for i < len(data) && !strings.ContainsRune(" \n\t\r,:{}[]\"", rune(data[i])) {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

func skipBrackets(data []byte, i int) int {
	for depth := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			after := skipString(data, i)
			if after < 0 {
				return -1
			}
			i = after - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

func unescapeKey(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	return []byte(looseString(quoted))
}

// looseString reads a string; "" if the value is not one.
func looseString(value []byte) string {
	if len(value) < 2 || value[0] != '"' {
		return ""
	}
	inner := value[1 : len(value)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}

// first is the first element of an array, nil if it is empty, or the value itself
// if it is no array.
func first(value []byte) []byte {
	if len(value) == 0 || value[0] != '[' {
		return value
	}
	var found []byte
	eachElement(value, func(v []byte) {
		if found == nil {
			found = v
		}
	})
	return found
}

// looseInt reads a whole number, also from a string ("1758744346") or with a
// fraction; 0 if there is none.
func looseInt(value []byte) int64 {
	f, ok := parseFinite(strings.Trim(string(value), `"`))
	if !ok || f < -1<<53 || f > 1<<53 {
		return 0
	}
	return int64(f)
}

// endOfTime is the last second that RFC 3339 can write, in the year 9999.
const endOfTime = 253402300799

// looseDate reads seconds since 1970; 0 if they are none, or of a time that JSON
// cannot hold: it would cost a record, and the page of all rows.
func looseDate(value []byte) int64 {
	n := looseInt(value)
	if n < 0 || n > endOfTime {
		return 0
	}
	return n
}

// parseFinite reads a number. It refuses NaN and infinities, which Go parses and
// JSON cannot write.
func parseFinite(s string) (float64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f-f != 0 {
		return 0, false
	}
	return f, true
}

// looseBool reads a boolean, also as the only value of an array.
func looseBool(value []byte) (b, ok bool) {
	switch string(first(value)) {
	case "true":
		return true, true
	case "false", "null", "":
		return false, true
	}
	return false, false
}
