#!/usr/bin/env bash
# Runs a command like a user who has only Rust, Go, a C compiler and git, with an
# empty environment and home, and a PATH without the programs that hack/tools.sh fetches.
#
# Usage: hack/newcomer.sh COMMAND [ARGUMENT...]    (NEWCOMER=FOLDER, by default target/newcomer)
# The home is kept between calls. Certificates and proxies of the machine are passed on.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$(mkdir -p "${NEWCOMER:-target/newcomer}" && cd "${NEWCOMER:-target/newcomer}" && pwd)
mkdir -p "$folder/home" "$folder/bin"

# The other programs of the system.
if [[ ! -e $folder/bin/bash ]]; then
  for directory in /usr/bin /bin; do
    find "$directory" -maxdepth 1 \( -type f -o -type l \) -print0 | xargs -0 ln -sft "$folder/bin"
  done
fi
hack/tools.sh --list | (cd "$folder/bin" && xargs rm -f)

# Assigned on their own, so that a failure ends the script.
rust=$(rustc --print sysroot)
go=$(go env GOROOT)
kept=(HOME="$folder/home" PATH="$rust/bin:$go/bin:$folder/bin" LANG=C.UTF-8)
while IFS= read -r name; do kept+=("$name=${!name}"); done < <(
  compgen -e | grep -iE '^(https?_proxy|no_proxy|ssl_cert_file|ssl_cert_dir|goproxy|gosumdb|goflags|tmpdir|cargo_(incremental|(term|http|net)_.*)|no_color)$'
)
exec env -i "${kept[@]}" "$@"
