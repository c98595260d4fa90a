package explain

// What a pass of the dispatcher reports. The sentences do not name the task: the
// code that prints them does.
var (
	TaskNoAgent = code("task_no_agent", Fail, "unknown agent {name:quoted}: no [agents.NAME] table of otm.toml has this name or label, and no gateway lists it", "add the table, or: otm assign {task} --to AGENT")
	TaskTwoRows = code("task_two_rows", Fail, "two rows bear this id: its own, {own}, and {other} ({title:quoted})", "clear the Task ID of the latter")
	TaskSilent  = code("task_silent", Warn, silentAgent, "look at the agent; to hand the task out again: otm release {task}")

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
	AgentStateWrong = code("agent_state_wrong", Fail, "agent {agent}: {error}", "otm fsck")
)
