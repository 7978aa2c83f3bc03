#!/bin/sh
# What `make demo` shows once everything runs: examples at work, one after the
# other on one control plane. The arguments are the folders of the examples that
# run, in the order in which they are shown.
# shellcheck source=examples/show.sh
. "$(dirname "$0")/show.sh"

# any FILE FOLDER… tells whether a folder has the file.
any() {
	file=$1
	shift
	for folder; do
		[ ! -e "$folder/$file" ] || return 0
	done
	return 1
}

heading "$# controllers on one control plane" \
	'Most are a manifest, of our API group or of the one of Metacontroller, and a function' \
	"that serves HTTP.$(any main.go "$@" && echo ' The others are programs in Go, which need no manifest.')" \
	"${SETPOINT_DASHBOARD:+In a browser: $SETPOINT_DASHBOARD}"
await --for=condition=Ready --all setpoint,compositecontrollers.metacontroller.k8s.io,decoratorcontrollers.metacontroller.k8s.io
show "kubectl get setpoint,cc.metacontroller.k8s.io,dec.metacontroller.k8s.io \\
    -o 'custom-columns=API:.apiVersion,KIND:.kind,NAME:.metadata.name,READY:.status.conditions[?(@.type==\"Ready\")].status'"

for folder; do
	sh "$folder/demo.sh"
done

heading 'What to try next' \
	'That was a real etcd, API server, controller manager and scheduler. Run one of the' \
	'examples, and follow its README.md in a second terminal:'
for folder; do
	echo "  ${SETPOINT#"$PWD"/} dev $folder"
done
cat <<'END_OF_TEXT'

Change the hook and save it: Setpoint restarts it and reconciles all its objects.
Misspell "children" in it: nothing is deleted, and `kubectl describe` says why.
docs/getting-started.md shows how to write your own controller in one file.
END_OF_TEXT
any main.go "$@" ||
	say 'The examples in Go were left out, since they are compiled first: with Go 1.26 or newer,' \
		"${SETPOINT#"$PWD"/} dev examples/guitar runs one."
if ! command -v node >/dev/null; then
	say 'No node command was found, so the examples in JavaScript were left out: install' \
		'Node.js 20 or newer (https://nodejs.org), and `make demo` shows them too.'
fi

# With a dashboard open, everything keeps running until the user presses Enter.
if [ -t 0 ] && [ -n "${SETPOINT_DASHBOARD:-}" ]; then
	heading 'All of it in a browser' \
		"Open $SETPOINT_DASHBOARD to see what each controller did, and why; to edit the objects" \
		'that it manages, add a guitar, break something. Press Enter to stop everything.'
	read -r _
fi
