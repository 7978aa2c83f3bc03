#!/bin/sh
# Lists what a binary of ours consists of beyond the standard library and our
# own code, for the committed lists under deps/.
#
# usage: list-dependencies.sh packages|modules MODULE_FOLDER PROGRAM
set -eu

case $1 in
packages) format='{{with .Module}}{{if not .Main}}{{$.ImportPath}}{{end}}{{end}}' ;;
modules) format='{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}' ;;
esac

# A failure of go list must not pass for a short list.
packages=$(GOOS=linux GOARCH=amd64 go -C "$2" list -deps -f "$format" "$3")
echo "# Made by make deps: the $1 in $3 of this module, on linux/amd64."
echo "$packages" | grep -v '^github\.com/setpoint-dev/setpoint' | LC_ALL=C sort -u
