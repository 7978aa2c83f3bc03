#!/bin/sh
# Says whether a binary that was not built here can run the demo: it needs a control
# plane inside. One of another version than this tree mostly works, which a warning says.
#
# usage: check-binary.sh PROGRAM VERSION-OF-THE-TREE
set -eu

program=$1
tree=$2
fail() {
	echo "SETPOINT=$program $1" >&2
	exit 1
}

about=$("$program" version -o json 2>/dev/null) ||
	fail "does not run on $(uname -sm): it must be the path of a program, setpoint, unpacked from setpoint-full-VERSION-linux-amd64.tar.gz of a release"
case $about in
*'"controlPlane": true'*) ;;
*) fail 'has no control plane: the one of setpoint-full-VERSION-linux-amd64.tar.gz of a release has' ;;
esac

version=$(printf '%s\n' "$about" | sed -n 's/^ *"version": "\(.*\)",*$/\1/p')
if [ "$tree" != unknown ] && [ "$version" != "$tree" ]; then
	echo "warning: $program is Setpoint $version, this tree $tree: an example may need what the binary does not have" >&2
fi
