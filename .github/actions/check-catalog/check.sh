#!/usr/bin/env bash
# Lints bundles and a catalog, and compares the catalog with the published one. Everything is checked
# before it fails.
#
# Usage: BUNDLES=BUNDLE... CATALOG=CATALOG PUBLISHED=CATALOG check.sh    (each may be empty)
set -euo pipefail

failed=0
check() {
  printf '\n$ kubectl olm %s\n' "$*"
  kubectl-olm "$@" </dev/null || failed=1
}

while read -r bundle; do
  [[ -z $bundle ]] || check bundle lint "$bundle"
done <<<"${BUNDLES:-}"
if [[ -n ${CATALOG:-} ]]; then
  check catalog lint "$CATALOG"
  [[ -z ${PUBLISHED:-} ]] || check catalog diff "$PUBLISHED" "$CATALOG"
fi
exit "$failed"
