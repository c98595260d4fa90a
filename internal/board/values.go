package board

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
)

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

func isEmail(s string) bool {
	local, domain, ok := strings.Cut(s, "@")
	return ok && local != "" && domain != "" && len(s) <= 254 && !strings.ContainsAny(s, " \t\r\n<>") && !strings.Contains(domain, "@")
}

func isPhone(s string) bool {
	digits := 0
	for i, r := range s {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r == '+' && i == 0, strings.ContainsRune(" -.()/", r):
		default:
			return false
		}
	}
	return digits >= 3 && len(s) <= 32
}

func checkNumber(raw json.RawMessage) (json.RawMessage, error) {
	n, err := toNumber(raw)
	if err != nil {
		return nil, refuse("invalid_input_type", "number must hold numbers")
	}
	return json.RawMessage(formatNumber(n)), nil
}

func toNumber(raw json.RawMessage) (float64, error) {
	var n *float64
	if err := json.Unmarshal(raw, &n); err != nil {
		return 0, err
	}
	if n == nil {
		return 0, fmt.Errorf("null")
	}
	return *n, nil
}

// formatNumber writes whole numbers without a fraction, as Slack's samples do.
func formatNumber(n float64) string {
	if n == math.Trunc(n) && math.Abs(n) < 1e15 {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatFloat(n, 'g', -1, 64)
}

func checkRating(c *column, raw json.RawMessage) (json.RawMessage, error) {
	most := 5
	if c.Options != nil && c.Options.Max != nil {
		most = *c.Options.Max
	}
	n, err := toNumber(raw)
	if err != nil || n != math.Trunc(n) || n < 1 || n > float64(most) {
		return nil, refuse("invalid_input_type", fmt.Sprintf("rating must be a whole number from 1 to %d", most))
	}
	return json.RawMessage(formatNumber(n)), nil
}

// checkLink takes the snake_case form and returns the camelCase one.
func checkLink(raw json.RawMessage) (json.RawMessage, error) {
	var in struct {
		OriginalURL  string `json:"original_url"`
		DisplayAsURL bool   `json:"display_as_url"`
		DisplayName  string `json:"display_name"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, refuse("invalid_link")
	}
	u, err := url.Parse(in.OriginalURL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, refuse("invalid_link", "original_url must be an http or https URL")
	}
	return marshal(struct {
		OriginalURL  string `json:"originalUrl"`
		DisplayAsURL bool   `json:"displayAsUrl"`
		DisplayName  string `json:"displayName"`
		Attachment   any    `json:"attachment"`
	}{in.OriginalURL, in.DisplayAsURL, in.DisplayName, nil})
}

// checkMessage takes a permalink and returns the object that is read:
// https://ws.slack.com/archives/C…/p1758744346000100[?thread_ts=…].
func checkMessage(permalink string) (json.RawMessage, error) {
	bad := refuse("invalid_message", "a message is written as its permalink")
	u, err := url.Parse(permalink)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, bad
	}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	if len(parts) != 3 || parts[0] != "archives" || !isChannelID(parts[1]) {
		return nil, bad
	}
	digits, ok := strings.CutPrefix(parts[2], "p")
	if !ok || len(digits) < 7 || strings.Trim(digits, "0123456789") != "" {
		return nil, bad
	}
	cut := len(digits) - 6
	return marshal(struct {
		Value     string `json:"value"`
		ChannelID string `json:"channel_id"`
		TS        string `json:"ts"`
		ThreadTS  string `json:"thread_ts,omitempty"`
	}{permalink, parts[1], digits[:cut] + "." + digits[cut:], u.Query().Get("thread_ts")})
}

// checkReference takes the one variant that Slack takes: a file.
func (k *cellChecker) checkReference(raw json.RawMessage) (json.RawMessage, error) {
	var in struct {
		File *struct {
			FileID string `json:"file_id"`
		} `json:"file"`
	}
	if err := json.Unmarshal(raw, &in); err != nil || in.File == nil {
		return nil, refuse("invalid_input_type", "a reference is written as a file")
	}
	if !k.file(in.File.FileID) {
		return nil, refuse("file_not_found")
	}
	return marshal(in)
}
