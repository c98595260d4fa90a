#!/bin/sh
# A TypeScript client, generated from docs/openapi.json by a generator from npm, uses the
# API of a running otm: it makes a task, does it, and accepts it.
set -eu
cd "$(dirname "$0")/.."
command -v npm >/dev/null || { echo "npm is missing: install the packages nodejs and npm" >&2; exit 1; }
dir=$(mktemp -d)
up=
trap '[ -z "$up" ] || kill "$up"; wait; rm -rf "$dir"' EXIT
npm install --silent --ignore-scripts --no-audit --no-fund --prefix "$dir" openapi-typescript@7.13.0 openapi-fetch@0.17.0 typescript@5.9.3 @types/node@20.19.0
node "$dir/node_modules/openapi-typescript/bin/cli.js" docs/openapi.json -o "$dir/schema.d.ts" >/dev/null
cp scripts/api-client/client.ts "$dir"
echo '{"type":"module"}' >"$dir/package.json"
(cd "$dir" && node node_modules/typescript/bin/tsc --strict --target es2022 --module nodenext --skipLibCheck client.ts)

go build -o "$dir/otm" ./cmd/otm
export OTM_DIR="$dir/data" OTM_LOG_DIR="$dir/logs"
mkdir "$dir/devdas"
"$dir/otm" init >/dev/null 2>&1
cat >"$OTM_DIR/otm.toml" <<END
[board]
listen = "127.0.0.1:0"
[agents.devdas]
workspace = "$dir/devdas"
trigger = "none"
END
export OTM_TOKEN_FILE="$OTM_DIR/secrets/owner"
operator=$("$dir/otm" token create ci --role operator)
agent=$("$dir/otm" token create devdas --role bot)
mkfifo "$dir/address"
"$dir/otm" up >"$dir/address" 2>"$dir/errors" &
up=$!
read -r address <"$dir/address"
OTM_URL=${address%%/#*} OTM_OPERATOR=$operator OTM_AGENT=$agent node "$dir/client.js" || { cat "$dir/errors" >&2; exit 1; }
