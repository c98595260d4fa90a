package install

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/durable"
	"otm/internal/patience"
	"otm/internal/safe"
	"otm/pipeline"
)

// account is a user of this machine.
type account struct {
	uid, gid          int
	name, group, home string
}

// ownerOf returns the owner of a directory.
func ownerOf(dir string) (account, error) {
	info, err := durable.Stat(dir)
	if err != nil {
		return account{}, err
	}
	st := info.Sys().(*syscall.Stat_t)
	a := account{uid: int(st.Uid), gid: int(st.Gid), name: strconv.Itoa(int(st.Uid)), group: strconv.Itoa(int(st.Gid))}
	u, err := user.LookupId(a.name)
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		return a, cli.Errorf(cli.Failed, "data directory %q belongs to user %d, who is not known here, or has no home", dir, a.uid)
	}
	a.name, a.home = u.Username, u.HomeDir
	if gid, err := strconv.Atoi(u.Gid); err == nil {
		a.gid, a.group = gid, u.Gid // the user's own group: the directory may have another
	}
	if g, err := user.LookupGroupId(a.group); err == nil {
		a.group = g.Name
	}
	return a, nil
}

// serviceEnv is the part of the environment that services have.
func serviceEnv(getenv func(string) string, home string) func(string) string {
	return func(key string) string {
		switch key {
		case "HOME":
			return home
		case "OTM_LOG_DIR":
			return getenv(key)
		}
		return ""
	}
}

// setupFor adds to the options what the configuration asks for.
func setupFor(o Options, c *config.Config) (setup, error) {
	board := c.Slack.ListID == ""
	s := setup{Options: o, Board: board, Exec: startsAgents(c), LocalBoard: board || onThisMachine(c.Slack.URL), LocalGateway: true}
	if !o.User {
		owner, err := ownerOf(c.Dir)
		if err != nil {
			return s, err
		}
		s.Owner, s.Group = owner.name, owner.group
	}
	text, err := durable.ReadFile(filepath.Join(c.Dir, config.FileName))
	if err == nil {
		sum := sha256.Sum256(text)
		s.Sum = hex.EncodeToString(sum[:8])
	} else if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	for _, a := range c.Agents {
		if a.Person {
			continue
		}
		// A service that started before the folder was made may not write there.
		// So a folder that was made since makes the unit stale.
		// A workspace that does not answer counts as made: something is mounted there.
		if err := checkWorkspace(a.Workspace); (err == nil || patience.IsSilent(err)) && !slices.Contains(s.Workspaces, a.Workspace) {
			s.Workspaces = append(s.Workspaces, a.Workspace)
		}
		if a.Trigger == pipeline.TriggerGateway {
			s.LocalGateway = onThisMachine(c.Gateway.URL)
		}
	}
	for _, path := range []string{c.Slack.TokenFile, c.Gateway.TokenFile} {
		if path != "" {
			s.Reads = append(s.Reads, path)
		}
	}
	return s, nil
}

// startsAgents reports whether the dispatcher starts processes.
func startsAgents(c *config.Config) bool {
	return slices.ContainsFunc(c.Agents, func(a pipeline.Agent) bool { return !a.Person && a.Trigger == pipeline.TriggerExec })
}

// onThisMachine reports whether an address is a loopback address.
func onThisMachine(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// Programs must stand in one folder: services start them, and agents run them.
var Programs = []string{"otm", "otm-create", "otm-update", heartbeat.Injector, heartbeat.Dispatcher, heartbeat.Detector}

func missingPrograms(bin string) error {
	var missing []string
	for _, name := range Programs {
		if !isProgram(filepath.Join(bin, name)) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return cli.Errorf(cli.Failed, "folder %q lacks %s: all six programs must be in one folder that stays", bin, strings.Join(missing, ", ")).
			Hint("go install ./cmd/... && \"$(go env GOPATH)/bin/otm\" install …")
	}
	return nil
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

// Folder returns the folder of the programs under the name that stays. A package
// manager installs a version into a folder of its own and puts links on the
// PATH: after an upgrade the links still work and the folder is gone. So Folder
// prefers the folder on PATH, then the one of the command line, if the program
// there is this one and all others stand beside it. Otherwise it returns the
// folder of the running program; "" if that is not known.
func Folder() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return folderFor(self, os.Args[0])
}

func folderFor(self, arg0 string) string {
	running, err := os.Stat(self)
	if err != nil {
		return filepath.Dir(self)
	}
	onPath, _ := exec.LookPath("otm")
	for _, candidate := range []string{onPath, arg0} {
		path, err := filepath.Abs(candidate)
		if err != nil || !strings.ContainsRune(candidate, filepath.Separator) {
			continue
		}
		if info, err := os.Stat(path); err == nil && os.SameFile(info, running) && missingPrograms(filepath.Dir(path)) == nil {
			return filepath.Dir(path)
		}
	}
	return filepath.Dir(self)
}

// cleanPath is a PATH without relative folders and repetitions.
func cleanPath(path, bin string) string {
	var dirs []string
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) && dir != bin && !slices.Contains(dirs, dir) && safe.Escape(dir) == dir {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return "/usr/local/bin:/usr/bin:/bin"
	}
	return strings.Join(dirs, string(os.PathListSeparator))
}

// fit refuses a configuration that works in this shell only, and warns of
// agents that the dispatcher cannot serve.
func fit(s cli.Streams, c *config.Config, o Options) error {
	gateway := slices.ContainsFunc(c.Agents, func(a pipeline.Agent) bool { return !a.Person && a.Trigger == pipeline.TriggerGateway })
	gateway = gateway && (c.Gateway.TokenFile != "" || s.Getenv(c.Gateway.TokenEnv) != "")
	if c.Slack.ListID != "" {
		token, err := c.SlackToken(s.Getenv)
		if err := fitToken(c.Dir, "board", "slack", c.Slack.TokenFile, c.Slack.TokenEnv, token, err); err != nil {
			return err
		}
	}
	if gateway {
		token, err := c.GatewayToken(s.Getenv)
		if err := fitToken(c.Dir, "gateway", "gateway", c.Gateway.TokenFile, c.Gateway.TokenEnv, token, err); err != nil {
			return err
		}
	}
	for _, name := range []string{"SLACK_API_URL", "OPENCLAW_GATEWAY_URL"} {
		if s.Getenv(name) != "" {
			s.Warn("%s is set in this shell; the services do not have it and use the address of otm.toml", name)
		}
	}
	for _, a := range c.Agents {
		if !a.Person {
			warnOfAgent(s, a, o)
		}
	}
	return nil
}

// fitToken refuses a token that services cannot read: what says whose token it is,
// table the table of otm.toml that names its file.
func fitToken(dir, what, table, file, env, token string, err error) error {
	paste := func(path string) string {
		return fmt.Sprintf("(umask 077; cat > %s)   # paste the token, then Enter and Ctrl-D", safe.Quote(path))
	}
	switch {
	case file == "":
		return cli.Errorf(cli.BadConfig, "token of the %s: no file holds it, and a service does not have the environment variable %s", what, env).
			Hint("token_file = \"secrets/%s\"   # in [%s] of otm.toml", table, table).Hint("%s", paste(filepath.Join(dir, "secrets", table)))
	case err != nil:
		return cli.Errorf(cli.Credentials, "token of the %s: %w", what, err).Hint("%s", paste(file))
	case token == "":
		return cli.Errorf(cli.Credentials, "token of the %s: file %q is empty", what, file).Hint("%s", paste(file))
	}
	return nil
}

// checkWorkspace returns nil if a workspace is a directory. The error is a
// *patience.SilentError if it does not answer.
func checkWorkspace(path string) error {
	info, err := patience.Read(path, patience.Reader, nil, func() (fs.FileInfo, error) { return durable.Stat(path) })
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "stat", Path: path, Err: syscall.ENOTDIR}
	}
	return err
}

// warnOfAgent says what the dispatcher would not find.
func warnOfAgent(s cli.Streams, a pipeline.Agent, o Options) {
	switch err := checkWorkspace(a.Workspace); {
	case patience.IsSilent(err):
		s.Warn("workspace of %s: %v", a.Name, err)
	case err != nil:
		s.Warn("workspace %q of %s is not a directory yet: make it, then run this again", a.Workspace, a.Name)
	}
	if a.Trigger != pipeline.TriggerExec || strings.ContainsRune(a.Command[0], '/') {
		return
	}
	dirs := append([]string{o.Bin}, filepath.SplitList(o.Path)...)
	if !slices.ContainsFunc(dirs, func(dir string) bool { return isProgram(filepath.Join(dir, a.Command[0])) }) {
		s.Warn("command %q of %s is in no folder of the dispatcher's PATH: write its full path into otm.toml", a.Command[0], a.Name)
	}
}
