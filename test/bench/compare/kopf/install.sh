#!/bin/sh
# Usage: install.sh FOLDER. Makes a virtual environment with what requirements.txt
# pins, by the pip of this machine as it is set up. Where that cannot be, it says
# what is missing and fails.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$1

cannot() {
	echo "Kopf is left out of the comparison: $1" >&2
	exit 1
}

command -v python3 >/dev/null || cannot "no python3 command was found: install Python 3.10 or newer"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
	cannot "Python 3.10 or newer is needed, and here is $(python3 -V)"
rm -rf "$folder"
python3 -m venv "$folder" >&2 ||
	cannot "python3 -m venv failed; some systems have it, and pip, in packages of their own (python3-venv)"
"$folder/bin/python" -m pip install --quiet --retries 1 --disable-pip-version-check -r "$here/requirements.txt" >&2 || {
	rm -rf "$folder"
	cannot "pip could not install what $here/requirements.txt names (its words are above)"
}
