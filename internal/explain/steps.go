package explain

// The lines that several findings give. Each step has one spelling, here. Where a person has
// to write something, it has "…": no command takes that as a reason.
const (
	dispatchOnce = "otm-dispatcher --once"

	whyTask  = "otm why {task}"
	accept   = "otm accept {task}"
	activate = "otm activate {task}"
	answer   = "otm unblock {task} --reason '…'"
	assign   = "otm assign {task} --to AGENT"
	claim    = "otm next --agent AGENT   # an agent that runs it claims the most urgent one"
	release  = "otm release {task}"
	giveUp   = "otm cancel {task} --reason '…'"
	free     = "otm release {other}" // of another task
	requeue  = "otm requeue {task} --reset"
	resume   = "otm resume {agent:sh}"
	retryNow = "otm requeue {task}" // it waits for a retry
	sendBack = "otm rework {task} --reason '…'"
	stop     = "otm stop {task}"

	lookAt  = "{look}"
	tailLog = "tail {log:sh}"
	killAll = "kill -- -{pid}"
	gateLog = "openclaw logs"
	removed = "rm {path:sh}"
	again   = "otm retry {file:sh}"
)
