package explain

// What is said about components.
var (
	ComponentUnknown = code("component_unknown", Fail, "whether {component} runs is not known: {error}", "ls -l {path:sh}")
	ComponentNever   = code("component_never", Fail, "{component} has never run here", "{start}")
	ComponentAhead   = code("component_ahead", Fail, "{component} ran at {at:at}, which is ahead of this machine's clock", "timedatectl status")
	ComponentLate    = code("component_late", Fail, "{component} has not run for {at:age}", "{start}")
	// ComponentStands is ComponentLate where a process stays for it.
	ComponentStands  = code("component_stands", Fail, "{component} has not run for {at:age}, and its process {pid} stays: it was stopped, or hangs", "kill -CONT {pid}", "kill -9 {pid}")
	ComponentEnded   = code("component_ended", Fail, "{component} ran {at:ago} and does not run any more", "{start}")
	ComponentFailing = code("component_failing", Fail, "{component} failed {at:ago}: {details}", "tail {log:sh}")
	// ComponentStuck is ComponentFailing where it is known what to do.
	ComponentStuck     = code("component_stuck", Fail, "{component} failed {at:ago}: {details}", "{next}")
	ComponentOldConfig = code("component_old_config", Warn, "otm.toml was changed since {component} started, and does not count yet", "{apply}")
	ComponentWaits     = code("component_waits", Warn, "{component} waits for the board: the rate limit of {method} is reached until {until:at}", "")

	// RunTrouble is what ended a run early, in the heartbeat of the component.
	RunTrouble = code("run_trouble", Fail, "{error}", "otm doctor")
	// RunStuck is RunTrouble where it is known what to do.
	RunStuck      = code("run_stuck", Fail, "{error}", "{next}")
	RunNote       = code("run_note", Warn, "{note}", "")
	DropFailed    = code("drop_failed", Warn, "the drop {file} failed ({class}): {error}", "")
	DropKept      = code("drop_kept", Warn, "the drop {file} stays in the inbox: {reason}", "")
	ConfigChanged = code("config_changed", Warn, "otm.toml was changed since this process started", "{apply}")
	// ConfigBroken is ConfigChanged where a start would fail.
	ConfigBroken     = code("config_broken", Fail, "{error}; what runs goes on by what it read before, and nothing that starts now works, agents among it", "edit {path:sh}")
	DiskTakesNothing = code("disk_takes_nothing", Fail, "nothing can be written: {error}; what waits goes on by itself when there is room", "{hint}")
	ListFull         = code("list_full", Warn, "the list is full", "otm archive --older-than 0d")
	ListFullAt       = code("list_full_at", Warn, "the list is full ({rows} of {limit} rows)", "otm archive --older-than 0d")
	TokenRefused     = code("token_refused", Fail, "the board refuses the token: {error}", "otm init --slack --token-stdin")
	RateLimited      = code("rate_limited", OK, "the rate limit of {method} is reached until {until:at}", "")
)

// What is said about the folders of agents.
var (
	WorkspaceMissing    = code("workspace_missing", Fail, "the workspace of {agent} is missing: {path}", "mkdir -p {path:sh}")
	WorkspaceUnreadable = code("workspace_unreadable", Fail, "the workspace of {agent} cannot be read: {error}", "ls -ld {path:sh}")
	WorkspaceNoDir      = code("workspace_no_dir", Fail, "the workspace of {agent} is not a directory: {path}", "set agents.{agent}.workspace in otm.toml")
	WorkspaceSilent     = code("workspace_silent", Fail, "the workspace of {agent} does not answer, as its file system hangs: {path}", "mend or unmount that file system, or name another workspace in otm.toml: df {path:sh}")
)

// What is said about a directory as a whole.
var (
	NotifyFails    = code("notify_fails", Fail, "the outlet {outlet} of [notify] has taken nothing since {since:at}: {error}{needs}", "otm notify test")
	NotifyOff      = code("notify_off", Warn, "people have been told nothing since {since:at}: it was turned off", "otm notify on")
	NobodyLooks    = code("nobody_looks", Fail, "nobody has looked for incidents for {since:age}: {why}", "{start}")
	OpenClawUnread = code("openclaw_unread", Warn, "agents that only openclaw.json names are not known: {error}", "correct that file, or gateway.config of otm.toml")
	NoAgents       = code("no_agents", Fail, "no agent is configured: nothing can be handed out", "edit {config:sh}")
	BacklogOld     = code("backlog_old", Fail, "{n:drop waits|drops wait} in the inboxes, the oldest for {since:age}", "otm status")
	FilesFailed    = code("files_failed", Warn, "{n:drop|drops} failed", "otm dead")
	ListNearlyFull = code("list_nearly_full", Warn, "the list holds {rows} rows of {limit}", "otm archive --older-than 7d --yes")
)
