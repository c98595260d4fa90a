package safe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// EncodeJSON writes v as one line of JSON. What Escape would show is written in
// the form \u009b, which means the same to a program and nothing to a terminal.
func EncodeJSON(w io.Writer, v any) error {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false) // it is not for a page
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, inertJSON(strings.TrimSuffix(line.String(), "\n"))+"\n")
	return err
}

func inertJSON(text string) string {
	if !strings.ContainsFunc(text, mustEscape) {
		return text
	}
	var b strings.Builder
	for _, r := range text { // only in strings; all of them are of the basic plane
		if mustEscape(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
