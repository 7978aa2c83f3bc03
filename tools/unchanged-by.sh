#!/bin/sh
# Runs a command and fails when it changed files that are kept in the
# repository: what is generated must be what generating yields now. Files
# that were written anew with the same content keep their times, so that
# nothing is built again for them.
#
# usage: unchanged-by.sh COMMAND … -- FOLDER…
set -eu

command=
while [ "$1" != -- ]; do
	command="$command $1"
	shift
done
shift

state() { find "$@" -type f -exec cksum {} + 2>/dev/null | LC_ALL=C sort -k 3; }

before=$(mktemp)
after=$(mktemp)
times=$(mktemp -d)
trap 'rm -rf "$before" "$after" "$times"' EXIT

state "$@" >"$before"
tar -cf "$times/files" "$@"
$command
state "$@" >"$after"

# The archive has the times from before; what has the same content gets them back.
tar -xf "$times/files" -C "$times"
find "$@" -type f | while IFS= read -r file; do
	if cmp -s "$file" "$times/$file"; then touch -r "$times/$file" "$file"; fi
done

if ! cmp -s "$before" "$after"; then
	echo "These files were out of date and have been written anew by$command; look at them and commit them:"
	diff "$before" "$after" | sed -n 's/^[<>] [0-9]* [0-9]* /  /p' | sort -u
	exit 1
fi
