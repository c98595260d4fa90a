#!/bin/sh
# An orchestrator that leads a whole project by commands alone: it splits its task, gives
# the parts to others, listens to what happens, answers, reviews, sends work back, gives a
# dead letter to somebody else, and reports. Where a model would think, a line says so.
#
# OTM starts it for a task of its agent:
#
#	[agents.claudia]
#	workspace = "/home/rob/agents/claudia"
#	command = ["sh", "project.sh"]
#	[review]
#	agents = ["claudia"]
set -eu

# otm next says which task it is. It may be another one than the process was started for.
mine=$(otm next --agent "$OTM_AGENT" --json)
me=${mine#*'"taskId":"'} me=${me%%'"'*}
run=${mine#*'"run":'} run=${run%%[!0-9]*}

# A key makes a create safe to repeat: if this script dies, the next run gets the same ids.
task() { otm-create --parent "$me" --key "$me/$1" --agent "$2" --title "$3" --wait; }
form=$(task form archibald 'Build the form')
texts=$(task texts tessa 'Write the error texts')
check=$(task check archibald 'Check the page')
project="$form $texts $check"
otm-update --task-id "$me" --run "$run" --note "Split into $project" --percent 10

# Listen. What happened before a restart is told again; what was dealt with is refused then.
told=$(mktemp -u)
mkfifo "$told"
otm events --follow --json --type TaskMoved --since 24h >"$told" &
listener=$!
trap 'kill "$listener"; rm -f "$told"' EXIT
open="$project "
while read -r event; do
	id=$(expr "$event" : '.*"task_id":"\(T-[0-9]*\)"') || continue
	case " $project " in *" $id "*) ;; *) continue ;; esac
	case $event in
	*'"to":"blocked"'*)
		# Read the question: otm show "$id". A model would think of the answer.
		otm say --unblock "$id" 'Green.' || true
		;;
	*'"to":"agent_done"'*)
		# Read the result. A model would judge it; this one wants to see tests.
		if otm show "$id" | grep -q 'with tests'; then
			otm accept "$id" || true
		else
			otm rework "$id" --reason 'There are no tests' --add-step 'Add tests' || true
		fi
		;;
	*'"to":"failed"'*)
		otm assign "$id" --to archibald || true
		;;
	*'"to":"done"'*)
		open=$(printf '%s\n' "$open" | sed "s/$id //")
		test -n "$open" || break
		;;
	esac
done <"$told"

otm-update --task-id "$me" --run "$run" --subtask-done 1 --status agent_done --result "The login page is done: $project"
