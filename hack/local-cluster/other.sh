#!/usr/bin/env bash
# Builds local-cluster of another release of Kubernetes: the same sources in FOLDER, with a go.mod
# that requires that release and its staging modules. The first build of each takes minutes.
#
# Usage: hack/local-cluster/other.sh VERSION FOLDER    (make test-matrix; 1.35.4, for example)
set -euo pipefail

version=${1#v}
staging=v0.${version#1.}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mkdir -p "$2" && cd "$2" && pwd)

downloaded=$(cd "$folder" && go mod download -json "k8s.io/kubernetes@v$version")
theirs=$(sed -n 's/.*"GoMod": "\(.*\)".*/\1/p' <<<"$downloaded")
rm -rf "$folder"/{main.go,build.sh,go.sh,internal,go.mod,go.sum}
cp -r "$here"/{main.go,build.sh,go.sh,internal} "$folder"
{
  sed '/^)/q' "$here/go.mod" |
    sed "s|\(k8s.io/kubernetes\) v.*|\1 v$version|; s|^\t\(k8s.io/[a-z-]*\) v0\..*|\1 $staging|"
  echo "replace ("
  # Only kwok uses the clients of container runtimes, in the release that it was built for.
  sed -n "/k8s.io\/cri-/d; s|^\t\(k8s.io/[a-z-]*\) => ./staging/.*|\t\1 => \1 $staging|p" "$theirs"
  # Before 1.34 field managers and nodes of YAML had other types; the other modules require the later ones.
  if grep -q 'structured-merge-diff/v4 v' "$theirs"; then
    for module in k8s.io/kube-openapi github.com/google/gnostic-models go.opentelemetry.io/contrib/.*/otelgrpc; do
      sed -n "s|^\t\($module\) \(v[^ ]*\).*|\t\1 => \1 \2|p" "$theirs"
    done
  fi
  echo ")"
} >"$folder/go.mod"
cd "$folder"
go mod tidy 2>&1 | { grep -v '^go: \(downloading\|finding\|found\)' >&2 || true; }
nice -n 10 ./build.sh "$folder/local-cluster"
