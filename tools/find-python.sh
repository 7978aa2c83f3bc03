#!/bin/sh
# Prints the path of a Python, 3.9 or newer, that can import the given modules. PYTHON
# may name one. Where none can, and where this may install packages of Debian, it
# installs python3-MODULE for each. Anywhere else it says what to install.
#
# usage: find-python.sh [MODULE…]
set -eu

say() { printf '%s\n' "$@" >&2; }

# Debian names the packages after the modules.
packages() { [ $# = 0 ] || printf 'python3-%s\n' "$@"; }

can_import() {
	"$1" - "$@" >/dev/null 2>&1 <<-'END'
		import importlib, sys
		assert sys.version_info >= (3, 9)
		for module in sys.argv[2:]:
		    importlib.import_module(module)
	END
}

find_python() {
	for name in ${PYTHON:-python3 /usr/bin/python3 /usr/local/bin/python3}; do
		path=$(command -v "$name") || continue
		if can_import "$path" "$@"; then
			echo "$path"
			return
		fi
	done
	return 1
}

may_install() { [ -z "${PYTHON:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

# shellcheck disable=SC2046 # The names of packages are words.
install() {
	say "find-python: installing $(packages "$@" | xargs) with apt-get"
	apt-get update >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 $(packages "$@") >&2
}

find_python "$@" && exit
if may_install && install "$@"; then
	find_python "$@" && exit
fi
say "A Python 3.9 or newer is needed${*:+ that can import $*}, and none was found. Install one:" \
	"  Debian, Ubuntu:  apt-get install python3 $(packages "$@" | xargs)" \
	"  elsewhere:       python3 -m venv .venv && .venv/bin/pip install ${*:-}" \
	'or name one: PYTHON=/path/to/python3 make …'
exit 1
