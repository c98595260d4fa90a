#!/bin/sh
# Runs each fuzz target of the module for FUZZTIME (default 30s).
set -eu
cd "$(dirname "$0")/.."
git ls-files '*_test.go' | xargs grep -l '^func Fuzz' | while IFS= read -r file; do
	dir=$(dirname "$file")
	sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' "$file" | while IFS= read -r target; do
		echo "$dir $target"
		# What is found need not be made small for long: that takes the time of finding.
		go test "./$dir" -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}" -fuzzminimizetime 1s
	done
done
