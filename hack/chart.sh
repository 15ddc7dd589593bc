#!/usr/bin/env bash
# Writes the Helm chart: config/chart, with the output of the overlays and components of config as its
# files, and the image of the pods as a value. Helm checks it.
#
# Usage: hack/chart.sh FOLDER [IMAGE]    (make chart IMAGE=)
set -euo pipefail

folder=$(rm -rf "$1" && mkdir -p "$1/files" "$1/crds" && cd "$1" && pwd)
image=${2:-olm-controller:latest}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)

cp -r config/chart/. "$folder"
sed -i "s|^version: .*|version: $version|; s|^appVersion: .*|appVersion: v$version|" "$folder/Chart.yaml"
sed -i "s|^image: .*|image: $image|" "$folder/values.yaml"

# Kustomize accepts only paths relative to the kustomization.
work=$(mktemp -d target/.chart-XXXXXX)
trap 'rm -rf "$work"' EXIT
write() { # file, lines of a kustomization
  printf '%s\n' 'sortOptions: {order: legacy}' "${@:2}" >"$work/kustomization.yaml"
  target/local-cluster kubectl kustomize "$work" >"$folder/$1"
}
write files/install.yaml 'resources: [../../config/default]' 'components: [../../config/components/ha]'
write files/default-account.yaml 'components: [../../config/components/default-account]'
write files/monitoring.yaml 'components: [../../config/components/monitoring]'
write files/catalogs.yaml 'resources: [../../config/catalogs]'
# With the labels and annotations of the release that the documents name (templates/objects.yaml).
write crds/crds.yaml 'resources: [../../config/crd]' \
  'labels: [{pairs: {app.kubernetes.io/managed-by: Helm}}]' \
  'commonAnnotations: {meta.helm.sh/release-name: olm, meta.helm.sh/release-namespace: olmv1-system}'

helm lint --strict --quiet "$folder"
for values in policies=false,catalogs=false defaultAccount=true,monitoring=true,uninstallPolicy=RetainCRDs \
  "args={--v=1},env[0].name=NO_PROXY,resources.limits.memory=2Gi,imagePullSecrets[0].name=pull" env=null,args=null,resources=null; do
  helm lint --strict --quiet --set "$values" "$folder"
done
