#!/bin/sh
# The specification's name for otm-create, with the same flags. otm-create is
# taken from beside this script, or its folder, else from the PATH.
here=$(dirname "$0")
for command in "$here/otm-create" "$here/../otm-create" "$here/../bin/otm-create"; do
	if [ -x "$command" ]; then
		exec "$command" "$@"
	fi
done
exec otm-create "$@"
