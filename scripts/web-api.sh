#!/bin/sh
# The board's suite with Slack's own client for Node, from npm, in the place of
# plain form calls.
set -eu
cd "$(dirname "$0")/.."
command -v npm >/dev/null || { echo "npm is missing: install the packages nodejs and npm" >&2; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
npm install --silent --ignore-scripts --no-audit --no-fund --prefix "$dir" @slack/web-api@8.2.0
OTM_TEST_SLACK_WEB_API=$dir go test -count=1 ./internal/board
