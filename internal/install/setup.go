package install

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"otm/heartbeat"
	"otm/internal/cli"
	"otm/internal/config"
	"otm/internal/durable"
	"otm/internal/patience"
	"otm/pipeline"
)

// Programs must stand in one folder: services start them, and agents run them.
var Programs = []string{"otm", "otm-create", "otm-update", heartbeat.Injector, heartbeat.Dispatcher, heartbeat.Detector}

func missingPrograms(bin string) error {
	missing := pipeline.Filter(Programs, func(name string) bool { return !isProgram(filepath.Join(bin, name)) })
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

// cleanPath is a PATH without relative folders.
func cleanPath(path string) string {
	dirs := slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool { return !filepath.IsAbs(dir) })
	if len(dirs) == 0 {
		return "/usr/local/bin:/usr/bin:/bin"
	}
	return strings.Join(dirs, string(os.PathListSeparator))
}

// fit refuses a configuration that works in this shell only.
func fit(s cli.Streams, c *config.Config) error {
	n := &c.Notify
	secrets := []struct {
		what, table, file, env string
		needed                 bool
	}{
		{"token", "slack", c.Slack.TokenFile, c.Slack.TokenEnv, c.Slack.ListID != "" || c.Slack.AuditChannel != "" || n.Slack.Channel != ""},
		{"token", "gateway", c.Gateway.TokenFile, c.Gateway.TokenEnv, c.UsesGateway() && s.Getenv(c.Gateway.TokenEnv) != ""},
		{"token", "notify.telegram", n.Telegram.TokenFile, n.Telegram.TokenEnv, n.Telegram.Chat != ""},
		{"secret", "notify.webhook", n.Webhook.SecretFile, n.Webhook.SecretEnv, n.Webhook.URL != ""},
	}
	for _, t := range secrets {
		if t.needed && t.file == "" {
			return cli.Errorf(cli.BadConfig, "%s of [%s]: no file holds it, and a service does not have the environment variable %s", t.what, t.table, t.env).
				Hint("%s_file = \"secrets/%s\"   # in [%s] of otm.toml, and the %s in that file", t.what, t.table, t.table, t.what)
		}
	}
	for _, name := range []string{"SLACK_API_URL", "OPENCLAW_GATEWAY_URL"} {
		if s.Getenv(name) != "" {
			s.Warn("%s is set in this shell; the services do not have it and use the address of otm.toml", name)
		}
	}
	return nil
}

// starts reports whether the dispatcher starts an agent as a process, or a command that
// otm.toml names.
func starts(c *config.Config) bool {
	return len(c.Notify.Command)+len(c.Advise) > 0 || slices.ContainsFunc(c.Agents, func(a pipeline.Agent) bool { return !a.Person && a.Trigger == pipeline.TriggerExec })
}

// isMade reports whether a workspace is a directory. One that does not answer, or that
// cannot be looked at, counts as made: without it, its agent could write nowhere.
func isMade(path string) bool {
	info, err := patience.Read(path, patience.Reader, nil, func() (fs.FileInfo, error) { return durable.Stat(path) })
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
	}
	return info.IsDir()
}
