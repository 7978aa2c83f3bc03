#!/bin/sh
# Builds a program and says how far it has come: the first build compiles
# Kubernetes, and many silent minutes look like a hang. On a terminal one line is
# kept up to date; elsewhere a line is printed each 30 seconds. What is done within
# seconds is done in silence.
#
# usage: build-with-progress.sh OUTPUT FOLDER PACKAGE [FLAG of go build…]
set -eu

output=$1
folder=$2
package=$3
shift 3
silent=${PROGRESS_AFTER:-5}
pause=${PROGRESS_EVERY:-30}

work=$(mktemp -d)
log=$work/log
build=
planned=
list=
stop() {
	for one in $build $list; do
		kill "$one" 2>/dev/null || true
	done
	rm -rf "$work"
}
trap stop EXIT
trap 'exit 129' HUP
trap '[ ! -t 1 ] || echo; exit 130' INT
trap 'exit 143' TERM

# -v writes the path of each package when its compilation begins, alone on its line;
# the go command announces the modules it fetches; all else is for the reader.
begun='^[[:alnum:]._~/-][[:alnum:]._~/-]*$'
fetching='^go: downloading '

# plan lists all packages of the program: which are not compiled, and what they weigh.
# It takes seconds beside the build, and begins when the build has fetched all modules.
plan() {
	[ -n "$began" ] && [ -z "$planned" ] || return 0
	planned=yes
	go -C "$folder" list -deps -f '{{.ImportPath}} {{.Stale}} {{len .GoFiles}} {{len .Deps}}' "$@" "$package" \
		>"$work/listing" 2>/dev/null 3>&- &
	list=$!
}

# take_plan uses the list once it is complete.
take_plan() {
	if [ -z "$list" ] || kill -0 "$list" 2>/dev/null; then return; fi
	if wait "$list"; then mv "$work/listing" "$work/plan"; fi
	list=
}

progress() {
	awk -v name="$output" -v seconds=$((elapsed - ${began:-elapsed})) -f "$(dirname "$0")/build-progress.awk" "$work/plan" "$log"
}

# show keeps the line within the terminal, where a longer one could not be rewritten.
show() {
	columns=$(stty size <&3 2>/dev/null | cut -d' ' -f2)
	[ "${columns:-0}" -gt 1 ] || columns=80
	printf "\r%-$((columns - 1)).$((columns - 1))s" "$1"
}

exec 3>&1
: >"$work/plan"
start=$(date +%s)
go -C "$folder" build -v "$@" -o "$PWD/$output" "$package" 2>"$log" 3>&- &
build=$!

elapsed=0
began=
printed=0
while kill -0 "$build" 2>/dev/null; do
	sleep 1
	elapsed=$(($(date +%s) - start))
	if [ -z "$began" ] && grep -q "$begun" "$log"; then began=$elapsed; fi
	[ "$elapsed" -ge "$silent" ] || continue
	plan "$@"
	take_plan
	if [ -t 1 ]; then
		show "$(progress)"
	elif [ $((elapsed - printed)) -ge "$pause" ] || [ "$printed" = 0 ]; then
		progress
		printed=$elapsed
	fi
done

status=0
wait "$build" || status=$?
build=
if [ -t 1 ] && [ "$elapsed" -ge "$silent" ]; then show ''; printf '\r'; fi
grep -v -e "$begun" -e "$fetching" "$log" >&2 || true
[ "$status" != 0 ] || [ "$elapsed" -lt "$silent" ] ||
	printf '%s: built in %d:%02d\n' "$output" $((elapsed / 60)) $((elapsed % 60))
exit "$status"
