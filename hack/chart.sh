#!/usr/bin/env bash
# Writes the Helm chart: config/chart, with what the overlays and components of config make as its
# files, and the image of the pods as a value. Helm itself checks it.
#
# Usage: hack/chart.sh FOLDER [IMAGE]    (make chart IMAGE=)
set -euo pipefail

folder=$(rm -rf "$1" && mkdir -p "$1/files" && cd "$1" && pwd)
image=${2:-olm-controller:latest}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)

cp -r config/chart/. "$folder"
sed -i "s|^version: .*|version: $version|; s|^appVersion: .*|appVersion: v$version|" "$folder/Chart.yaml"
sed -i "s|^image: .*|image: $image|" "$folder/values.yaml"

# Kustomize takes paths of files relative to the kustomization only.
work=$(mktemp -d target/.chart-XXXXXX)
trap 'rm -rf "$work"' EXIT
write() { # file, lines of a kustomization
  printf '%s\n' 'sortOptions: {order: legacy}' "${@:2}" >"$work/kustomization.yaml"
  target/local-cluster kubectl kustomize "$work" >"$folder/files/$1"
}
write install.yaml 'resources: [../../config/default]' 'components: [../../config/components/ha]'
write default-account.yaml 'components: [../../config/components/default-account]'
write monitoring.yaml 'components: [../../config/components/monitoring]'
write catalogs.yaml 'resources: [../../config/catalogs]'

helm lint --strict --quiet "$folder"
for values in policies=false,catalogs=false defaultAccount=true,monitoring=true,uninstallPolicy=RetainCRDs; do
  helm lint --strict --quiet --set "$values" "$folder"
done
