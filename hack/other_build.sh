#!/usr/bin/env bash
# Builds the controller of another revision of this repository, and its manifests, into target/other.
#
# Usage: hack/other_build.sh REVISION    (make test-upgrade FROM=REVISION)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
revision=$(git rev-parse --verify "$1^{commit}")
folder=$PWD/target/other
rm -rf "$folder/source"
mkdir -p "$folder/source"
git archive "$revision" | tar -x -C "$folder/source"
echo "building the controller of $revision (takes as long as a first build)" >&2
(cd "$folder/source" && CARGO_TARGET_DIR=$folder/target cargo build --locked --quiet --package olm-controller)
cp "$folder/target/debug/olm-controller" "$folder/"
target/local-cluster kubectl kustomize "$folder/source/config/default" >"$folder/install.yaml"
