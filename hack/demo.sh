#!/usr/bin/env bash
# Shows the main functions on a new local control plane: serve a catalog, install with a
# least-privilege account, upgrade, refuse, force, roll back, repair, gate, uninstall.
#
# Usage: hack/demo.sh [--image ROOT] [--release FOLDER] [--keep]    (make demo, make demo IMAGE=1 KEEP=1)
# --image uses the controller of an unpacked image instead of target/debug; --release the manifests and
# the plugin of a release. Every step is checked; the script fails if one of them fails.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

keep=false
image=""
manifests=target/manifests
plugin=$PWD/target/debug/kubectl-olm
controller=$PWD/target/debug/olm-controller
while (($#)); do
  case $1 in
    --keep) keep=true ;;
    --image)
      image=$2
      controller=$(realpath "$2")/olm-controller
      shift
      ;;
    --release)
      manifests=$(realpath "$2")
      plugin=""
      shift
      ;;
    *)
      echo "usage: hack/demo.sh [--image ROOT] [--release FOLDER] [--keep]" >&2
      exit 2
      ;;
  esac
  shift
done

demo=hack/demo
state=$(mktemp -d -t olm-demo-XXXXXX)
cluster_pid=""
controller_pid=""
bold="" dim="" plain=""
if [[ -t 1 && -z ${NO_COLOR:-} || -n ${FORCE_COLOR:-} ]]; then
  bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'
fi

stop() {
  for pid in $controller_pid $cluster_pid; do
    kill "$pid" 2>/dev/null || continue
    wait "$pid" 2>/dev/null || continue
  done
}

finish() {
  local status=$?
  trap - EXIT
  if [[ $status -ne 0 ]]; then
    echo
    echo "The demo failed. Logs are in $state; the last lines of the controller's log:" >&2
    tail -n 20 "$state/controller.log" >&2 2>/dev/null || echo "(none)" >&2
    stop
  elif ! $keep; then
    stop
    rm -rf "$state"
  fi
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

number=0
step() { # heading
  number=$((number + 1))
  printf '\n%s%d. %s%s\n' "$bold" "$number" "$1" "$plain"
}

note() { printf '   %s\n' "$*"; }

run() { # prints a command as one would type it, then what it prints
  printf '   %s$ %s%s\n' "$dim" "$*" "$plain"
  "$@" 2>&1 | sed 's/^/   /'
}

until_true() { # description, seconds, command
  local what=$1 seconds=$2
  shift 2
  local start=$SECONDS said=$SECONDS
  until "$@" >"$state/last" 2>&1; do
    if ((SECONDS - start >= seconds)); then
      echo "   timed out after $seconds s: $what; last output:" >&2
      sed 's/^/   /' "$state/last" >&2
      return 1
    fi
    if ((SECONDS - said >= 5)); then
      said=$SECONDS
      note "... waiting for $what ($((SECONDS - start)) s)"
    fi
    sleep 0.2
  done
  note "$what ($((SECONDS - start)) s)"
}

field() { # JSON path of ClusterExtension lamp
  kubectl get clusterextension lamp -o "jsonpath=$1"
}

condition() { # type, status, reason
  [[ $(field "{.status.conditions[?(@.type=='$1')].status}/{.status.conditions[?(@.type=='$1')].reason}") == "$2/$3" ]]
}

settled_at() { # version
  [[ $(field "{.status.install.bundle.version}") == "$1" ]] && condition Progressing True Succeeded
}

upgradeable() { # status
  [[ $(kubectl get clusteroperator olm \
    -o "jsonpath={.status.conditions[?(@.type=='Upgradeable')].status}") == "$1" ]]
}

# ---------------------------------------------------------------------------------------------
step "Start a control plane: etcd, kube-apiserver, controller-manager, scheduler, registry"
target/local-cluster up --dir "$state/cluster" </dev/null >"$state/cluster.log" 2>&1 &
cluster_pid=$!
until_true "the control plane is ready" 90 test -s "$state/cluster/cluster.json"

cluster_info() { # field of cluster.json
  sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" "$state/cluster/cluster.json" | awk 'NR == 1'
}
KUBECONFIG=$(cluster_info kubeconfig)
export KUBECONFIG
REGISTRY=$(cluster_info registry)
export CONTAINERS_REGISTRIES_CONF="$state/cluster/registries.conf"
mkdir -p "$state/bin"
ln -sf "$state/cluster/kubectl" "$state/bin/kubectl"
if [[ -n $plugin ]]; then
  ln -sf "$plugin" "$state/bin/kubectl-olm"
else
  case $(uname -m) in aarch64 | arm64) architecture=arm64 ;; *) architecture=amd64 ;; esac
  tar -xzf "$manifests/kubectl-olm_linux_$architecture.tar.gz" -C "$state/bin" kubectl-olm
fi
export PATH="$state/bin:$PATH"
run kubectl get nodes

step "Install the CRDs, the controller's rights, the admission policies and the controller"
run kubectl apply --server-side -f "$manifests/install.yaml"
note "(CRDs of our own stand in for OpenShift's ClusterVersion and ClusterOperator)"
run kubectl apply --server-side -f hack/demo/crds
kubectl wait --for=condition=Established --timeout=30s crd --all >/dev/null
kubectl apply -f "$demo/manifests/openshift.yaml" >/dev/null
kubectl patch clusterversion version --subresource=status --type=merge --patch \
  '{"status":{"desired":{"version":"4.19.5"},"history":[{"state":"Completed","version":"4.19.5","image":"","startedTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T01:00:00Z","verified":true}]}}' >/dev/null

token=$(kubectl create token operator-controller-controller-manager \
  --namespace olmv1-system --duration 24h)
server=$(cluster_info apiServer)
authority=$(cluster_info caFile)
controller_config="$state/controller.kubeconfig"
kubectl config set-cluster local --kubeconfig "$controller_config" \
  --server "$server" --certificate-authority "$authority" >/dev/null
kubectl config set-credentials controller --kubeconfig "$controller_config" --token "$token" >/dev/null
kubectl config set-context local --kubeconfig "$controller_config" \
  --cluster local --user controller >/dev/null
kubectl config use-context local --kubeconfig "$controller_config" >/dev/null
note "There is no node for containers: the program runs as a local process, with the arguments of the"
note "Deployment but for its ports, and a token of its service account."
read -ra arguments <<<"$(kubectl get deployment operator-controller-controller-manager \
  --namespace olmv1-system --output 'jsonpath={.spec.template.spec.containers[0].args[*]}')"
kept=()
for argument in "${arguments[@]}"; do
  case $argument in
    --*-addr=* | --*-address=*) ;;
    *) kept+=("$argument") ;;
  esac
done
KUBECONFIG="$controller_config" "$controller" "${kept[@]}" \
  --catalogs-server-addr 127.0.0.1:0 --metrics-bind-address 127.0.0.1:0 \
  --health-probe-bind-address 127.0.0.1:0 --listen-info "$state/listen.json" \
  --cache-dir "$state/catalogs" --cache-path "$state/bundles" \
  --system-namespace olmv1-system </dev/null >"$state/controller.log" 2>&1 &
controller_pid=$!
until_true "the controller is ready" 30 test -s "$state/listen.json"
if [[ -n $image ]]; then # deploying.md P6
  run sha256sum "$image/olm-controller"
  [[ $(sha256sum <"/proc/$controller_pid/exe") == $(sha256sum <"$controller") ]]
fi
published() {
  kubectl get secret catalogd-ca --namespace olmv1-system --output 'jsonpath={.data.ca\.crt}' |
    base64 -d >"$state/catalog-ca.crt" && test -s "$state/catalog-ca.crt"
}
until_true "the CA of the catalog server is published" 30 published

step "Push three bundles and a catalog that offers the first; serve it"
for version in 1.0.0 1.1.0 1.2.0; do
  run target/debug/xtask push-bundle "hack/demo/bundles/lamp-operator/$version" \
    "$REGISTRY/lamp-operator-bundle:v$version"
done
push_catalog() { # first, second
  mkdir -p "$state/catalog-$1"
  sed "s|\${REGISTRY}|$REGISTRY|" "$demo/catalogs/$1/lamp-operator.yaml" >"$state/catalog-$1/lamp-operator.yaml"
  run target/debug/xtask push-catalog "$state/catalog-$1" "$REGISTRY/demo-catalog:$1"
}
push_catalog first
sed "s|\${REGISTRY}|$REGISTRY|" "$demo/manifests/catalog.yaml" >"$state/catalog.yaml"
run kubectl apply -f "$state/catalog.yaml"
until_true "the catalog is served" 60 \
  kubectl wait --for=condition=Serving --timeout=1s clustercatalog demo
run kubectl get clustercatalog

step "Create an account with exactly the rights to install this package"
run kubectl create namespace lamps
note "$ kubectl olm rbac hack/demo/bundles/lamp-operator/* -n lamps --service-account lamp-installer | kubectl apply -f -"
kubectl olm rbac hack/demo/bundles/lamp-operator/1.0.0 hack/demo/bundles/lamp-operator/1.1.0 \
  hack/demo/bundles/lamp-operator/1.2.0 --namespace lamps --service-account lamp-installer \
  >"$state/rbac.yaml"
run kubectl apply -f "$state/rbac.yaml"

step "Install: any version from 1.0.0, below 1.2.0"
run cat "$demo/manifests/extension.yaml"
run kubectl apply -f "$demo/manifests/extension.yaml"
until_true "1.0.0 is installed" 60 settled_at 1.0.0
run kubectl get clusterextension
run kubectl get clusterobjectset
run kubectl get deployment,configmap,serviceaccount --namespace lamps

step "Update the catalog: 1.1.0 appears and is installed automatically"
push_catalog second
note "The catalog polls its tag every minute; another tag in its spec is pulled at once."
run kubectl patch clustercatalog demo --type merge \
  --patch "{\"spec\":{\"source\":{\"image\":{\"ref\":\"$REGISTRY/demo-catalog:second\"}}}}"
until_true "1.1.0 is installed" 120 settled_at 1.1.0
run kubectl get clusterextension
run kubectl get clusterobjectset

step "The gate: 1.1.0 supports OpenShift up to 4.19, and the cluster is 4.19.5"
until_true "ClusterOperator olm says Upgradeable=False" 30 upgradeable False
run kubectl get clusteroperator olm -o "jsonpath={.status.conditions[?(@.type=='Upgradeable')].message}{'\n'}"

step "Refused: 1.2.0 is in the catalog, but no edge leads to it"
run kubectl patch clusterextension lamp --type merge \
  --patch '{"spec":{"source":{"catalog":{"version":"1.2.0"}}}}'
refused() {
  condition Progressing True Retrying && [[ $(field "{.status.conditions[?(@.type=='Progressing')].message}") == *"no bundles found"* ]]
}
until_true "the request is refused" 30 refused
run kubectl get clusterextension lamp -o "jsonpath={.status.conditions[?(@.type=='Progressing')].message}{'\n'}"
settled_message=$(field "{.status.install.bundle.version}")
[[ $settled_message == 1.1.0 ]]
note "1.1.0 stays installed. The reason and possible fixes:"
run kubectl olm why lamp 1.2.0 --catalog-ca "$state/catalog-ca.crt" | tee "$state/why.txt"
grep -q "NotSuccessor" "$state/why.txt"

step "Forced: SelfCertified allows the step at the administrator's risk"
run kubectl patch clusterextension lamp --type merge \
  --patch '{"spec":{"source":{"catalog":{"upgradeConstraintPolicy":"SelfCertified"}}}}'
until_true "1.2.0 is installed" 60 settled_at 1.2.0
note "1.2.0 supports 4.20, so the gate opens."
until_true "ClusterOperator olm says Upgradeable=True" 30 upgradeable True

step "Rolled back the same way"
run kubectl patch clusterextension lamp --type merge \
  --patch '{"spec":{"source":{"catalog":{"version":"1.1.0"}}}}'
until_true "1.1.0 is installed again" 60 settled_at 1.1.0
until_true "ClusterOperator olm says Upgradeable=False" 30 upgradeable False
run kubectl get clusterobjectset

step "Drift is repaired"
run kubectl delete deployment lamp-operator --namespace lamps
run kubectl patch configmap lamp-operator-settings --namespace lamps --type merge \
  --patch '{"data":{"dim-after":"never"}}'
repaired() {
  kubectl rollout status deployment lamp-operator --namespace lamps --timeout=1s &&
    [[ $(kubectl get configmap lamp-operator-settings --namespace lamps -o 'jsonpath={.data.dim-after}') == 10m ]]
}
until_true "the Deployment is back and the ConfigMap says 10m" 60 repaired

step "Uninstall leaves nothing"
run kubectl delete clusterextension lamp --wait=false
gone() { ! kubectl get clusterextension lamp; }
until_true "the extension is gone" 400 gone
nothing_left() {
  local selector=olm.operatorframework.io/owner-name=lamp left
  left=$(kubectl get crd,clusterrole,clusterrolebinding,clusterobjectset --output name --selector "$selector"
  kubectl get deployment,configmap,serviceaccount,role,rolebinding,secret --all-namespaces --output name \
    --selector "$selector")
  echo "$left"
  [[ -z $left ]]
}
until_true "every object of it is gone" 60 nothing_left
run kubectl get deployment,configmap --namespace lamps
until_true "ClusterOperator olm says Upgradeable=True" 30 upgradeable True

printf '\n%sAll steps passed in %d s%s: install, automatic update, gate, refusal, force, rollback, repair, uninstall.\n' \
  "$bold" "$SECONDS" "$plain"
if $keep; then
  cat <<EOF
To use the cluster in this shell: source $state/play; to stop everything and delete its files: $state/stop
EOF
  cat >"$state/play" <<EOF
export KUBECONFIG=$KUBECONFIG
export CONTAINERS_REGISTRIES_CONF=$CONTAINERS_REGISTRIES_CONF
export PATH=$state/bin:\$PATH
echo "kubectl apply -f hack/demo/manifests/extension.yaml     installs the extension again"
echo "kubectl olm status                                      shows it"
echo "tail -f $state/controller.log    follows the controller"
EOF
  printf '#!/bin/sh\nkill %s %s\nrm -rf %s\n' "$controller_pid" "$cluster_pid" "$state" >"$state/stop"
  chmod +x "$state/stop"
else
  echo "To keep the cluster: make demo KEEP=1 leaves the control plane and the controller running."
fi
echo "To read more: README.md, then docs/first-extension.md."
