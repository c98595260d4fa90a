// Package config reads otm.toml and finds the data directory.
//
// The file is read strictly: an unknown key is an error that names its line. All
// problems are reported at once, except for those that end the reading: a value
// of the wrong type, and text that is not TOML. A missing key has its default, and
// a missing file is a configuration of defaults.
package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"otm/internal/durable"
	"otm/pipeline"
)

// FileName is the name of the configuration in the data directory.
const FileName = "otm.toml"

// Config is a configuration with its defaults filled in.
type Config struct {
	Dir  string // the data directory
	home string // the home directory

	Slack   Slack
	Board   Board
	Store   Store
	Gateway Gateway
	Agents  pipeline.Agents // of otm.toml, in the order of their names; see AllAgents
	Types   pipeline.Types
	// Reviewers are the names of the AI agents that may review.
	Reviewers []string
	Advise    []string // the command that is asked before a retry; empty: none
	Notify    Notify
	Times     pipeline.Times
}

// Slack names the Slack List that is the board.
type Slack struct {
	ListID string `toml:"list_id"` // "": the embedded board
	URL    string `toml:"api_url"` // of the Web API
	Token
	// AuditChannel mirrors the events of tasks; "": none does.
	AuditChannel string `toml:"audit_channel"`
	// Budget is the share of Slack's published calls a minute that all
	// processes of the directory together allow themselves. 0: no limit.
	Budget    float64                   `toml:"-"`
	BudgetSet bool                      `toml:"-"` // the file has the key
	Columns   map[pipeline.Field]string `toml:"-"`
}

// Board is the embedded board.
type Board struct {
	Listen string `toml:"listen"`
}

// Store is where the engine keeps its state. Users are not told of it before several
// machines can share one store.
type Store struct {
	URL string `toml:"url"` // of a PostgreSQL database; "": otm.db
}

// Gateway is the OpenClaw gateway.
type Gateway struct {
	URL string `toml:"url"`
	Token
	Config string `toml:"config"` // openclaw.json, whose agents are known too; absolute; "": none is read
}

// Token is where a token stands.
type Token struct {
	TokenFile string `toml:"token_file"` // absolute; "": none is set
	TokenEnv  string `toml:"token_env"`  // the environment variable that holds the token otherwise
}

// ReadToken returns the token; "" if none is set.
func (t *Token) ReadToken(getenv func(string) string) (string, error) {
	return Secret(t.TokenFile, t.TokenEnv, getenv)
}

// Defaults of the configuration.
const (
	defaultSlackURL    = "https://slack.com/api/"
	defaultSlackEnv    = "SLACK_BOT_TOKEN"
	DefaultListen      = "127.0.0.1:18780"
	defaultGatewayURL  = "ws://127.0.0.1:18789"
	defaultGatewayEnv  = "OPENCLAW_GATEWAY_TOKEN"
	DefaultSlackBudget = 1.0
)

// Error lists all problems of otm.toml.
type Error struct {
	Path     string
	Problems []string
}

func (e *Error) Error() string {
	return fmt.Sprintf("configuration %q: %s", e.Path, strings.Join(e.Problems, "; "))
}

// problemList is what is wrong with a configuration.
type problemList []string

// add notes what is wrong with a key.
func (p *problemList) add(key, format string, args ...any) {
	*p = append(*p, key+": "+fmt.Sprintf(format, args...))
}

// check notes err as a problem of a key, unless it is nil.
func (p *problemList) check(key string, err error) {
	if err != nil {
		p.add(key, "%v", err)
	}
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
	f, p := parse(data)
	if f == nil {
		return nil, &Error{Path: path, Problems: p}
	}
	c := &Config{Dir: dir, home: getenv("HOME"), Slack: f.Slack.Slack, Board: f.Board, Store: f.Store, Gateway: f.Gateway.Gateway, Notify: f.Notify, Times: pipeline.DefaultTimes}
	c.Slack.URL = cmp.Or(getenv("SLACK_API_URL"), c.Slack.URL, defaultSlackURL)
	c.Slack.TokenEnv, c.Slack.TokenFile = cmp.Or(c.Slack.TokenEnv, defaultSlackEnv), c.abs(c.Slack.TokenFile)
	p.check("slack.api_url or SLACK_API_URL", CheckURL(c.Slack.URL, "http", "https"))
	c.fillSlack(f, &p)
	if u := c.Store.URL; u != "" && !strings.HasPrefix(u, "postgres://") {
		p.add("store.url", "must begin with postgres://") // the text may hold a secret
	}
	c.Gateway.URL = cmp.Or(getenv("OPENCLAW_GATEWAY_URL"), c.Gateway.URL, defaultGatewayURL)
	c.Gateway.TokenEnv, c.Gateway.TokenFile = cmp.Or(c.Gateway.TokenEnv, defaultGatewayEnv), c.abs(c.Gateway.TokenFile)
	c.Gateway.Config = c.abs(c.Gateway.Config)
	p.check("gateway.url or OPENCLAW_GATEWAY_URL", CheckURL(c.Gateway.URL, "ws", "wss"))
	c.fillAgents(f, &p)
	c.fillReviewers(f, &p)
	c.fillTypes(f, &p)
	c.Advise = c.program("retry.advise", f.Retry.Advise, &p)
	c.Notify.fill(c, &p)
	c.Board.Listen = cmp.Or(c.Board.Listen, DefaultListen)
	p.check("board.listen", checkListen(c.Board.Listen))
	c.fillTimes(f, &p)
	if len(p) > 0 {
		return nil, &Error{Path: path, Problems: p}
	}
	return c, nil
}

func (c *Config) fillSlack(f *file, p *problemList) {
	c.Slack.Budget, c.Slack.Columns = DefaultSlackBudget, map[pipeline.Field]string{}
	if b := f.Slack.Budget; b != nil {
		c.Slack.Budget, c.Slack.BudgetSet = *b, true
	}
	if !(c.Slack.Budget >= 0 && c.Slack.Budget <= 1000) { // nan is neither
		p.add("slack.budget", "%v is out of range: want a share such as 0.5, or 0 for no limit", c.Slack.Budget)
	}
	eachSet(f.Slack.Columns, func(key, name string) {
		c.Slack.Columns[pipeline.Field(key)] = name
		if name == "" {
			p.add("slack.columns."+key, "is empty")
		}
	})
}

// minKeepEvents is the least time that the store keeps events: programs that were off, and
// outlets that took nothing, read there what came up meanwhile.
const minKeepEvents = 168 * time.Hour

func (c *Config) fillTimes(f *file, p *problemList) {
	t := &c.Times
	times := map[string]*time.Duration{
		"settle_after": &t.SettleAfter, "adopt_after": &t.AdoptAfter, "redeliver_after": &t.RedeliverAfter, "rewake_after": &t.RewakeAfter,
		"update_wait": &t.UpdateWait, "silent_after": &t.SilentAfter, "dedup_give_up": &t.DedupGiveUp, "keep_processed": &t.KeepProcessed, "archive_after": &t.ArchiveAfter, "keep_events": &t.KeepEvents,
	}
	eachSet(f.Times, func(key, text string) { *times[key] = p.duration("times."+key, text) })
	if t.KeepEvents > 0 && t.KeepEvents < minKeepEvents {
		p.add("times.keep_events", "%v is too short: want 168h or more, or 0 for ever", t.KeepEvents)
	}
	if n := f.Gateway.RewakeMax; n != nil {
		t.RewakeMax = *n
	}
	if t.MaxRunning = f.Limits.MaxRunning; t.MaxRunning < 0 {
		p.add("limits.max_running", "%d is negative", t.MaxRunning)
	}
	if t.RewakeMax < 0 {
		p.add("gateway.rewake_max", "%d is negative", t.RewakeMax)
	}
}

// duration reads the duration of a key.
func (p *problemList) duration(key, text string) time.Duration {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		p.add(key, "%q is not a duration such as 15s or 10m", text)
	case d < 0:
		p.add(key, "%q is negative", text)
	}
	return d
}

// SecretEnv lists the environment variables that hold secrets, or lead to one.
func (c *Config) SecretEnv() []string {
	return []string{
		defaultSlackEnv, defaultGatewayEnv, defaultTelegramEnv, defaultWebhookEnv, "OTM_TOKEN_FILE",
		c.Slack.TokenEnv, c.Gateway.TokenEnv, c.Notify.Telegram.TokenEnv, c.Notify.Webhook.SecretEnv,
	}
}

// SecretFiles lists the files that hold secrets.
func (c *Config) SecretFiles() []string {
	files := []string{c.Slack.TokenFile, c.Gateway.TokenFile, c.Notify.Telegram.TokenFile, c.Notify.Webhook.SecretFile}
	return slices.DeleteFunc(files, func(path string) bool { return path == "" })
}

// Secret reads a secret from a file, or if none is named, from the environment; "" if none is
// set.
func Secret(file, env string, getenv func(string) string) (string, error) {
	if file == "" {
		return strings.TrimSpace(getenv(env)), nil
	}
	data, err := durable.ReadFile(file)
	if bytes.IndexByte(data, 0) >= 0 {
		return "", fmt.Errorf("%q holds NUL bytes, as after a power failure: put the token in again", file)
	}
	return strings.TrimSpace(string(data)), err
}

// program returns the command of a key, with the path of its program expanded.
func (c *Config) program(key string, argv []string, p *problemList) []string {
	if len(argv) == 0 {
		return nil
	}
	if argv[0] == "" {
		p.add(key, "the first element, the program to start, is empty")
	}
	return append([]string{expand(argv[0], c.home)}, argv[1:]...)
}

// abs makes a path absolute that is relative to the data directory; "" stays.
func (c *Config) abs(path string) string {
	path = expand(path, c.home)
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.Dir, path)
}

// expand replaces a leading ~/ by the home directory.
func expand(path, home string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && home != "" {
		return filepath.Join(home, rest)
	}
	return path
}

// CheckURL refuses an address to which a token must not be sent: it must be
// encrypted or on this machine. plain and encrypted are the two schemes.
func CheckURL(raw, plain, encrypted string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return errors.New("is not an address") // the text may hold a secret
	}
	shown := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String() // without parts that may be secret
	switch {
	case u.User != nil:
		return errors.New("holds credentials: put them into a file of their own or into the environment")
	case u.Scheme != plain && u.Scheme != encrypted:
		return fmt.Errorf("%q: the scheme must be %s, or %s to this machine", shown, encrypted, plain)
	case u.Hostname() == "":
		return fmt.Errorf("%q has no host", shown)
	case u.Scheme == plain && !isLoopback(u.Hostname()):
		return fmt.Errorf("%q is not encrypted: everybody on the way could read the token; use %s", shown, encrypted)
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func checkListen(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if !isLoopback(host) {
		return fmt.Errorf("%q is reachable from other machines: use 127.0.0.1", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q has no port such as 18780; 0 means any free one", addr)
	}
	return nil
}
