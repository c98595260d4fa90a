#!/bin/sh
# Prepares a real OpenClaw gateway for the tests: the package openclaw of the
# version $1 and a node of its own, from npm, no script of theirs run. It goes
# into ${OTM_GATEWAY_CACHE:-~/.cache/otm-gateway}, one folder a version, and is
# done once. Prints the folder, which OTM_TEST_GATEWAY may name, then the paths
# of node and openclaw.mjs in it.
set -eu
node=24 # openclaw 2026.9.6 wants 24.16
version=${1:?usage: scripts/gateway.sh VERSION}
case $version in *[!0-9A-Za-z.-]*) echo "gateway.sh: $version is no version" >&2; exit 64 ;; esac

case $(uname -s)-$(uname -m) in
Linux-x86_64) platform=linux-x64 ;;
Linux-aarch64) platform=linux-arm64 ;;
*) echo "gateway.sh: no node for $(uname -sm) is known to be on npm" >&2; exit 69 ;;
esac
command -v npm >/dev/null || { echo "gateway.sh: npm is missing" >&2; exit 69; }

cache=${OTM_GATEWAY_CACHE:-${HOME:?}/.cache/otm-gateway}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd -P)
repository=$(cd "$(dirname "$0")/.." && pwd -P)
case $cache/ in "$repository"/*) echo "gateway.sh: $cache lies inside the repository" >&2; exit 64 ;; esac

# A folder has its name once it is whole.
dir=$cache/$version
if [ ! -d "$dir" ]; then
	new=$cache/.new-$version-$$
	trap 'rm -rf "$new"' EXIT
	mkdir -p "$new/node" "$new/no-baileys"
	install() {
		(cd "$1" && shift && npm install --ignore-scripts --no-audit --no-fund --no-save --package-lock=false --loglevel=error "$@" >&2) ||
			{ echo "gateway.sh: npm did not get the gateway $version, see above; nothing was kept, run it again" >&2; exit 69; }
	}
	printf '{"name":"otm-gateway-node","private":true}\n' >"$new/node/package.json"
	install "$new/node" "node-$platform@$node"
	# A library for chats that none of the tests needs; 2026.3.13 has it from
	# an address of git.
	printf '{"name":"@whiskeysockets/baileys","version":"0.0.1"}\n' >"$new/no-baileys/package.json"
	cat >"$new/package.json" <<JSON
{
  "name": "otm-gateway",
  "private": true,
  "dependencies": {"openclaw": "$version"},
  "overrides": {"@whiskeysockets/baileys": "file:./no-baileys"}
}
JSON
	install "$new"
	"$new/node/node_modules/node-$platform/bin/node" "$new/node_modules/openclaw/openclaw.mjs" --version >&2
	ln -s "node_modules/node-$platform/bin/node" "$new/node/node"
	mv "$new" "$dir" 2>/dev/null || [ -d "$dir" ] # another one may have been faster
fi
printf '%s\n' "$dir" "$dir/node/node" "$dir/node_modules/openclaw/openclaw.mjs"
