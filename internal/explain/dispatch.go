package explain

// What a pass of the dispatcher reports. The sentences do not name the task: the
// code that prints them does.
var (
	TaskNoAgent = code("task_no_agent", Fail, "unknown agent {name:quoted}: no [agents.NAME] table of otm.toml has this name or label, and no gateway lists it", "otm assign {task} --to AGENT", "add an [agents.NAME] table to otm.toml")
	TaskTwoRows = code("task_two_rows", Fail, "two rows bear this id: its own, {own}, and {other} ({title:quoted})", "clear the Task ID of the latter")

	TaskStatusUnknown = code("task_status_unknown", Fail, "its row shows the status {status:quoted}, which OTM does not know: OTM leaves the row alone", "choose another status on the board")
	TaskIDTaken       = code("task_id_taken", Fail, "somebody changed the Task ID of its row, and another row, {title:quoted}, has that Task ID", "clear the Task ID of that other row")
	TaskIDAgain       = code("task_id_again", Fail, "somebody changed the Task ID of its row again after OTM wrote it back at {at:at}: it must be {task}", "check whether a second data directory uses this list")

	RowNoTaskID     = code("row_no_task_id", Fail, "row {title:quoted}: {cell:quoted} is no task id", "clear that cell on the board")
	RowNoAgent      = code("row_no_agent", Fail, "row {title:quoted}: unknown agent {name:quoted}: no [agents.NAME] table of otm.toml has this name or label, and no gateway lists it", "choose another assignee on the board", "add an [agents.NAME] table to otm.toml")
	RowUnfit        = code("row_unfit", Fail, "row {title:quoted}: {error}", "correct the row on the board")
	DispatchUnkept  = code("dispatch_unkept", Fail, "dispatch file in {path:quoted}: {error}", "otm doctor")
	WakeFailed      = code("wake_failed", Fail, "agent {agent}: {error}", "otm doctor")
	WakeBarred      = code("wake_barred", Fail, "agent {agent}: {error}", "otm doctor")
	WakeUnknown     = code("wake_unknown", Fail, "agent {agent}: not known what became of {key}: {error}", "otm doctor")
	WakeUnheard     = code("wake_unheard", Warn, "agent {agent} was woken {at:ago}, and has not acknowledged that by taking a task (turn {key}); it is woken again by itself", gateLog)
	AgentSeveral    = code("agent_several", Warn, "agent {agent} has {n} tasks in progress, and works on one at a time: {tasks}", "otm release {last}")
	AgentStateWrong = code("agent_state_wrong", Fail, "agent {agent}: {error}", "otm fsck")
)

// What is said of a task of which nothing was heard for long. The first one is no problem yet.
var (
	TaskQuiet         = code("task_quiet", OK, "{agent} took it and has reported nothing for {since:age}", "")
	ReworkQuiet       = code("rework_quiet", OK, "{agent} was given it back to be reworked, and has reported nothing for {since:age}", "")
	TaskSilent        = code("task_silent", Warn, "{agent} took it and has reported nothing for too long, the last time {since:ago}", release)
	TaskSilentLong    = code("task_silent_long", Fail, "{agent} took it and has reported nothing for very long, the last time {since:ago}", release, assign)
	ProcessSilent     = code("process_silent", Warn, "{agent} has reported nothing for too long, the last time {since:ago}, and its process, pid {pid}, runs on", stop)
	ProcessSilentLong = code("process_silent_long", Fail, "{agent} has reported nothing for very long, the last time {since:ago}, and its process, pid {pid}, runs on", stop)
	ProcessHolds      = code("process_holds", Fail, "{agent} has reported nothing since {since:at}, its process, pid {pid}, runs on, and {n:other task waits|other tasks wait} behind it", stop)
	TaskRests         = code("task_rests", Warn, "{status} for {since:age} by now, without a word of anybody", whyTask)
	TaskRestsLong     = code("task_rests_long", Fail, "{status} for {since:age} by now, without a word of anybody", whyTask)
)
