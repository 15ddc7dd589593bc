#!/usr/bin/env bash
# Runs the tests on a control plane, which mostly wait, and beside them the unit tests, whose output is in
# target/test-unit.log. Fails if one of the two fails.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
log=target/test-unit.log
mkdir -p target
echo "unit tests run beside those on a control plane: $log"
make --no-print-directory test-unit >"$log" 2>&1 &
unit=$!
trap 'kill $unit 2>/dev/null || true' EXIT
status=0
make --no-print-directory test-control-plane || status=$?
if wait "$unit"; then
  awk '/^test result/ { passed += $4 } END { print "unit tests: " passed " passed" }' "$log"
else
  cat "$log"
  echo "unit tests failed: $log"
  status=1
fi
trap - EXIT
exit "$status"
