#!/bin/sh
# Looks for known vulnerabilities in what we link. Where the database cannot be
# reached, that is said and passes: a build without a network is no worse.
set -eu
cd "$(dirname "$0")/.."
out=$(go tool govulncheck ./... 2>&1) && { echo "$out"; exit 0; }
case $out in
*"fetching vulnerabilities"*) echo "govulncheck: the vulnerability database is out of reach: not checked" ;;
*) echo "$out"; exit 1 ;;
esac
