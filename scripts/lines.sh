#!/bin/sh
# Prints the Go lines of the product, per package and in sum. Tests, scripts/,
# packages whose name ends in "test", internal/crash and internal/leak do not
# count: no user gets them.
#
#	lines.sh             all packages
#	lines.sh DIR...      the packages below these directories
set -eu
cd "$(dirname "$0")/.."
git ls-files --cached --others --exclude-standard -- "$@" |
	grep '\.go$' |
	grep -v -e '_test\.go$' -e '^scripts/' -e 'test/[^/]*$' -e '^internal/crash/' -e '^internal/leak/' |
	while IFS= read -r file; do
		test -f "$file" || continue # deleted, and not committed yet
		echo "$(wc -l <"$file") $(dirname "$file")"
	done |
	awk '{ lines[$2] += $1; sum += $1 }
		END { for (p in lines) printf "%6d %s\n", lines[p], p | "sort -k2"; close("sort -k2"); printf "%6d in sum\n", sum }'
