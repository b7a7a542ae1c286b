#!/usr/bin/env bash
# Installs an Emacs whose eglot is part of it (29 or later), on Debian and its kin: from the release, else from its backports,
# which are taken from the mirror, and checked with the keyring, that this machine already uses for the release.
set -euo pipefail
wanted=29

version() { "$@" 2>/dev/null | sed -n 's/^GNU Emacs \([0-9]*\).*/\1/p' | head -1; }
candidate() { apt-cache policy emacs-nox | sed -n 's/.*Candidate: \([0-9]*:\)\?\([0-9]*\).*/\2/p'; }

[ "$(version emacs --version || true)" -ge $wanted ] 2>/dev/null && exit 0
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
release=()
if ! [ "$(candidate)" -ge $wanted ] 2>/dev/null; then
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  # The stanza of the release itself: its address and key. Paragraphs are separated by empty lines, comments begin with #.
  stanza=$(cat /etc/apt/sources.list.d/*.sources 2>/dev/null | sed '/^#/d' | awk -v RS= -v suite="$codename" '
    { found = 0; n = split($0, lines, "\n")
      for (i = 1; i <= n; i++) if (lines[i] ~ /^Suites:/ && (" " lines[i] " ") ~ (" " suite " ")) found = 1 }
    found { print; exit }')
  address=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p' <<<"$stanza")
  key=$(sed -n 's/^Signed-By: *//p' <<<"$stanza")
  [ -n "$address" ] && [ -n "$key" ] || { echo "no source of $codename in /etc/apt/sources.list.d to take backports from" >&2; exit 1; }
  source=/etc/apt/sources.list.d/gpuemu-backports.sources
  trap 'rm -f "$source"' EXIT
  printf 'Types: deb\nURIs: %s\nSuites: %s-backports\nComponents: main\nSigned-By: %s\n' "$address" "$codename" "$key" > "$source"
  apt-get update -qq
  release=(-t "$codename-backports")
fi
apt-get install -y -qq --no-install-recommends "${release[@]}" emacs-nox
[ "$(version emacs --version)" -ge $wanted ]
