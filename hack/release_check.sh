#!/usr/bin/env bash
# Checks the files of a release: the checksums, one image in all of them, the chart (with Helm), the
# plugin in its archive, the krew manifest (with krew's validation), an installation with krew, and the
# demo and the chart on a control plane with only these files.
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
echo "checksums: match SHA256SUMS"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
helm lint --strict --quiet "$chart"
helm template olm "$chart" --namespace olmv1-system --kube-version 1.36 >"$work/chart.yaml"
images=$(sed -n 's/^ *image: \(.*@sha256:.*\)$/\1/p' "$folder"/{install,openshift,upstream-compatible}.yaml "$work/chart.yaml")
image=$(sort -u <<<"$images")
if [[ $(wc -l <<<"$images") != 6 || $(wc -l <<<"$image") != 1 ]]; then
  echo "the manifests and the chart do not all use one image by digest: $images" >&2
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
if [[ $said != *"\"$1\", commit: \"$(git rev-parse HEAD)\""*'state: "clean"'* ]]; then
  echo "the plugin was built from another commit: $said" >&2
  exit 1
fi
echo "plugin: $said"

(cd hack/krew && CGO_ENABLED=0 go build -trimpath -o "$tools/" tool)
"$tools/validate-krew-manifest" -manifest "$manifest" -skip-install
export KREW_ROOT=$work/krew
"$tools/krew" install --manifest="$manifest" --archive="$archive" </dev/null
"$KREW_ROOT/bin/kubectl-olm" version

mkdir "$work/image"
tar -xf "$folder/olm-controller-${1#v}.oci.tar" -C "$work/image"
pinned=$(target/debug/xtask image --layout "$work/image" --pin "${image%@*}:$1")
if [[ $pinned != "$image" ]]; then
  echo "the archive contains $pinned, but the manifests use $image" >&2
  exit 1
fi
target/debug/xtask image --layout "$work/image" --check --unpack "$work/root"
said=$("$work/root/olm-controller" version)
if [[ $said != *"$(git rev-parse HEAD)"* ]]; then
  echo "the controller was built from another commit: $said" >&2
  exit 1
fi
echo "controller: $said"
hack/demo.sh --image "$work/root" --release "$folder"
OLM_CHART=$chart OLM_IMAGE_ROOT=$work/root cargo test --locked --quiet --workspace --test control_plane -- \
  --include-ignored chart::
