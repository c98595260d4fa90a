// Package config reads otm.toml and finds the data directory.
//
// The file is read strictly: an unknown key is an error that names its line. All
// problems are reported at once, except for those that end the reading: a value
// of the wrong type, and text that is not TOML. A missing key has its default, and
// a missing file is a configuration of defaults.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"otm/internal/durable"
	"otm/pipeline"
)

// FileName is the name of the configuration in the data directory.
const FileName = "otm.toml"

// Config is a configuration with its defaults filled in.
type Config struct {
	Dir string // the data directory

	Slack   Slack
	Board   Board
	Gateway Gateway
	Agents  pipeline.Agents // in the order of their names
	Times   pipeline.Times
}

// Slack names the Slack List that is the board.
type Slack struct {
	ListID    string // "": the embedded board
	URL       string // of the Web API
	TokenFile string // absolute; "": none is set
	TokenEnv  string // the environment variable that holds the token otherwise
	// Budget is the share of Slack's published calls a minute that all
	// processes of the directory together allow themselves. 0: no limit.
	Budget    float64
	BudgetSet bool // the file has the key
	Columns   map[pipeline.Field]string
}

// Board is the embedded board.
type Board struct{ Listen string }

// Gateway is the OpenClaw gateway.
type Gateway struct {
	URL       string
	TokenFile string // absolute; "": none is set
	TokenEnv  string
}

// Defaults of the configuration.
const (
	DefaultSlackURL     = "https://slack.com/api/"
	DefaultSlackEnv     = "SLACK_BOT_TOKEN"
	DefaultListen       = "127.0.0.1:18780"
	DefaultGatewayURL   = "ws://127.0.0.1:18789"
	DefaultGatewayEnv   = "OPENCLAW_GATEWAY_TOKEN"
	DefaultSlackBudget  = 1.0
	maxSensibleDuration = 10 * 365 * 24 * time.Hour
)

// Error says what is wrong with otm.toml, all at once.
type Error struct {
	Path     string
	Problems []string
}

func (e *Error) Error() string {
	return fmt.Sprintf("configuration %q: %s", e.Path, strings.Join(e.Problems, "; "))
}

// Load reads the configuration of a data directory. SLACK_API_URL and
// OPENCLAW_GATEWAY_URL override its addresses. The error is an *Error if the file
// is wrong.
func Load(dir string, getenv func(string) string) (*Config, error) {
	path := filepath.Join(dir, FileName)
	data, err := durable.ReadFile(path)
	if errors.Is(err, durable.ErrNoFile) {
		return nil, &Error{Path: path, Problems: []string{durable.ErrNoFile.Error()}}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return Parse(dir, data, getenv)
}

// Parse is Load for a text of otm.toml.
func Parse(dir string, data []byte, getenv func(string) string) (*Config, error) {
	path := filepath.Join(dir, FileName)
	f, problems := parse(data)
	if f == nil {
		return nil, &Error{Path: path, Problems: problems}
	}
	c := &Config{Dir: dir}
	problems = append(problems, c.fillSlack(f, getenv)...)
	problems = append(problems, c.fillGateway(f, getenv)...)
	problems = append(problems, c.fillAgents(f, getenv)...)
	c.Board.Listen = or(f.Board.Listen, DefaultListen)
	if err := checkListen(c.Board.Listen); err != nil {
		problems = append(problems, "board.listen: "+err.Error())
	}
	problems = append(problems, c.fillTimes(f)...)
	if len(problems) > 0 {
		return nil, &Error{Path: path, Problems: problems}
	}
	return c, nil
}

func (c *Config) fillSlack(f *file, getenv func(string) string) (problems []string) {
	t := f.Slack
	c.Slack = Slack{
		ListID: t.ListID, URL: or(getenv("SLACK_API_URL"), t.APIURL, DefaultSlackURL),
		TokenEnv: or(t.TokenEnv, DefaultSlackEnv), Budget: DefaultSlackBudget, Columns: t.Columns.byField(),
	}
	if t.TokenFile != "" {
		c.Slack.TokenFile = c.abs(t.TokenFile, getenv)
	}
	if t.Budget != nil {
		c.Slack.Budget, c.Slack.BudgetSet = *t.Budget, true
	}
	if !(c.Slack.Budget >= 0 && c.Slack.Budget <= 1000) { // nan is neither
		problems = append(problems, fmt.Sprintf("slack.budget: %v is out of range: want a share such as 0.5, or 0 for no limit", c.Slack.Budget))
	}
	for _, field := range sortedKeys(c.Slack.Columns) {
		if c.Slack.Columns[field] == "" {
			problems = append(problems, fmt.Sprintf("slack.columns.%s: is empty", field))
		}
	}
	if err := CheckURL(c.Slack.URL, "http", "https"); err != nil {
		problems = append(problems, origin("SLACK_API_URL", "slack.api_url", getenv)+": "+err.Error())
	}
	return problems
}

// origin names the source of a value that the environment may override.
func origin(env, key string, getenv func(string) string) string {
	if getenv(env) != "" {
		return env
	}
	return key
}

func (c *Config) fillGateway(f *file, getenv func(string) string) (problems []string) {
	t := f.Gateway
	c.Gateway = Gateway{
		URL: or(getenv("OPENCLAW_GATEWAY_URL"), t.URL, DefaultGatewayURL), TokenEnv: or(t.TokenEnv, DefaultGatewayEnv),
	}
	if t.TokenFile != "" {
		c.Gateway.TokenFile = c.abs(t.TokenFile, getenv)
	}
	if err := CheckURL(c.Gateway.URL, "ws", "wss"); err != nil {
		problems = append(problems, origin("OPENCLAW_GATEWAY_URL", "gateway.url", getenv)+": "+err.Error())
	}
	return problems
}

func (c *Config) fillTimes(f *file) (problems []string) {
	t := f.Times
	c.Times = pipeline.DefaultTimes
	set := func(key string, text *string, to *time.Duration) {
		if text == nil {
			return
		}
		d, err := time.ParseDuration(*text)
		switch {
		case err != nil:
			problems = append(problems, fmt.Sprintf("times.%s: %q is not a duration such as 15s or 10m", key, *text))
		case d < 0 || d > maxSensibleDuration:
			problems = append(problems, fmt.Sprintf("times.%s: %q is out of range", key, *text))
		}
		*to = d
	}
	set("settle_after", t.SettleAfter, &c.Times.SettleAfter)
	set("adopt_after", t.AdoptAfter, &c.Times.AdoptAfter)
	set("redeliver_after", t.RedeliverAfter, &c.Times.RedeliverAfter)
	set("rewake_after", t.RewakeAfter, &c.Times.RewakeAfter)
	set("update_wait", t.UpdateWait, &c.Times.UpdateWait)
	set("silent_after", t.SilentAfter, &c.Times.SilentAfter)
	set("dedup_give_up", t.DedupGiveUp, &c.Times.DedupGiveUp)
	set("keep_processed", t.KeepProcessed, &c.Times.KeepProcessed)
	if n := f.Gateway.RewakeMax; n != nil {
		c.Times.RewakeMax = *n
	}
	if n := c.Times.RewakeMax; n < 0 {
		problems = append(problems, fmt.Sprintf("gateway.rewake_max: %d is negative", n))
	}
	return problems
}

// SlackToken returns the token of the board; "" if none is set.
func (c *Config) SlackToken(getenv func(string) string) (string, error) {
	return secret(c.Slack.TokenFile, c.Slack.TokenEnv, getenv)
}

// GatewayToken returns the token of the gateway; "" if none is set.
func (c *Config) GatewayToken(getenv func(string) string) (string, error) {
	return secret(c.Gateway.TokenFile, c.Gateway.TokenEnv, getenv)
}

// SecretEnv lists the environment variables that hold secrets.
func (c *Config) SecretEnv() []string {
	return []string{DefaultSlackEnv, DefaultGatewayEnv, c.Slack.TokenEnv, c.Gateway.TokenEnv}
}

func secret(file, env string, getenv func(string) string) (string, error) {
	if file == "" {
		return strings.TrimSpace(getenv(env)), nil
	}
	data, err := durable.ReadFile(file)
	if bytes.IndexByte(data, 0) >= 0 {
		return "", fmt.Errorf("%q holds NUL bytes, as after a power failure: put the token in again", file)
	}
	return strings.TrimSpace(string(data)), err
}

// abs makes a path absolute that is relative to the data directory.
func (c *Config) abs(path string, getenv func(string) string) string {
	path = expand(path, getenv)
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.Dir, path)
}

// expand replaces a leading ~/ by the home directory.
func expand(path string, getenv func(string) string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && getenv("HOME") != "" {
		return filepath.Join(getenv("HOME"), rest)
	}
	return path
}

func or(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
