#!/usr/bin/env bash
# Runs a test program and prints its ten slowest tests and the number of started processes (test/timed.rs).
#
# Usage: hack/slowest.sh COMMAND [ARGUMENT...]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export OLM_TEST_TIMES=$PWD/target/test-times
rm -f "$OLM_TEST_TIMES"
start=$SECONDS
status=0
"$@" || status=$?
if [[ -s $OLM_TEST_TIMES ]]; then
  echo "The ten slowest tests, in seconds:"
  # awk reads to the end: with `head`, SIGPIPE sometimes ends `sort` and the script.
  grep '^test' "$OLM_TEST_TIMES" | sort -t $'\t' -k 2 -rn | awk -F '\t' 'NR <= 10 { printf "%8.1f  %s\n", $2, $3 }'
  awk -F '\t' '$1 == "started" { count[$3]++ } END { for (what in count) printf "Started: %d of %s\n", count[what], what }' \
    "$OLM_TEST_TIMES" | sort
  echo "$((SECONDS - start)) s in all"
fi
exit "$status"
