#!/usr/bin/env bash
# Checks the files of a release: their sums, krew's manifest by krew's own validation, and an
# installation with krew from the files.
#
# Usage: hack/release_check.sh VERSION    (make release-check VERSION=vX.Y.Z)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$PWD/target/release-files/$1
tools=$PWD/target/krew
manifest=$folder/olm.yaml
if [[ ! -f $manifest ]]; then
  echo "$manifest is missing: \`make release\` writes it with SOURCE=" >&2
  exit 2
fi
(cd "$folder" && sha256sum --check --quiet SHA256SUMS)
echo "sums: all files are as SHA256SUMS says"

(cd hack/krew && CGO_ENABLED=0 go build -trimpath -o "$tools/" tool)
"$tools/validate-krew-manifest" -manifest "$manifest" -skip-install

KREW_ROOT=$(mktemp -d)
trap 'rm -rf "$KREW_ROOT"' EXIT
export KREW_ROOT
case $(uname -m) in
  aarch64 | arm64) architecture=arm64 ;;
  *) architecture=amd64 ;;
esac
"$tools/krew" install --manifest="$manifest" --archive="$folder/kubectl-olm_linux_$architecture.tar.gz" </dev/null
"$KREW_ROOT/bin/kubectl-olm" version
