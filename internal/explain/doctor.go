package explain

// What otm doctor says about the directory and its disk.
var (
	StateOK      = code("state_ok", OK, "status finds no problem", "")
	Failed       = code("failed", Fail, "{error}", "{hint}")
	DirectoryOK  = code("directory_ok", OK, "{path}", "")
	DirLocked    = code("directory_locked", Fail, "{path} has mode {mode}, not 0700: its owner cannot work in it", "chmod 700 {path:sh}")
	DirOpen      = code("directory_open", Warn, "{path} has mode {mode}, not 0700: others can reach into it", "chmod 700 {path:sh}")
	DiskRemote   = code("disk_remote", Fail, "the data directory lies on {kind}, whose locks and renames cannot be relied on", "move the data directory to a local disk, and set OTM_DIR")
	DiskFUSE     = code("disk_fuse", Warn, "the data directory lies on FUSE, whose locks and syncs may not hold", "move the data directory to a local disk, and set OTM_DIR")
	SecretOpen   = code("secret_open", Fail, "others can read {path} (mode {mode})", "chmod 600 {path:sh}")
	OwnerMissing = code("owner_missing", Warn, "the owner's token {path} is missing: otm accept and other commands for people act for nobody on a terminal", "otm init")
	SecretsOK    = code("secrets_ok", OK, "no token file can be read by others", "")
	UnitOK       = code("unit_ok", OK, "{path}", "")
	UnitOdd      = code("unit_odd", Warn, "{path} is {state}", "{hint}")
)

// What it says about the board.
var (
	BoardNotRunning = code("board_not_running", Fail, "the embedded board is not running", "{start}")
	BoardSilent     = code("board_silent", Fail, "{url} does not answer: {error}", "curl -sS -o /dev/null {url:sh}")
	BoardOK         = code("board_ok", OK, "{url} takes the token, as {name} in {team}, with all scopes", "")
	ScopesMissing   = code("scopes_missing", Fail, "the token lacks the scopes {scopes}", "add them to the Slack app, install it anew, then: otm init --slack --token-stdin")
	ListLacks       = code("list_lacks", Fail, "{error}", "{hint}")
	ListLacksSome   = code("list_lacks_optional", Warn, "{error}", "{hint}")
	ListReadOnly    = code("list_read_only", Fail, "the app may read the list, and not change it: the list is shared with it for reading only", "share the list with the app for editing: in Slack, open the list, Share, the app's channel, Can edit")
	ListOK          = code("list_ok", OK, "{list} {title:quoted} has all columns and options", "")
)

// What it says about agents and their gateway.
var (
	AgentsOK        = code("agents_ok", OK, "{n:agent is|agents are} configured", "")
	WorkspaceLocked = code("workspace_locked", Fail, "the workspace of {agent} cannot be written to: {error}", "chmod u+w {path:sh}")
	CommandPlain    = code("command_not_executable", Fail, "the command of {agent} cannot be started: {path} is not executable", "chmod +x {path:sh}")
	CommandMissing  = code("command_missing", Fail, "the command of {agent} cannot be started: {error}", "install it, then: otm resume {agent:sh}", "name it by its path in agents.{agent}.command of otm.toml")
	GatewayBad      = code("gateway_bad", Fail, "{url}: {error}", "{hint}")
	GatewayOK       = code("gateway_ok", OK, "{url}, version {version}", "")
	GatewayNoList   = code("gateway_no_agents", Warn, "its agents are not known: {error}", "openclaw agents list")
	GatewayNoAgent  = code("gateway_no_agent", Fail, "it knows no agent {name:quoted}; it has {names}", "{hint}")
	GatewayOther    = code("gateway_other_workspace", Warn, "{name} works in {theirs}, and will not see its dispatch file in {ours}", "workspace = {theirs:quoted}   # in [agents.{agent}] of otm.toml")
	SkillUnknown    = code("skill_unknown", Warn, "whether {name} has the skill {skill} is not known: {error}", "openclaw skills check")
	SkillPath       = code("skill_path", Fail, "{name} has the skill {skill} and is not told of it: the gateway process does not find {missing} on its PATH", "ln -s {path:sh}/otm* ~/.local/bin/ && openclaw gateway restart")
	SkillDisabled   = code("skill_disabled", Warn, "{name} has the skill {skill}, which is disabled in openclaw.json", "openclaw config set skills.entries.{skill}.enabled true")
	SkillIneligible = code("skill_ineligible", Warn, "{name} has the skill {skill}, and the gateway does not take it for eligible", "openclaw skills info {skill}")
)
