#!/bin/sh
# Runs a command and fails when it changed files that are kept in the
# repository: what is generated must be what generating yields now.
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
trap 'rm -f "$before" "$after"' EXIT

state "$@" >"$before"
$command
state "$@" >"$after"

if ! cmp -s "$before" "$after"; then
	echo "These files were out of date and have been written anew by$command; look at them and commit them:"
	diff "$before" "$after" | sed -n 's/^[<>] [0-9]* [0-9]* /  /p' | sort -u
	exit 1
fi
