package explain

// What a pass of the dispatcher reports. The sentences do not name the task: the
// code that prints them does.
var (
	TaskNoAgent = code("task_no_agent", Fail, "unknown agent {name:quoted}: no [agents.NAME] table of otm.toml has this name or label, and no gateway lists it", "add the table, or: otm assign {task} --to AGENT")
	TaskTwoRows = code("task_two_rows", Fail, "two rows bear this id: its own, {own}, and {other} ({title:quoted})", "clear the Task ID of the latter")

	TaskStatusUnknown = code("task_status_unknown", Fail, "its row shows the status {status:quoted}, which OTM does not know: OTM leaves the row alone", "choose another status on the board")
	TaskIDTaken       = code("task_id_taken", Fail, "somebody changed the Task ID of its row, and another row, {title:quoted}, has that Task ID", "clear the Task ID of that other row")
	TaskIDAgain       = code("task_id_again", Fail, "somebody changed the Task ID of its row again after OTM wrote it back at {at:at}: it must be {task}", "check whether a second data directory uses this list")

	RowNoTaskID     = code("row_no_task_id", Fail, "row {title:quoted}: {cell:quoted} is no task id", "clear that cell on the board")
	RowNoAgent      = code("row_no_agent", Fail, "row {title:quoted}: unknown agent {name:quoted}: no [agents.NAME] table of otm.toml has this name or label, and no gateway lists it", "add the table, or choose another assignee on the board")
	RowUnfit        = code("row_unfit", Fail, "row {title:quoted}: {error}", "correct the row on the board")
	DispatchUnkept  = code("dispatch_unkept", Fail, "dispatch file in {path:quoted}: {error}", "otm doctor")
	WakeFailed      = code("wake_failed", Fail, "agent {agent}: {error}", "otm doctor")
	WakeBarred      = code("wake_barred", Fail, "agent {agent}: {error}", "otm doctor")
	WakeUnknown     = code("wake_unknown", Fail, "agent {agent}: not known what became of {key}: {error}", "otm doctor")
	WakeUnheard     = code("wake_unheard", Warn, "agent {agent} was woken {at:ago}, and has not acknowledged that by taking a task (run {key})", "openclaw logs   # says what became of it; it is woken again by itself")
	AgentSeveral    = code("agent_several", Warn, "agent {agent} has {n} tasks in progress, and works on one at a time: {tasks}", "otm release {last}   # hands it out again; its agent is told")
	AgentStateWrong = code("agent_state_wrong", Fail, "agent {agent}: {error}", "otm fsck")
)

// What is said of a task of which nothing was heard for long. The first one is no problem yet.
var (
	TaskQuiet         = code("task_quiet", OK, "{agent} took it and has reported nothing for {since:age}", "")
	ReworkQuiet       = code("rework_quiet", OK, "{agent} was given it back to be reworked, and has reported nothing for {since:age}", "")
	TaskSilent        = code("task_silent", Warn, "{agent} took it and has reported nothing for too long, the last time {since:ago}", "look at the agent; to hand the task out again: otm release {task}")
	TaskSilentLong    = code("task_silent_long", Fail, "{agent} took it and has reported nothing for very long, the last time {since:ago}", "otm release {task}   # hands it out again; to give it to another agent: otm assign {task} --to AGENT")
	ProcessSilent     = code("process_silent", Warn, "{agent} has reported nothing for too long, the last time {since:ago}, and its process, pid {pid}, runs on", "look at what it does; to end it: otm stop {task}, then otm activate {task}")
	ProcessSilentLong = code("process_silent_long", Fail, "{agent} has reported nothing for very long, the last time {since:ago}, and its process, pid {pid}, runs on", "otm stop {task}   # ends it; to hand the task out again: otm activate {task}")
	ProcessHolds      = code("process_holds", Fail, "{agent} has reported nothing since {since:at}, its process, pid {pid}, runs on, and {n:other task waits|other tasks wait} behind it", "otm stop {task}   # ends it; to hand the task out again: otm activate {task}")
	TaskRests         = code("task_rests", Warn, "{status} for {since:age} by now, without a word of anybody", "otm why {task}   # says what is to be done")
	TaskRestsLong     = code("task_rests_long", Fail, "{status} for {since:age} by now, without a word of anybody", "otm why {task}   # says what is to be done")
)
