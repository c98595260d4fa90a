#!/bin/sh
# Installs OTM under a real user's systemd and looks whether it does what the
# units promise. Needs root, to make namespaces of its own in which that systemd
# runs, and the packages systemd and util-linux. Nothing outside of a temporary
# directory is changed.
set -eu
if [ "${1:-}" != inside ]; then
	cd "$(dirname "$0")/.."
	for program in unshare systemd systemctl; do
		command -v "$program" >/dev/null || { echo "install-check: $program is missing: not checked"; exit 0; }
	done
	if ! unshare -m -p -f --mount-proc true 2>/dev/null; then
		echo "install-check: namespaces cannot be made here: not checked"
		exit 0
	fi
	work=$(mktemp -d "$HOME/otm-check.XXXXXX") # not in /tmp, which the sandbox leaves open
	trap 'rm -rf "$work"' EXIT
	# Each of these characters means something to systemd.
	# shellcheck disable=SC2016 # not to be expanded
	bin=$work/'b %n $HOME é'
	mkdir "$bin"
	CGO_ENABLED=0 "${GO:-go}" build -trimpath -o "$bin/" ./cmd/otm ./cmd/otm-create ./cmd/otm-update ./cmd/otm-injector ./cmd/otm-dispatcher ./cmd/otm-completion-detector
	unshare -m -p -f --kill-child --mount-proc sh scripts/install-check.sh inside "$work" "$bin"
	exit
fi

work=$2
PATH=$3:$PATH
HOME=$work/home
# shellcheck disable=SC2016,SC2089 # neither to be expanded, nor to quote anything
OTM_DIR=$work/'data %h ${X} "d'\''y\z é'/otm
XDG_RUNTIME_DIR=/run/user/0
# shellcheck disable=SC2090
export PATH HOME OTM_DIR XDG_RUNTIME_DIR
unset XDG_CONFIG_HOME XDG_DATA_HOME OTM_LOG_DIR OPENCLAW_DATA_DIR

say() { printf 'install-check: %s\n' "$*"; }
fail() {
	say "FAILED: $*"
	systemctl --user status --no-pager 'otm-*' || true
	for log in "$OTM_DIR"/logs/*.log; do echo "== $log"; tail -n 5 "$log"; done
	tail -n 20 "$work/systemd.log"
	exit 1
}
installs() { otm install --systemd "$@" || fail "otm install $*"; }
# until_ok WHAT COMMAND…: waits for the command to succeed.
until_ok() {
	what=$1
	shift
	i=0
	until "$@" >/dev/null 2>&1; do
		i=$((i + 1))
		[ "$i" -lt 400 ] || fail "waited in vain for $what"
		sleep 0.1
	done
}
pid_of() { systemctl --user show -P MainPID "$1"; }
active() { systemctl --user is-active --quiet "$@"; }
another_pid() { [ "$(pid_of "$1")" != 0 ] && [ "$(pid_of "$1")" != "$2" ] && [ -e "/proc/$(pid_of "$1")" ]; }
beat() { grep -o '"sequence":[0-9]*' "$OTM_DIR/$1-state.json"; }
another_beat() { [ "$(beat "$1")" != "$2" ]; }
data() { (cd "$OTM_DIR" && cat otm.toml && rm -f board/endpoint.json && find . -type f ! -path './locks/*' ! -path './logs/*' ! -name '*-state.json' ! -name '*-wal' ! -name '*-shm' | sort); }
swept() { [ -z "$(ls "$OTM_DIR/new-tasks")" ]; }
shown() { otm show "$1" | grep -q "$2"; }

mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system "$XDG_RUNTIME_DIR" "$HOME" "$work/ws" "${OTM_DIR%/*}"
systemd --user >"$work/systemd.log" 2>&1 &
until_ok "systemd" systemctl --user show

otm init >/dev/null
cat >"$work/agent.sh" <<'AGENT'
echo $$ >agent.pid
otm next --agent devdas >next.txt
until [ -e finish ]; do sleep 0.1; done
otm-update --task-id "$OTM_TASK_ID" --subtask-done 1
AGENT
config() {
	printf '[board]\nlisten = "127.0.0.1:0"\n[agents.devdas]\nworkspace = "%s/ws"\n' "$work" >"$OTM_DIR/otm.toml"
	[ "$1" != exec ] || printf 'command = ["sh", "%s/agent.sh"]\n' "$work" >>"$OTM_DIR/otm.toml"
}
units=$HOME/.config/systemd/user

say "residents, with an agent that is started"
config exec
installs
for unit in otm-board otm-injector otm-dispatcher otm-completion-detector; do
	until_ok "$unit" active $unit.service
done
until_ok "heartbeats" test -e "$OTM_DIR/otm-injector-state.json" -a -e "$OTM_DIR/otm-dispatcher-state.json" -a -e "$OTM_DIR/otm-completion-detector-state.json"

say "a daemon that is killed comes back"
was=$(pid_of otm-injector)
kill -9 "$was"
until_ok "the injector to come back" another_pid otm-injector "$was"
say "  injector $was, then $(pid_of otm-injector), restarts: $(systemctl --user show -P NRestarts otm-injector)"

say "an agent outlives the unit that started it"
id=$(otm-create --title 'Outlive it' --agent devdas)
until_ok "the agent to take the task" grep -q "$id" "$work/ws/next.txt"
agent=$(cat "$work/ws/agent.pid")
systemctl --user stop otm-dispatcher
active otm-dispatcher && fail "the dispatcher was not stopped"
sleep 1
[ -e "/proc/$agent" ] || fail "the agent was stopped with its dispatcher"
systemctl --user start otm-dispatcher
touch "$work/ws/finish"
until_ok "the task to be done" shown "$id" agent_done
[ "$(cat "$work/ws/agent.pid")" = "$agent" ] || fail "the agent was started a second time"
say "  agent $agent went on while the dispatcher was stopped, and finished $id"

say "once more writes nothing, and restarts the services"
was=$(pid_of otm-injector)
installs >"$work/again.txt"
grep -q '^written\|^renewed' "$work/again.txt" && fail "it wrote again: $(cat "$work/again.txt")"
another_pid otm-injector "$was" || fail "the injector was not restarted"

say "without started agents, the dispatcher is hardened, and works"
config none
installs >"$work/renewed.txt"
grep '^renewed.*otm-dispatcher.service' "$work/renewed.txt" || fail "the dispatcher's unit was not renewed"
grep -q '^ProtectSystem=strict' "$units/otm-dispatcher.service" || fail "it has no sandbox"
id=$(otm-create --title 'In a sandbox' --agent devdas)
until_ok "the dispatch file" grep -q "$id" "$work/ws/task-dispatch.json"
nsenter -m -t "$(pid_of otm-dispatcher)" sh -c "touch '$work/ws/x' && ! touch '$work/home/x' 2>/dev/null" || fail "the sandbox is not what it should be"

say "an agent that is added, and whose workspace is made later, is served after otm install"
printf '[agents.late]\nworkspace = "%s/late"\n' "$work" >>"$OTM_DIR/otm.toml"
stale() { otm doctor | grep -q 'warn *units .*otm-dispatcher.service is stale'; }
stale || fail "doctor does not say that the units are older than otm.toml"
before=$(pid_of otm-injector)
installs >/dev/null
another_pid otm-injector "$before" || fail "the injector goes on with the old otm.toml"
stale && fail "doctor says that the units are stale"
mkdir "$work/late"
stale || fail "doctor does not say that the workspace was made"
installs >/dev/null
id=$(otm-create --title 'For the late one' --agent late)
until_ok "the dispatch file" grep -q "$id" "$work/late/task-dispatch.json"

say "with somebody to tell, the watchdog is a service, too, and comes back"
printf '[notify]\ncommand = ["sh", "-c", "cat >>%s/told"]\n' "$work" >>"$OTM_DIR/otm.toml"
installs >/dev/null
until_ok "the watchdog" active otm-watchdog.service
was=$(pid_of otm-watchdog)
kill -9 "$was"
until_ok "the watchdog to come back" another_pid otm-watchdog "$was"
otm notify test >/dev/null || fail "otm notify test"
grep -q test "$work/told" || fail "nobody was told of the test"
systemctl --user stop otm-dispatcher
# It looked for incidents long ago. The watchdog looks once a minute, and tells the third time.
sed -i 's/:"20[0-9][0-9]-/:"2020-/g' "$OTM_DIR/otm-monitor-state.json"
for _ in 1 2 3 4; do
	grep -q otm-dispatcher "$work/told" || sleep 40
done
until_ok "people to be told" grep -q otm-dispatcher "$work/told"
systemctl --user start otm-dispatcher

say "bad configuration is not tried again and again"
echo 'no such key = 1' >>"$OTM_DIR/otm.toml"
systemctl --user daemon-reload
systemctl --user restart otm-injector || true
until_ok "the injector to fail" systemctl --user is-failed otm-injector
sleep 6
[ "$(systemctl --user show -P NRestarts -P ExecMainStatus otm-injector | tr '\n' ' ')" = "78 0 " ] ||
	[ "$(systemctl --user show -P NRestarts -P ExecMainStatus otm-injector | tr '\n' ' ')" = "0 78 " ] || fail "it was restarted, or ended with another code"
config none
installs >/dev/null
active otm-injector || fail "once it is mended, otm install does not start it"

say "what a former version wrote goes, too"
sed "s/otm-injector/otm-sweeper/g" "$units/otm-injector.service" >"$units/otm-sweeper.service"
systemctl --user daemon-reload
installs >/dev/null
[ ! -e "$units/otm-sweeper.service" ] || fail "the unit of a former version is still there"

say "uninstall takes what is ours, and no data"
printf '[Service]\nExecStart=/bin/true\n' >"$units/otm-sweeper.service"
data >"$work/before"
installs --uninstall
data >"$work/after"
[ "$(find "$units" -name 'otm-*' -o -name 'ai.*')" = "$units/otm-sweeper.service" ] || fail "something is left, or somebody else's unit was removed"
for exe in /proc/[0-9]*/exe; do
	case $(readlink "$exe") in "$work"/*) fail "$exe still runs" ;; esac
done
cmp "$work/before" "$work/after" || fail "data changed"
shown "$id" 'For the late one' || fail "the data is not there"
say "ok"
