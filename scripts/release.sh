#!/bin/sh
# Makes the archives of a release in dist/: static programs for each platform,
# manual pages, completions, documents, the skill, and their checksums. The same
# commit makes the same bytes, wherever it is built.
#
#	release.sh              all platforms
#	release.sh linux/arm64  some of them
#	release.sh --check      only whether the links in what is shipped lead somewhere
set -eu
cd "$(dirname "$0")/.."
go=${GO:-go}
commands='otm otm-create otm-update otm-injector otm-dispatcher otm-completion-detector'
at=$(git log -1 --format=%ct)
export CGO_ENABLED=0 GOFLAGS=-trimpath SOURCE_DATE_EPOCH="$at"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# What is shipped beside the programs. Documents name files by links: where one
# leads to what is not there, there is no release.
stage() {
	mkdir -p "$1/scripts"
	cp -R LICENSE README.md CHANGELOG.md CONTRIBUTING.md docs skills "$1/"
	rm "$1"/skills/*.go
	cp scripts/otm-create-task.sh scripts/otm-update-task.sh "$1/scripts/"
	broken=$(cd "$1" && find . -name '*.md' | while IFS= read -r file; do
		{ grep -o '](\([^)]*\))' "$file" || true; } | sed 's/^](//; s/[)#].*//' | while IFS= read -r link; do
			case $link in
			'' | http://* | https://*) ;;
			*) test -e "$(dirname "$file")/$link" || echo "release: $file links to $link, which is not shipped" ;;
			esac
		done
	done)
	if [ -n "$broken" ]; then
		echo "$broken" >&2
		return 1
	fi
}
stage "$tmp/common"
if [ "${1-}" = --check ]; then
	exit
fi
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
rm -rf dist
mkdir dist

# The version is what the build knows: a tag of this commit, or made of its
# time and its hash.
"$go" build -buildvcs=true -o "$tmp/otm" ./cmd/otm
version=$("$tmp/otm" --version | cut -d ' ' -f 3)
case $version in
*+dirty*) echo "release: the tree has changes that are not committed: $version can be made by nobody else" >&2 ;;
esac
"$go" run ./scripts/man "$tmp/share" "$version" "$at"
"$go" build -o "$tmp/pack" ./scripts/pack

for platform; do
	os=${platform%/*} arch=${platform#*/}
	name=otm_${version}_${os}_$arch
	cp -R "$tmp/common" "$tmp/$name"
	for command in $commands; do
		# Without the path of this folder and the settings of this machine.
		GOOS=$os GOARCH=$arch GOAMD64=v1 GOARM64=v8.0 "$go" build -buildvcs=true -ldflags='-s -w -buildid=' -o "$tmp/$name/$command" "./cmd/$command"
	done
	cp -R "$tmp/share/man" "$tmp/share/completions" "$tmp/$name/"
	"$tmp/pack" "dist/$name.tar.gz" "$tmp/$name" "$name" "$at"
	echo "dist/$name.tar.gz"
done
cd dist
if command -v sha256sum >/dev/null; then sha256sum ./*.tar.gz; else shasum -a 256 ./*.tar.gz; fi | sed 's|\./||' >SHA256SUMS
echo dist/SHA256SUMS
