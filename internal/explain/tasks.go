package explain

// What is said about tasks that are not on the board yet, or no more.
var (
	TaskInInbox       = code("task_in_inbox", OK, "has waited in the inbox for {since:age}", "")
	CreateFailed      = code("create_failed", Warn, "its file failed {at:ago} ({class}): {error}", "otm retry {file:sh}")
	CreateConflict    = code("create_conflict", Warn, "its file failed {at:ago} ({class}): {error}", "otm retry {file:sh} --new-id")
	CreateInvalid     = code("create_invalid", Warn, "its file failed {at:ago} ({class}): {error}", "correct {path:sh}, then run: otm retry {file:sh}")
	RowComing         = code("row_coming", OK, "is being put on the board, since {since:ago}", "")
	RowNotMade        = code("row_not_made", OK, "its row could not be made yet", "")
	RowAsked          = code("row_asked", OK, "its row was asked for {at:ago} and no answer came; the injector looks for it on the board before it makes it again", "")
	StepsMade         = code("steps_made", OK, "{made} of its {all} steps stand on the board", "")
	EffectUndelivered = code("effect_undelivered", Warn, "{error}", "otm why {task}")
	TaskVanished      = code("task_vanished", Fail, "its file was processed, and neither the store nor the board has it", "otm fsck")
	TaskUnused        = code("task_unused", OK, "was never given to a task, as far as OTM knows: an otm-create that was stopped reserved it, or somebody used a higher id", "")
	TaskUnknown       = code("task_unknown", OK, "was never issued", "otm list")
	TaskArchived      = code("task_archived", OK, "archived {at:ago}", "otm history {task}")
	LastSaid          = code("last_said", OK, "{by} said {at:ago}: {text}", "")
	DropUnread        = code("drop_unread", Warn, "its file cannot be read: {error}", "ls -l {path:sh}")
	FileUnread        = code("file_unread", Warn, "but {error}", "")
	UpdatesWait       = code("updates_wait", OK, "{n:update of it waits|updates of it wait} in the inbox, the oldest for {since:age}", "")
	UpdateFailed      = code("update_failed", Warn, "an update of it failed {at:ago} ({class}): {error}", "otm retry {file:sh}, or remove it: rm {path:sh}")
	UpdateConflict    = code("update_conflict", Warn, "an update of it failed {at:ago} ({class}): {error}", "rm {path:sh}   # or, once the task has changed: otm retry {file:sh}")
	UpdateInvalid     = code("update_invalid", Warn, "an update of it failed {at:ago} ({class}): {error}", "correct {path:sh}, then run: otm retry {file:sh}, or remove it: rm {path:sh}")
)

// What is said about rows of the board.
var (
	RowUnassigned = code("row_unassigned", OK, "nobody is assigned", "choose an assignee on the board")
	RowUntitled   = code("row_untitled", OK, "typed on the board without a title", "give it a title on the board")
	RowOver       = code("row_over", OK, "typed on the board as {status}: OTM leaves it alone", "")
	RowStranger   = code("row_stranger", Warn, "unknown agent {name:quoted}", "add [agents.{name:sh}] to {config:sh}, or choose an agent on the board: {names}")
	RowOdd        = code("row_odd", Warn, "a cell of its row has a form that OTM cannot read", "choose its values anew on the board: Assignee, Status, Priority and Task ID")
	RowBadID      = code("row_bad_id", Warn, "its Task ID says {cell:quoted}, which is no task id", "clear that cell on the board: the row gets an id of its own")
	RowCopied     = code("row_copied", Warn, "it bears the id of {other}, which is another row", "clear its Task ID on the board: the row gets an id of its own")
	RowNoRecord   = code("row_no_record", OK, "{status} on the board, and the store does not have it: the dispatcher's next pass takes it over", "")
	RowNotNew     = code("row_not_new", Warn, "typed on the board as {status}: only new ones are taken up", "set it to new on the board")
	RowSettling   = code("row_settling", OK, "typed on the board {since:ago}: it is taken up when nobody has changed it for {still}", "")
	RowTyped      = code("row_typed", OK, "typed on the board; the dispatcher's next pass takes it up", "")
	RowHalfTaken  = code("row_half_taken", OK, "typed on the board, and not taken up completely", "")
	RowIDChanged  = code("row_id_changed", OK, "somebody changed the Task ID of its row; the dispatcher writes it back when nobody has changed the row for a while", "")
	RowIDTaken    = code("row_id_taken", Warn, "somebody changed the Task ID of its row, and it cannot be written back while another row, {title:quoted}, bears it", "clear the Task ID of that row on the board: it gets an id of its own")
	RowIDTwice    = code("row_id_twice", Warn, "another row, {title:quoted}, bears its id, too", "clear the Task ID of that row on the board: it gets an id of its own")
	RowBack       = code("row_back", OK, "its row was gone and is back: the dispatcher's next pass continues it", "")
	RowGone       = code("row_gone", Warn, "somebody deleted or archived its row on the board, seen {at:ago}, or otm.toml names another board since: it is not made again", "restore the row on the board, or name the old board in otm.toml again")
	RowGoneOver   = code("row_gone_over", OK, "{status}; somebody deleted or archived its row on the board, seen {at:ago}", "")
	RowAway       = code("row_away", Warn, "its row was not on the board when it was last read: somebody deleted or archived it, or otm.toml names another board now: it is not made again", "restore the row on the board, or name the old board in otm.toml again")
	RowAwayOver   = code("row_away_over", OK, "{status}; its row was not on the board when it was last read", "")
)

// What is said about tasks by their status.
var (
	Unassigned   = code("unassigned", OK, "nobody is assigned", "otm assign {task} --to AGENT   # one of: {names}")
	WaitsForPass = code("waits_for_pass", OK, "waits for the dispatcher's next pass", "")
	PersonsTurn  = code("persons_turn", OK, "{status} {since:ago}, with {agent}, a person", "otm accept {task}   # when {agent} has done it")
	Blocked      = code("blocked", Warn, "blocked {since:ago}: {reason}", "otm unblock {task} --reason 'the answer'   # or answer on the page: otm board --link")
	ToReview     = code("to_review", OK, "agent_done {since:ago}, waits for review", "otm accept {task}   # or send it back: otm rework {task} --reason 'what is missing'")
	RetryWaits   = code("retry_waits", OK, "run {run} failed {at:ago} ({how}); the next one begins {until:when}", "{look}   # to begin it now: otm requeue {task}")
	DeadLetter   = code("dead_letter", Warn, "failed {at:ago}, after {n:run|runs}: {how}", "{look}   # then: otm requeue {task} --reset, otm assign {task} --to AGENT, or otm cancel {task} --reason 'why'")
	SetFailed    = code("set_failed", Warn, "failed {at:ago}{by}: {reason}", "otm requeue {task}, otm assign {task} --to AGENT, or otm cancel {task} --reason 'why'")
	IsOver       = code("is_over", OK, "{status} {since:ago}{by}", "")
	Rejected     = code("rejected", OK, "rejected {since:ago}{by}: it rests", "otm rework {task} --reason 'what is to be done'")
	SetAside     = code("set_aside", OK, "{status} {since:ago}{by}: OTM leaves it alone", "otm activate {task}   # hands it out again")
	AgentUnknown = code("agent_unknown", Warn, "unknown agent {name:quoted}", "otm assign {task} --to AGENT   # one of: {names}; or add [agents.{name:sh}] to {config:sh}")
	AgentGuessed = code("agent_guessed", Warn, "unknown agent {name:quoted}", "otm assign {task} --to {near:sh}   # or add [agents.{name:sh}] to {config:sh}")
	AgentRemoved = code("agent_removed", Warn, "unknown agent {name:quoted}", "otm assign {task} --to AGENT   # one of: {names}")
)

// silentAgent is what is said about an agent that took a task and does not report.
const silentAgent = "{agent} took it and has reported nothing for too long, the last time {since:ago}"

// What is said about tasks that an agent has.
var (
	Dispatched     = code("dispatched", OK, "dispatched to {agent} {since:ago}", "")
	Taken          = code("taken", OK, "{agent} took it {at:ago} and has reported nothing yet", "")
	LooksByItself  = code("looks_by_itself", OK, "not taken: {agent} looks for tasks by itself", "tell {agent} to run: otm next --agent {agent:sh}")
	TakenEnded     = code("taken_ended", Warn, "was taken by {agent}, whose last run ended {at:ago} ({exit})", "tail {log:sh}   # what it printed; to hand the task out again: otm release {other}")
	TakenGone      = code("taken_gone", Warn, "was taken by {agent}, whose process runs no more; nobody saw how it ended", "tail {log:sh}   # what it printed; to hand the task out again: otm release {other}")
	TurnOver       = code("turn_over", OK, "the turn of {agent} at the gateway ended {at:ago} without a result of {other}; commands that it began may go on, so it is woken to continue {next:when}", "")
	WaitsBehind    = code("waits_behind", OK, "waits behind {other}, which {agent} has taken", "")
	BehindEnded    = code("behind_ended", Warn, "waits behind {other}, which was taken by {agent}, whose last run ended {at:ago} ({exit})", "tail {log:sh}   # what it printed; to hand that task out again: otm release {other}")
	BehindGone     = code("behind_gone", Warn, "waits behind {other}, which was taken by {agent}, whose process runs no more; nobody saw how it ended", "tail {log:sh}   # what it printed; to hand that task out again: otm release {other}")
	WakeUnread     = code("wake_unread", Warn, "whether {agent} was woken for it is not known: {error}", "otm fsck")
	LimitReached   = code("limit_reached", OK, "{agent} waits: {n:agent is|agents are} at work, as many as max_running allows", "")
	NotWoken       = code("not_woken", OK, "{agent} was not woken for it yet", "")
	ProcessStarted = code("process_started", OK, "the process of {agent} was started {at:ago}, and has not taken it yet", "")
	ProcessOver    = code("process_over", Warn, "the process of {agent}, pid {pid}, still runs for {other}, which is {status}: nothing else is started meanwhile", "wait for its end, or end it with all that it started: kill -- -{pid}")
	WakeRefused    = code("wake_refused", Warn, "the wake was refused {at:ago}: {error}", "correct that; {agent} is woken again {next:when}, or at once: otm resume {agent:sh}")
	WakeUnanswered = code("wake_unanswered", Warn, "no answer came to the wake of {at:ago}", "otm doctor   # checks whether the gateway is there, and takes the token")
	RunFailed      = code("run_failed", Warn, "{agent} was woken {at:ago}, but its run at the gateway failed, and it took nothing: {exit}", "openclaw logs   # the gateway's log says more; {again}")
	ProcessIdle    = code("process_idle", Warn, "the process of {agent} was started {at:ago}, ended ({exit}), and took nothing", "tail {log:sh}   # what it printed; it should run: otm next --agent {agent:sh}")
	RunOver        = code("run_over", OK, "the last run of {agent} ended {at:ago} and worked on other tasks; it is started again {next:when}", "")
	WokenNotTaken  = code("woken_not_taken", OK, "{agent} was woken {at:ago} and has not taken it", "{again}")
	AtWorkUnseen   = code("at_work_unseen", Warn, "{agent} was at work on it, {open} of {all} steps open, last heard {heard:ago}", "")
	AtWork         = code("at_work", OK, "{agent} works on it, {open} of {all} steps open, last heard {heard:ago}", "")
	StepsDeleted   = code("steps_deleted", OK, "all its steps were deleted on the board: the agent has to report agent_done itself, last heard {heard:ago}", "")
	StepsTicked    = code("steps_ticked", OK, "every step was ticked before: the agent has to report agent_done itself, last heard {heard:ago}", "")
	StepsDone      = code("steps_done", OK, "all steps are done; the completion detector's next pass ends it", "")
	AgentSilent    = code("agent_silent", Warn, silentAgent, "look at the agent, which is woken again if other tasks wait; to hand this one out again: otm release {task}")
	AgentSilentOwn = code("agent_silent_own", Warn, silentAgent, "look at the agent; to hand the task out again: otm release {task}")
)

// What is said about the task of which a task is a part.
var (
	PartOf        = code("part_of", OK, "it is part of {other}, which is {status}", "")
	PartOfUnknown = code("part_of_unknown", OK, "it is part of {other}, which OTM does not know", "")
)

// What is said about agents by how their runs went.
var (
	AgentPaused     = code("agent_paused", Warn, "{by} paused {agent} {since:ago}{reason}: OTM does not start it, and otm next gives it no task", "otm resume {agent:sh}")
	AgentPausing    = code("agent_pausing", Warn, "the last run of {agent} ended {ended:ago} without progress ({how}); it is started again {next:when}", "{look}   # to start it now: otm resume {agent:sh}")
	AgentLater      = code("agent_later", OK, "{agent} asked {ended:ago} to be started later ({how}); it is started again {next:when}", "{look}   # to start it now: otm resume {agent:sh}")
	AgentLeftAlone  = code("agent_left_alone", Fail, "{agent} is left alone: {n:run|runs} in a row ended without progress, the last {ended:ago} ({how}); the next probe starts {next:when}", "{look}   # to start it now: otm resume {agent:sh}")
	AgentEnding     = code("agent_ending", Warn, "OTM told the process of {agent}, pid {pid}, {since:ago} to end, as {task} {why}", "wait; if it does not end: kill -KILL -- -{pid}")
	AgentRuns       = code("agent_runs", OK, "the process of {agent}, pid {pid}, has run since {since:ago}: OTM starts nothing beside it", "wait for its end, or end it with all that it started: kill -- -{pid}")
	AgentHangs      = code("agent_hangs", Warn, "the process of {agent}, pid {pid}, runs and has taken nothing for {since:age}", "find out what it waits for, or end it with all that it started: kill -- -{pid}")
	AgentUnread     = code("agent_unread", Warn, "how the runs of {agent} went is not known: {error}", "otm fsck")
	GatewayDown     = code("gateway_down", Fail, "the gateway has not been reachable since {since:ago}: {error}; OTM connects again by itself, and then asks what became of its runs", "openclaw gateway status")
	GatewayRefusing = code("gateway_refusing", Fail, "the gateway has refused OTM since {since:ago}: {error}", "otm doctor   # says what to do about it")
)

// What is said about a sink that does not have a task as the store has it.
var (
	EffectFails = code("effect_fails", Warn, "the {sink} does not show it as it is since {since:at}, after {tries:try|tries}: {error}", "otm doctor")
	EffectWaits = code("effect_waits", Warn, "the {sink} does not show it as it is since {since:at}, and its turn has not come", "otm-completion-detector --once   # has it done; otm status says what runs")
	EffectsFail = code("effects_fail", Warn, "the {sink} does not show {n:task|tasks} as they are, the first since {since:at}: {error}", "otm doctor")
	EffectsWait = code("effects_wait", Warn, "the {sink} does not show {n:task|tasks} as they are, the first since {since:at}, and their turn has not come", "otm-completion-detector --once   # has it done; otm status says what runs")
)
