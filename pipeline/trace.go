package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Trace is a place in a distributed trace: the traceparent of W3C Trace Context, version 00.
// "": none.
type Trace string

// traceLen is the length of a trace. A shorter one comes from a damaged store, and is none.
const traceLen = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")

// ParseTrace reads a traceparent. One that is not valid is none, as the standard wants.
func ParseTrace(s string) Trace {
	s = strings.Trim(s, " \t")
	version, rest, _ := strings.Cut(s, "-")
	id, rest, _ := strings.Cut(rest, "-")
	parent, flags, _ := strings.Cut(rest, "-")
	if version != "00" { // a later version may add parts
		flags, _, _ = strings.Cut(flags, "-")
	}
	zero := strings.Trim(id, "0") == "" || strings.Trim(parent, "0") == ""
	if !isHex(version, 1) || version == "ff" || !isHex(id, 16) || !isHex(parent, 8) || !isHex(flags, 1) || zero {
		return ""
	}
	return Trace("00-" + id + "-" + parent + "-" + flags)
}

// isHex reports whether s is so many bytes in lower-case hex.
func isHex(s string, bytes int) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 2*bytes && s == strings.ToLower(s)
}

// ID is the trace-id; "": there is no trace.
func (t Trace) ID() string {
	if len(t) < traceLen {
		return ""
	}
	return string(t)[3:35]
}

// Child is the place of a child in the trace. name makes its parent-id: the same one gives
// the same.
func (t Trace) Child(name string) Trace {
	if len(t) < traceLen {
		return ""
	}
	sum := sha256.Sum256([]byte(name))
	return t[:36] + Trace(hex.EncodeToString(sum[:8])) + t[52:]
}
