package board

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// maxBlockDepth bounds the nesting of rich text elements.
const maxBlockDepth = 8

var sectionTypes = []string{"rich_text_section", "rich_text_list", "rich_text_preformatted", "rich_text_quote"}

var inlineTypes = []string{
	"text", "link", "emoji", "user", "channel", "usergroup", "team", "broadcast",
	"date", "color", "file", "canvas", "list_record",
}

// A block is a rich_text block. Its elements are kept as they came.
type block struct {
	Type     string            `json:"type"`
	BlockID  string            `json:"block_id"`
	Elements []json.RawMessage `json:"elements"`
}

// An element is any element of a block, as far as its text goes.
type element struct {
	Type     string          `json:"type"`
	Elements []element       `json:"elements"`
	Text     json.RawMessage `json:"text"`
	Name     string          `json:"name"` // emoji
	URL      string          `json:"url"`
	UserID   string          `json:"user_id"`
	Channel  string          `json:"channel_id"`
	Range    string          `json:"range"` // broadcast
	Style    json.RawMessage `json:"style"` // an object on text, a string on lists
}

// normalizeBlocks checks the blocks of a text cell and returns them as they
// are read, each with a block_id. Blocks without any content clear the cell:
// the result is nil.
func normalizeBlocks(raws []json.RawMessage) (json.RawMessage, error) {
	blocks := make([]block, 0, len(raws))
	empty := true
	for _, raw := range raws {
		b, elements, err := parseBlock(raw)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
		empty = empty && !slices.ContainsFunc(elements, hasContent)
	}
	if empty {
		return nil, nil
	}
	return marshal(blocks)
}

func parseBlock(raw json.RawMessage) (block, []element, error) {
	var b block
	if err := json.Unmarshal(raw, &b); err != nil || b.Type != "rich_text" || b.Elements == nil {
		return block{}, nil, refuse("invalid_blocks", "text is written as rich_text blocks")
	}
	if b.BlockID == "" {
		b.BlockID = newID("", lowerAlnum, 5)
	}
	elements := make([]element, len(b.Elements))
	for i, raw := range b.Elements {
		if err := json.Unmarshal(raw, &elements[i]); err != nil {
			return block{}, nil, refuse("invalid_blocks", "malformed rich text element")
		}
		if err := elements[i].check(1); err != nil {
			return block{}, nil, err
		}
		b.Elements[i] = compact(raw)
	}
	return b, elements, nil
}

func compact(raw json.RawMessage) json.RawMessage {
	var buf bytes.Buffer
	if json.Compact(&buf, raw) != nil {
		return raw // it was decoded before
	}
	return buf.Bytes()
}

func (e *element) check(depth int) error {
	switch {
	case depth > maxBlockDepth:
		return refuse("invalid_blocks", "rich text is nested too deep")
	case slices.Contains(sectionTypes, e.Type):
		for i := range e.Elements {
			if err := e.Elements[i].check(depth + 1); err != nil {
				return err
			}
		}
		return nil
	case depth == 1 || !slices.Contains(inlineTypes, e.Type):
		return refuse("invalid_blocks", "unknown rich text element "+e.Type)
	}
	if _, err := toString(e.Text); err != nil && e.Type == "text" {
		return refuse("invalid_text_block", "a text element needs a text")
	}
	return nil
}

func hasContent(e element) bool {
	if slices.Contains(sectionTypes, e.Type) {
		return slices.ContainsFunc(e.Elements, hasContent)
	}
	return e.Type != "text" || e.plain() != ""
}

func (e *element) plain() string {
	s, err := toString(e.Text)
	if err != nil {
		return ""
	}
	return s
}

// The two orders in which encoders write a section that holds one plain text.
var plainSections = [][2]string{
	{`{"type":"rich_text_section","elements":[{"type":"text","text":"`, `"}]}]}]`},
	{`{"elements":[{"text":"`, `","type":"text"}],"type":"rich_text_section"}]}]`},
}

// plainText is the text of stored blocks that are one section with one plain
// text, as nearly all cells are. It spares decoding them.
func plainText(blocks json.RawMessage) (string, bool) {
	const blockStart = `[{"type":"rich_text","block_id":"`
	rest, ok := strings.CutPrefix(string(blocks), blockStart)
	if !ok {
		return "", false
	}
	_, rest, ok = strings.Cut(rest, `","elements":[`)
	for _, around := range plainSections {
		text, start := strings.CutPrefix(rest, around[0])
		text, end := strings.CutSuffix(text, around[1])
		if ok && start && end && !strings.ContainsAny(text, `"\`) {
			return text, true
		}
	}
	return "", false
}

// mrkdwn is the plain fallback of stored blocks: bold becomes *bold*, the URLs
// of links with a text are lost.
func mrkdwn(blocks json.RawMessage) string {
	if text, ok := plainText(blocks); ok {
		return text
	}
	var parsed []struct {
		Elements []element `json:"elements"`
	}
	if json.Unmarshal(blocks, &parsed) != nil {
		return ""
	}
	var lines []string
	for _, b := range parsed {
		for i := range b.Elements {
			lines = append(lines, b.Elements[i].mrkdwn())
		}
	}
	return strings.Join(lines, "\n")
}

func (e *element) mrkdwn() string {
	var parts []string
	for i := range e.Elements {
		parts = append(parts, e.Elements[i].mrkdwn())
	}
	switch e.Type {
	case "rich_text_section":
		return strings.Join(parts, "")
	case "rich_text_preformatted":
		return "```" + strings.Join(parts, "") + "```"
	case "rich_text_quote":
		return "> " + strings.Join(parts, "")
	case "rich_text_list":
		for i := range parts {
			parts[i] = "• " + parts[i]
		}
		return strings.Join(parts, "\n")
	case "text":
		return styled(e.plain(), e.Style)
	case "link":
		if text := e.plain(); text != "" {
			return styled(text, e.Style)
		}
		return e.URL
	case "emoji":
		return ":" + e.Name + ":"
	case "user":
		return "<@" + e.UserID + ">"
	case "channel":
		return "<#" + e.Channel + ">"
	case "broadcast":
		return "@" + e.Range
	}
	return ""
}

func styled(text string, raw json.RawMessage) string {
	var style struct{ Bold, Italic, Strike, Code bool }
	if text == "" || len(raw) == 0 || json.Unmarshal(raw, &style) != nil {
		return text
	}
	if style.Code {
		text = "`" + text + "`"
	}
	if style.Strike {
		text = "~" + text + "~"
	}
	if style.Italic {
		text = "_" + text + "_"
	}
	if style.Bold {
		text = "*" + text + "*"
	}
	return text
}

// textBlocks writes plain text as the blocks of a text cell.
func textBlocks(text string) []any {
	return []any{map[string]any{
		"type": "rich_text",
		"elements": []any{map[string]any{
			"type":     "rich_text_section",
			"elements": []any{map[string]any{"type": "text", "text": text}},
		}},
	}}
}
