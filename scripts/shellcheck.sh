#!/bin/sh
# Checks every shell script of the repository.
set -eu
cd "$(dirname "$0")/.."
command -v shellcheck >/dev/null || { echo "shellcheck is missing: install the package shellcheck" >&2; exit 1; }
git ls-files | while IFS= read -r file; do
	case $(head -c 64 "$file" | head -n 1) in
	'#!/bin/sh'* | '#!/usr/bin/env sh'* | '#!/bin/bash'* | '#!/usr/bin/env bash'*) shellcheck "$file" ;;
	esac
done
