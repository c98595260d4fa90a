// Package config reads otm.toml and finds the data directory.
//
// The file is read strictly: a key that is not known is an error that names
// its line. All that is wrong is said at once, but for what ends the reading:
// a value of the wrong type, and text that is no TOML. What is missing has the
// default; a missing file is a configuration of defaults.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

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

// Slack says which list is the board.
type Slack struct {
	ListID    string // "": the embedded board
	URL       string // of the Web API
	TokenFile string // absolute; "": none is set
	TokenEnv  string // the environment variable that holds the token otherwise
	// Budget is the share of Slack's published calls a minute that all
	// processes of the directory together allow themselves. 0: no limit.
	Budget    float64
	BudgetSet bool // the file says so
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

// file is the form of otm.toml.
type file struct {
	Slack   slackTable            `toml:"slack"`
	Board   boardTable            `toml:"board"`
	Gateway gatewayTable          `toml:"gateway"`
	Agents  map[string]agentTable `toml:"agents"`
	Times   timesTable            `toml:"times"`
}

type slackTable struct {
	ListID    string       `toml:"list_id"`
	APIURL    string       `toml:"api_url"`
	TokenFile string       `toml:"token_file"`
	TokenEnv  string       `toml:"token_env"`
	Budget    *float64     `toml:"budget"`
	Columns   columnsTable `toml:"columns"`
}

type columnsTable struct {
	Title       *string `toml:"title"`
	TaskID      *string `toml:"task_id"`
	Type        *string `toml:"type"`
	Assignee    *string `toml:"assignee"`
	Project     *string `toml:"project"`
	Priority    *string `toml:"priority"`
	Status      *string `toml:"status"`
	Remaining   *string `toml:"subtasks_remaining"`
	Completion  *string `toml:"completion"`
	AssignedAt  *string `toml:"assigned_at"`
	CompletedAt *string `toml:"completed_at"`
	Reason      *string `toml:"reason"`
	Result      *string `toml:"result"`
}

// byField returns the columns that are set.
func (t columnsTable) byField() map[pipeline.Field]string {
	set := map[pipeline.Field]string{}
	for field, name := range map[pipeline.Field]*string{
		pipeline.FieldTitle: t.Title, pipeline.FieldTaskID: t.TaskID, pipeline.FieldType: t.Type,
		pipeline.FieldAssignee: t.Assignee, pipeline.FieldProject: t.Project, pipeline.FieldPriority: t.Priority,
		pipeline.FieldStatus: t.Status, pipeline.FieldRemaining: t.Remaining, pipeline.FieldCompletion: t.Completion,
		pipeline.FieldAssignedAt: t.AssignedAt, pipeline.FieldCompletedAt: t.CompletedAt,
		pipeline.FieldReason: t.Reason, pipeline.FieldResult: t.Result,
	} {
		if name != nil {
			set[field] = *name
		}
	}
	return set
}

type boardTable struct {
	Listen string `toml:"listen"`
}

type gatewayTable struct {
	URL       string `toml:"url"`
	TokenFile string `toml:"token_file"`
	TokenEnv  string `toml:"token_env"`
	RewakeMax *int   `toml:"rewake_max"`
}

type agentTable struct {
	Kind         string   `toml:"kind"`
	Workspace    string   `toml:"workspace"`
	Trigger      string   `toml:"trigger"`
	Command      []string `toml:"command"`
	Label        string   `toml:"label"`
	GatewayAgent string   `toml:"gateway_agent"`
	SlackUser    string   `toml:"slack_user"`
}

// timesTable holds durations as text, such as "15s": a bare number, which would
// be nanoseconds, is of the wrong type.
type timesTable struct {
	SettleAfter    *string `toml:"settle_after"`
	AdoptAfter     *string `toml:"adopt_after"`
	RedeliverAfter *string `toml:"redeliver_after"`
	RewakeAfter    *string `toml:"rewake_after"`
	UpdateWait     *string `toml:"update_wait"`
	SilentAfter    *string `toml:"silent_after"`
	DedupGiveUp    *string `toml:"dedup_give_up"`
	KeepProcessed  *string `toml:"keep_processed"`
}

// Load reads the configuration of a data directory. The environment overrides
// what the contract says it does. The error is an *Error if the file is wrong.
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

// Parse is Load with the text of otm.toml at hand.
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

// byteOrderMark is what some editors put in front.
var byteOrderMark = []byte("\xef\xbb\xbf")

// parse returns nil where the file could not be read to its end.
func parse(data []byte) (*file, []string) {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) || bytes.IndexByte(data, 0) >= 0 {
		return nil, []string{"file is UTF-16 or holds NUL bytes: write it as UTF-8"}
	}
	f := &file{}
	dec := toml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, byteOrderMark)))
	dec.DisallowUnknownFields()
	err := dec.Decode(f)
	var strict *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case err == nil:
		return f, nil
	case errors.As(err, &strict):
		var problems []string
		for _, e := range strict.Errors {
			line, _ := e.Position()
			problems = append(problems, fmt.Sprintf("line %d: unknown key %s", line, strings.Join(e.Key(), ".")))
		}
		return f, problems
	case errors.As(err, &wrong):
		line, column := wrong.Position()
		return nil, []string{fmt.Sprintf("line %d, column %d: %s", line, column, plainly(wrong))}
	}
	return nil, []string{err.Error()}
}

// plainly words an error of the TOML decoder without our own type names.
func plainly(e *toml.DecodeError) string {
	text := strings.TrimPrefix(e.Error(), "toml: ")
	is, target, ok := strings.Cut(text, " into ")
	is, ok2 := strings.CutPrefix(is, "cannot decode TOML ")
	if !ok || !ok2 {
		return text
	}
	_, typ, _ := strings.Cut(target, " of type ")
	wants := map[string]string{
		"string": "text in quotes", "[]string": "an array of texts", "float64": "a number", "int": "a whole number",
	}[typ]
	if wants == "" {
		wants = "a table"
	}
	return fmt.Sprintf("%s must be %s, is %s %s", strings.Join(e.Key(), "."), wants, article(is), is)
}

func article(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an"
	}
	return "a"
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
		problems = append(problems, fmt.Sprintf("slack.budget: %v is out of range: a share such as 0.5, or 0 for no limit", c.Slack.Budget))
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

// origin names where a value comes from that the environment overrides.
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

func (c *Config) fillAgents(f *file, getenv func(string) string) (problems []string) {
	folded, users := map[string]string{}, map[string]string{}
	for _, name := range sortedKeys(f.Agents) {
		a, agentProblems := agentOf(name, f.Agents[name], getenv)
		problems = append(problems, agentProblems...)
		if c.isOwn(a.Workspace) {
			problems = append(problems, fmt.Sprintf("agents.%s.workspace: %q is a folder of OTM's own", name, a.Workspace))
		}
		for _, alias := range slices.Compact([]string{pipeline.FoldName(name), pipeline.FoldName(a.Label)}) {
			if other, taken := folded[alias]; taken && other != name {
				problems = append(problems, fmt.Sprintf("agents.%s: is the same as agents.%s: names and labels are compared without case, spaces, - and _", name, other))
			}
			folded[alias] = name
		}
		if other, taken := users[a.User]; taken && a.User != "" {
			problems = append(problems, fmt.Sprintf("agents.%s.slack_user: is the one of agents.%s: nobody could tell whose task a row is", name, other))
		}
		users[a.User] = name
		c.Agents = append(c.Agents, a)
	}
	return problems
}

// isOwn tells whether a path is the data directory, or leads into a folder of
// it where we keep house.
func (c *Config) isOwn(path string) bool {
	rest, err := filepath.Rel(c.Dir, path)
	if err != nil || path == "" {
		return false
	}
	first, _, _ := strings.Cut(rest, string(filepath.Separator))
	return rest == "." || slices.Contains(Folders, first)
}

func agentOf(name string, t agentTable, getenv func(string) string) (a pipeline.Agent, problems []string) {
	problem := func(key, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("agents.%s%s: %s", name, key, fmt.Sprintf(format, args...)))
	}
	a = pipeline.Agent{Name: pipeline.CleanName(name), Label: or(t.Label, name), User: t.SlackUser, Command: t.Command, GatewayAgent: or(t.GatewayAgent, name)}
	if !pipeline.ValidAgentName(name) {
		problem("", "%q is no name for an agent: letters, digits, spaces, '.', '-' and '_', at most %d", name, pipeline.MaxAgentName)
	}
	switch t.Kind {
	case "", "ai":
	case "human":
		a.Person = true
	default:
		problem(".kind", "%q: it is ai or human", t.Kind)
	}
	a.Trigger = pipeline.Trigger(t.Trigger)
	switch a.Trigger {
	case "":
		a.Trigger = pipeline.TriggerNone
		if len(t.Command) > 0 {
			a.Trigger = pipeline.TriggerExec
		}
	case pipeline.TriggerGateway, pipeline.TriggerNone:
	case pipeline.TriggerExec:
		if len(t.Command) == 0 {
			problem(".command", "is missing: trigger exec starts one")
		}
	default:
		problem(".trigger", "%q: it is gateway, exec or none", t.Trigger)
	}
	if len(t.Command) > 0 && t.Command[0] == "" {
		problem(".command", "its first element is the program to start, and is empty")
	}
	if len(t.Command) > 0 {
		a.Command = append([]string{expand(t.Command[0], getenv)}, t.Command[1:]...)
	}
	if a.Person {
		a.Trigger = pipeline.TriggerNone
		return a, problems
	}
	a.Workspace = expand(t.Workspace, getenv)
	switch {
	case t.Workspace == "":
		problem(".workspace", "is missing: an agent of kind ai needs one")
	case !filepath.IsAbs(a.Workspace):
		problem(".workspace", "%q is not absolute", t.Workspace)
	}
	return a, problems
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
			problems = append(problems, fmt.Sprintf("times.%s: %q is no duration, such as 15s or 10m", key, *text))
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

// CheckURL tells whether a token may travel to the given address: encrypted,
// or to this machine. plain and encrypted are the schemes.
func CheckURL(raw, plain, encrypted string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return errors.New("is no address") // what it is may hold a secret
	}
	shown := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String() // what may be a secret is left out
	switch {
	case u.User != nil:
		return errors.New("holds credentials: secrets stand in a file of their own, or in the environment")
	case u.Scheme != plain && u.Scheme != encrypted:
		return fmt.Errorf("%q: the scheme must be %s, or %s to this machine", shown, encrypted, plain)
	case u.Hostname() == "":
		return fmt.Errorf("%q has no host", shown)
	case u.Scheme == plain && !isLoopback(u.Hostname()):
		return fmt.Errorf("%q is not encrypted: the token would travel in the clear; use %s", shown, encrypted)
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
		return fmt.Errorf("%q is not this machine alone: use 127.0.0.1", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q has no port, such as 18780; 0 is any free one", addr)
	}
	return nil
}

// SlackToken returns the token of the board, "" where none is set.
func (c *Config) SlackToken(getenv func(string) string) (string, error) {
	return secret(c.Slack.TokenFile, c.Slack.TokenEnv, getenv)
}

// GatewayToken returns the token of the gateway, "" where none is set.
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
		return "", fmt.Errorf("%q holds NUL bytes, as a power failure leaves them: put the token in again", file)
	}
	return strings.TrimSpace(string(data)), err
}

// abs returns the path of a file that is named relative to the data directory.
func (c *Config) abs(path string, getenv func(string) string) string {
	path = expand(path, getenv)
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.Dir, path)
}

// expand puts the home directory in the place of ~/.
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
