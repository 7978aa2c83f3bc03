#!/bin/sh
# Runs a `go build -v` and says how far it has come: a first build compiles
# Kubernetes, and ten silent minutes look like a hang. On a terminal one line
# is kept up to date; elsewhere a line is printed each 30 seconds. PATIENCE
# says what to expect when it is not done within seconds.
#
# usage: build-with-progress.sh NAME PATIENCE go build -v …
set -eu

name=$1
patience=$2
shift 2

log=$(mktemp)
build=
stop() {
	[ -z "$build" ] || kill "$build" 2>/dev/null || true
	rm -f "$log"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# -v writes the path of each package that is compiled, alone on its line; the
# go command announces the modules it fetches; all else is for the reader.
package='^[[:alnum:]._~/-]*$'
fetching='^go: downloading '
progress() {
	compiled=$(grep -c "$package" "$log" || true)
	fetched=$(grep -c "$fetching" "$log" || true)
	printf '%s: %d:%02d, %d modules fetched, %d packages compiled' \
		"$name" $((elapsed / 60)) $((elapsed % 60)) "$fetched" "$compiled"
}

"$@" 2>"$log" &
build=$!

elapsed=0
while kill -0 "$build" 2>/dev/null; do
	sleep 1
	elapsed=$((elapsed + 1))
	if [ "$elapsed" -eq 5 ]; then
		echo "$name: building; $patience"
	elif [ "$elapsed" -gt 5 ] && [ -t 1 ]; then
		printf '\r%s ' "$(progress)"
	elif [ $((elapsed % 30)) -eq 0 ]; then
		progress
		echo
	fi
done

status=0
wait "$build" || status=$?
build=
[ "$elapsed" -le 5 ] || [ ! -t 1 ] || echo
grep -v -e "$package" -e "$fetching" "$log" >&2 || true
exit "$status"
