#!/bin/sh
# postgres.sh COMMAND...: start Debian's PostgreSQL in a temporary directory, run the
# command with OTM_TEST_POSTGRES set to its URL, and stop it.
set -eu
bin=
for initdb in /usr/lib/postgresql/*/bin/initdb "$(command -v initdb || true)"; do
	[ ! -x "$initdb" ] || bin=$(dirname "$initdb")
done
[ -n "$bin" ] || {
	echo "postgres.sh: PostgreSQL is missing: apt-get install postgresql" >&2
	exit 1
}
dir=$(mktemp -d)

# PostgreSQL refuses to run as root.
as=
if [ "$(id -u)" = 0 ]; then
	chown postgres "$dir"
	as="runuser -u postgres --"
fi
log=$dir/log
stop() {
	$as "$bin/pg_ctl" -D "$dir/data" -m immediate -w stop >/dev/null 2>&1 || true
	rm -rf "$dir"
}
trap stop EXIT
trap 'exit 1' INT TERM HUP

fail() {
	cat "$log" >&2
	exit 1
}
cd "$dir"
$as "$bin/initdb" -D "$dir/data" -U otm -A trust >"$dir/initdb" 2>&1 || { cat "$dir/initdb" >&2; exit 1; }
# A socket of its own, and no port that others could have.
$as "$bin/pg_ctl" -D "$dir/data" -l "$log" -w -o "-c listen_addresses= -k $dir -c max_connections=300" start >/dev/null || fail
cd "$OLDPWD"
export OTM_TEST_POSTGRES="postgres:///postgres?host=$dir&user=otm"
"$@"
