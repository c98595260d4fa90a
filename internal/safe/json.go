package safe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
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

// inertJSON escapes characters of a JSON text, where they can stand only in strings.
func inertJSON(text string) string {
	return escape(text, func(b *strings.Builder, r rune) {
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(b, `\u%04x`, unit)
		}
	})
}
