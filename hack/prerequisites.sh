#!/usr/bin/env bash
# Checks the toolchains for builds and tests, and prints the commands that install missing ones. Tools
# for single targets are fetched by hack/tools.sh.
set -euo pipefail

missing=0

need() { # what, minimum version, found version (empty: not there), command that installs it
  local what=$1 minimum=$2 found=$3 install=$4
  if [[ -n $found ]] && [[ $(printf '%s\n' "$minimum" "$found" | sort -V | awk 'NR == 1') == "$minimum" ]]; then
    return
  fi
  missing=1
  if [[ -z $found ]]; then
    echo "missing: $what $minimum or later" >&2
  else
    echo "too old: $what $found, need $minimum or later" >&2
  fi
  echo "  install it with: $install" >&2
}

version_of() { # command and its arguments; prints the first version number in what it prints
  command -v "$1" >/dev/null || return 0
  "$@" 2>/dev/null | grep -oE '[0-9]+\.[0-9]+(\.[0-9]+)?' | awk 'NR == 1'
}

need cargo 1.95 "$(version_of cargo --version)" \
  "rustup toolchain install 1.95 (rustup itself: https://rustup.rs)"
need go 1.26 "$(version_of go version)" "see https://go.dev/doc/install"
need "a C compiler (cc)" 1 "$(version_of cc --version)" "apt-get install gcc (or dnf install gcc)"
need git 2 "$(version_of git --version)" "apt-get install git (or dnf install git)"

# Disk space for a full build with all tests, in GB; the second number is for a repeated build.
room() {
  local needs=$1 free
  [[ -d target/debug ]] && needs=$2
  free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }')
  if ((free < needs)); then
    echo "warning: only $free GB are free in $PWD; building and testing everything needs $needs GB" >&2
    echo "  \`cargo clean\` removes the output of earlier builds" >&2
  fi
}
room 16 4

exit "$missing"
