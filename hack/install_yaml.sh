#!/usr/bin/env bash
# Writes the output of each overlay of config into one file, with the image of the pods.
#
# Usage: hack/install_yaml.sh FOLDER [HOST/REPOSITORY:TAG | HOST/REPOSITORY@DIGEST]    (make install-yaml IMAGE=)
set -euo pipefail

folder=$(mkdir -p "$1" && rm -f "$1"/*.yaml && cd "$1" && pwd)
image=${2:-}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

images="[]"
if [[ $image == *@* ]]; then
  images="[{name: olm-controller, newName: \"${image%@*}\", digest: \"${image#*@}\"}]"
elif [[ -n $image ]]; then
  name=${image%:*}
  tag=${image##*:}
  if [[ $name == "$image" || $tag == */* ]]; then
    echo "IMAGE=$image: a tag is missing; write HOST/REPOSITORY:TAG, or use a digest" >&2
    exit 2
  fi
  images="[{name: olm-controller, newName: \"$name\", newTag: \"$tag\"}]"
fi

# Kustomize accepts only paths relative to the kustomization.
work=$(mktemp -d "$folder/.overlay-XXXXXX")
trap 'rm -rf "$work"' EXIT
write() { # overlay, file
  printf 'sortOptions: {order: legacy}\nresources: ["%s"]\nimages: %s\n' \
    "$(realpath --relative-to="$work" "config/$1")" "$images" >"$work/kustomization.yaml"
  target/local-cluster kubectl kustomize "$work" >"$folder/$2"
}
write default install.yaml
write openshift openshift.yaml
write upstream-compatible upstream-compatible.yaml
write catalogs catalogs.yaml
