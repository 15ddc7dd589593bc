#!/usr/bin/env bash
# Runs the program of the unpacked image as a node does: as user 65532, without capabilities, on the
# read-only file system of the image, with writable /tmp and /var/cache. Checks that it prints its
# version, and that over TLS it trusts exactly the CAs in the image's trust file.
# deploying.md P3
#
# Usage: hack/image_run.sh ROOT    (make test-image-user; as root, who may mount and change the user)
set -euo pipefail

if [[ $EUID -ne 0 ]]; then
  echo "mounting a file system and changing to user 65532 need root: run this as root" >&2
  exit 1
fi
root=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ ${2:-} != --inside ]]; then
  state=$(mktemp -d -t olm-image-XXXXXX)
  chmod 0755 "$state"
  mkdir "$state/root"
  # The mounts end with the namespace.
  if unshare --mount --propagation private "${BASH_SOURCE[0]}" "$root" --inside "$state"; then
    rm -rf "$state"
    exit 0
  fi
  echo "failed; logs are in $state" >&2
  exit 1
fi

state=$3
inside=$state/root
trust=/etc/ssl/certs/ca-certificates.crt
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait' EXIT

mount --bind "$root" "$inside"
mount -o remount,bind,ro "$inside"
mount -t tmpfs -o mode=1777 tmpfs "$inside/tmp"
mount -t tmpfs -o mode=0755,uid=65532,gid=65532 tmpfs "$inside/var/cache"
if touch "$inside/file" 2>/dev/null; then
  echo "$inside is writable" >&2
  exit 1
fi

start() { # program of the image and its arguments, in the place of this shell
  exec env -i PATH="$PATH" KUBECONFIG=/tmp/kubeconfig setpriv --no-new-privs --inh-caps=-all \
    chroot --userspec=65532:65532 --groups=65532 "$inside" "$@"
}

until_true() { # what is waited for, command
  local start=$SECONDS what=$1
  shift
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS - start >= 90)); then
      echo "timed out after 90 s: $what" >&2
      tail -n 20 "$state"/*.log >&2
      return 1
    fi
    sleep 0.2
  done
  echo "$what"
}

for name in olm-controller operator-controller catalogd; do
  said=$(start "/$name" version)
  grep -q '^version: ' <<<"$said"
  echo "/$name prints $said"
done

target/local-cluster up --dir "$state/cluster" </dev/null >"$state/up.log" 2>&1 &
pids+=($!)
until_true "an API server runs" test -s "$state/cluster/cluster.json"
field() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" "$state/cluster/cluster.json" | awk 'NR == 1'; }
cat >"$inside/tmp/kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: local, cluster: {server: "$(field apiServer)"}}]
users: [{name: nobody, user: {token: nobody}}]
contexts: [{name: local, context: {cluster: local, user: nobody}}]
current-context: local
END

controller() { # log
  start /olm-controller --catalogs-server-addr=127.0.0.1:0 --health-probe-bind-address=127.0.0.1:0 \
    --system-namespace=olmv1-system </dev/null >"$state/$1" 2>&1 &
  pids+=($!)
  pid=$!
}

controller stranger.log
until_true "the API server is not trusted" grep -q "UnknownIssuer" "$state/stranger.log"
if grep -q Unauthorized "$state/stranger.log"; then
  echo "the API server was trusted, although the image does not contain its CA" >&2
  exit 1
fi
shown() { grep -qE "$1" "/proc/$pid/$2"; }
shown '^Uid:\s65532\s65532\s65532\s65532$' status
shown '^Gid:\s65532\s65532\s65532\s65532$' status
shown '^CapEff:\s0+$' status
shown '^NoNewPrivs:\s1$' status
shown ' / / ro,| / ro,' mountinfo
echo "process $pid runs as user 65532, without capabilities, on a read-only root"
kill "$pid"
wait "$pid" || true

cat "$inside$trust" "$(field caFile)" >"$state/trust.crt"
chmod 0444 "$state/trust.crt"
mount --bind "$state/trust.crt" "$inside$trust"
controller known.log
until_true "with its CA in the trust file the API server is trusted, and answers" \
  grep -q Unauthorized "$state/known.log"
if grep -q UnknownIssuer "$state/known.log"; then
  echo "not every program trusts the API server" >&2
  exit 1
fi
