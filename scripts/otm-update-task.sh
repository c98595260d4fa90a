#!/bin/sh
# The specification's name for otm-update, with the same flags. otm-update is
# taken from beside this script, or its folder, else from the PATH.
here=$(dirname "$0")
for command in "$here/otm-update" "$here/../otm-update" "$here/../bin/otm-update"; do
	if [ -x "$command" ]; then
		exec "$command" "$@"
	fi
done
exec otm-update "$@"
