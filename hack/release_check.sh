#!/usr/bin/env bash
# Checks the files of a release: their sums, that all name one image, the chart by Helm, the plugin
# out of its archive, krew's manifest by krew's own validation, and an installation with krew.
#
# Usage: hack/release_check.sh VERSION    (make release-check VERSION=vX.Y.Z)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$PWD/target/release-files/$1
tools=$PWD/target/krew
manifest=$folder/olm.yaml
chart=$folder/olm-controller-${1#v}.tgz
if [[ ! -f $manifest ]]; then
  echo "$manifest is missing: \`make release\` writes it" >&2
  exit 2
fi
(cd "$folder" && sha256sum --check --quiet SHA256SUMS)
echo "sums: as in SHA256SUMS"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
helm lint --strict --quiet "$chart"
helm template olm "$chart" --namespace olmv1-system --kube-version 1.36 >"$work/chart.yaml"
images=$(sed -n 's/^ *image: \(.*@sha256:.*\)$/\1/p' "$folder"/{install,openshift,upstream-compatible}.yaml "$work/chart.yaml")
image=$(sort -u <<<"$images")
if [[ $(wc -l <<<"$images") != 6 || $(wc -l <<<"$image") != 1 ]]; then
  echo "the manifests and the chart name other images than one by its digest: $images" >&2
  exit 1
fi
echo "image: $image in every manifest and in the chart"

case $(uname -m) in
  aarch64 | arm64) architecture=arm64 ;;
  *) architecture=amd64 ;;
esac
archive=$folder/kubectl-olm_linux_$architecture.tar.gz
tar -xzf "$archive" -C "$work"
said=$("$work/kubectl-olm" version)
if [[ $said != *"\"$1\", commit: \"$(git rev-parse HEAD)\""*'state: "clean"' ]]; then
  echo "the plugin is of another commit: $said" >&2
  exit 1
fi
echo "plugin: $said"

(cd hack/krew && CGO_ENABLED=0 go build -trimpath -o "$tools/" tool)
"$tools/validate-krew-manifest" -manifest "$manifest" -skip-install
export KREW_ROOT=$work/krew
"$tools/krew" install --manifest="$manifest" --archive="$archive" </dev/null
"$KREW_ROOT/bin/kubectl-olm" version
