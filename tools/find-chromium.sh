#!/bin/sh
# Prints the path of a Chromium, or of a Chrome, for the tests of the UI. CHROMIUM
# may name one. Where there is none, and where this may install packages of Debian,
# it does, together with a font: a page without fonts has no text. Anywhere else it
# says what to install.
#
# usage: find-chromium.sh
set -eu

# What is printed goes to who asked; what is said goes to who looks on.
say() { printf '%s\n' "$@" >&2; }

if [ -n "${CHROMIUM:-}" ]; then
	command -v "$CHROMIUM" || {
		say "CHROMIUM names $CHROMIUM, which is not a program"
		exit 1
	}
	exit 0
fi

find_browser() {
	for name in chromium chromium-browser google-chrome google-chrome-stable \
		'/Applications/Chromium.app/Contents/MacOS/Chromium' \
		'/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'; do
		command -v "$name" && return
	done
	return 1
}

# Only Linux comes without fonts.
has_fonts() {
	[ "$(uname)" = Linux ] || return 0
	for folder in /usr/share/fonts /usr/local/share/fonts "${HOME:-/root}/.fonts" "${HOME:-/root}/.local/share/fonts"; do
		[ -z "$(find "$folder" \( -name '*.ttf' -o -name '*.otf' -o -name '*.ttc' \) -print 2>/dev/null | head -n 1)" ] || return 0
	done
	return 1
}

may_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

install() {
	say "find-chromium: installing $* with apt-get"
	apt-get update >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2
}

missing=
find_browser >/dev/null || missing=chromium
has_fonts || missing="$missing fonts-dejavu-core"
# shellcheck disable=SC2086 # The names of packages are words.
if [ -n "$missing" ] && may_install; then
	install $missing || say "find-chromium: apt-get could not install them"
fi

find_browser || {
	say 'The tests of the UI need a Chromium or a Chrome, and none was found. Install one:' \
		'  Debian:  apt-get install chromium fonts-dejavu-core' \
		'  Ubuntu:  snap install chromium' \
		'  Fedora:  dnf install chromium dejavu-sans-fonts' \
		'  macOS:   brew install --cask chromium' \
		'or name one: CHROMIUM=/path/to/chromium make browser'
	exit 1
}
has_fonts || {
	say 'A Chromium is there, but no font: pages would have no text. Install one, such as' \
		'  Debian, Ubuntu:  apt-get install fonts-dejavu-core' \
		'  Fedora:          dnf install dejavu-sans-fonts'
	exit 1
}
