#!/usr/bin/env bash
# Builds local-cluster into OUTPUT (default: target/local-cluster at the repository's root).
# The first build compiles all of Kubernetes and takes several minutes; later builds use Go's cache and
# take seconds if nothing changed.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
output=${1:-../../target/local-cluster}
if [[ $output == -* ]]; then
  echo "usage: hack/local-cluster/build.sh [OUTPUT]" >&2
  exit 2
fi
mkdir -p "$(dirname "$output")"

# The linker sets the version of Kubernetes, without which comparisons of versions fail.
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${version#v1.}
minor=${minor%%.*}
package=k8s.io/component-base/version
ldflags="-s -w"
ldflags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor"
ldflags+=" -X $package.gitTreeState=clean"

echo "building $output (Kubernetes $version; minutes the first time)" >&2
start=$SECONDS
./go.sh build -buildvcs=false -ldflags "$ldflags" "${@:2}" -o "$output" .
echo "built $output in $((SECONDS - start)) s" >&2
