#!/usr/bin/env bash
# Builds the image here and again from scratch in another folder, and compares the digests of the index
# and the SHA-256 of every blob and of the archive.
#
# Usage: hack/image_compare.sh ARCHITECTURES    (make image-compare ARCH=amd64,arm64)
set -euo pipefail

architectures=$1
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ -n $(git status --porcelain) ]]; then
  echo "\`git status\` shows changes: commit them first, because the other folder has only the commit" >&2
  exit 2
fi
unset CARGO_TARGET_DIR
other=$(mktemp -d)/elsewhere
trap 'rm -rf "$(dirname "$other")"' EXIT

build() { # folder, xtask; prints what it has built, and how long that took
  local began=$SECONDS
  (cd "$1" && "${@:2}" image --arch "$architectures")
  echo "  $((SECONDS - began)) seconds"
}

contents() { # folder, archive; the SHA-256 of everything an image is
  (cd "$1/target" && find image "$2" -type f | LC_ALL=C sort | xargs sha256sum)
}

build . target/debug/xtask
git clone --quiet . "$other"
build "$other" cargo run --locked --quiet --package xtask --
archive=$(basename "$other"/target/*.oci.tar)
here=$(contents . "$archive")
there=$(contents "$other" "$archive")
if ! diff <(echo "$here") <(echo "$there"); then
  echo "the two images differ" >&2
  exit 1
fi
echo "$here"
echo "the images are identical, byte for byte"
