#!/usr/bin/env bash
# Runs `go build`, `vet` or `test` with the flags that everything here is compiled with: with others
# Go compiles Kubernetes a second time.
#
# Usage: hack/local-cluster/go.sh build|vet|test [ARGUMENT...]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
# What is generated, or waits most of the time, is compiled without inlining, nothing with what only
# debuggers read, and the compiler's collector is lazier: two fifths less processor time for the first
# build.
plain=(-gcflags=all=-dwarf=false)
for packages in k8s.io/{api,client-go,kubectl,kube-scheduler,kube-controller-manager,cloud-provider,metrics}/... \
  k8s.io/kubernetes/pkg/{apis,controller,generated,kubelet,registry,scheduler,volume,printers,proxy,util}/... \
  {sigs.k8s.io/{kustomize,kwok},github.com/{distribution,redis,google,opencontainers},go.opentelemetry.io}/...; do
  plain+=("-gcflags=$packages=-l -dwarf=false")
done
CGO_ENABLED=0 GOGC=400 exec go "$1" -trimpath "${plain[@]}" "${@:2}"
