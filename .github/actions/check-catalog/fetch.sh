#!/usr/bin/env bash
# Fetches the plugin of a release into a folder, and compares it with the sums of the release.
#
# Usage: VERSION=vX.Y.Z RELEASES=URL fetch.sh FOLDER
set -euo pipefail

case $(uname -m) in
  aarch64 | arm64) architecture=arm64 ;;
  *) architecture=amd64 ;;
esac
if [[ $VERSION != v* ]]; then
  echo "\"$VERSION\" is not a release: set input version of the action, for example version: v0.1.0" >&2
  exit 1
fi
archive=kubectl-olm_linux_$architecture.tar.gz
mkdir -p "$1"
cd "$1"
for file in "$archive" SHA256SUMS; do
  curl --fail --silent --show-error --location --retry 3 --output "$file" "$RELEASES/$VERSION/$file"
done
grep -F "  $archive" SHA256SUMS | sha256sum --check --quiet
tar --extract --gzip --file "$archive"
./kubectl-olm version
