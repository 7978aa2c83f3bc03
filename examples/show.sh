# shellcheck shell=sh
# What the demos of the examples share; each reads it in first. Their environment
# is that of any command behind `setpoint dev … --`: KUBECONFIG names the control
# plane and SETPOINT the binary, which is a kubectl too. The first step that
# fails ends a demo.
set -eu

kubectl() { "$SETPOINT" kubectl "$@"; }
setpoint() { "$SETPOINT" "$@"; }

# The folder of the example, as it was called, so that what is shown can be pasted.
example=$(dirname "$0")

# heading TITLE LINE… says what comes.
heading() {
	printf '\n== %s ==\n' "$1"
	shift
	printf '%s\n' "$@" ''
}

# say LINE… sets a few words apart from what was printed before.
say() { printf '%s\n' '' "$@" ''; }

# show COMMAND runs what a user could type, as it stands, and shows both it and
# what it prints.
show() {
	printf '$ %s\n' "$1"
	eval "$1"
}

# await … is a `kubectl wait` that only speaks up when it was in vain.
await() { kubectl wait --timeout=10m "$@" >/dev/null; }

# await_output EXPECTED COMMAND repeats COMMAND until it prints EXPECTED. It is for states
# that kubectl wait cannot watch: an authorizer sees a new role a moment after it was stored.
await_output() {
	for _ in $(seq 1000); do
		output=$(eval "$2" 2>&1) || true
		[ "$output" != "$1" ] || return 0
	done
	fail "$2: the output should be \"$1\", and still is \"$output\""
}

fail() {
	echo "$example: $*" >&2
	exit 1
}
