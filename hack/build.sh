#!/usr/bin/env bash
# Builds the local control plane (Go) and the programs (Rust) in parallel, and shows the progress. The
# output of the compilers is in target/build.
#
# With one test in the build, cargo unifies the features of the whole workspace including tests, and
# compiles every dependency only once for the demo and all tests.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ $(uname -s) != Linux ]]; then
  echo "The local control plane, the demo and the tests run on Linux only. The plugin: cargo build --release --package kubectl-olm" >&2
  exit 1
fi
logs=target/build
mkdir -p "$logs"
start=$SECONDS

[[ -d target/debug && -e target/local-cluster ]] || cat >&2 <<'END'
Building the control plane (Kubernetes, etcd and a registry) and the programs: about 9 minutes the
first time on two cores, seconds afterwards.
END

hack/local-cluster/build.sh "$PWD/target/local-cluster" -v >"$logs/control-plane" 2>&1 &
go=$!
CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=80 CARGO_TERM_COLOR=never \
  cargo build --locked --workspace --bins --test commands >"$logs/programs" 2>&1 &
rust=$!
trap 'kill $go $rust 2>/dev/null || true' EXIT

packages=$(cd hack/local-cluster && CGO_ENABLED=0 go list -deps . 2>/dev/null | wc -l) || packages="?"
runs() { kill -0 "$1" 2>/dev/null; }
progress() {
  local built crates
  built=$(grep -c '^[a-z][^ ]*$' "$logs/control-plane" || true)
  crates=$(grep -oE '[0-9]+/[0-9]+: ' "$logs/programs" | tail -n 1 || true)
  crates=${crates%: }
  if runs "$go"; then built="$built of $packages packages"; else built=built; fi
  if runs "$rust"; then crates="${crates/\// of } crates"; else crates=built; fi
  echo "control plane: $built; programs: $crates ($((SECONDS - start)) s)"
}

told=$SECONDS
while runs "$go" || runs "$rust"; do
  sleep 0.2
  if [[ -t 2 ]]; then
    printf '\r\e[K%s' "$(progress)" >&2
  elif ((SECONDS - told >= 20)); then
    told=$SECONDS
    progress >&2
  fi
done
[[ ! -t 2 ]] || printf '\r\e[K' >&2

ended() { # process, log
  wait "$1" && return
  echo "the build failed; the end of $2:" >&2
  tr '\r' '\n' <"$2" | grep -v '^ *Building' | tail -n 30 >&2
  exit 1
}
ended "$go" "$logs/control-plane"
ended "$rust" "$logs/programs"
trap - EXIT
((SECONDS - start < 5)) || echo "built in $((SECONDS - start)) s" >&2
