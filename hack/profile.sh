#!/usr/bin/env bash
# Draws a flame graph of the controller's processor time during installs, of the real bundles beside
# the checkout if they exist, otherwise of generated ones.
set -euo pipefail

folder=$PWD/target/profile
program=$PWD/target/quick/olm-controller
event=cpu-clock
# Only root sees the part of the kernel.
[[ $(id -u) == 0 ]] || event=cpu-clock:u

rm -rf "$folder"
mkdir -p "$folder/root"
# The tests start this script, which records the program with its threads until it ends.
cat > "$folder/root/olm-controller" <<SCRIPT
#!/bin/sh
perf record --quiet --event $event --freq 499 --call-graph dwarf,32768 --pid \$\$ \\
  --output "$folder/\$\$.data" > "$folder/\$\$.log" 2>&1 &
echo \$! >> "$folder/recorders"
exec "$program" "\$@"
SCRIPT
chmod +x "$folder/root/olm-controller"

export OLM_IMAGE_ROOT=$folder/root
if [[ -d ${OLM_SHARED:-../shared}/bundles ]]; then
  cargo test --locked --workspace --test corpus -- --ignored --nocapture bundles::bare
else
  OTHERS=20 cargo test --locked --workspace --test control_plane -- \
    --include-ignored --nocapture an_install_asks_nothing_about_the_others
fi

while read -r recorder; do
  timeout 60 tail --pid="$recorder" -f /dev/null
done < "$folder/recorders"
for data in "$folder"/*.data; do
  perf script --no-inline --input "$data" 2>> "$folder/script.log"
done | inferno-collapse-perf 2>> "$folder/script.log" \
  | inferno-flamegraph --title "olm-controller, installing" > "$folder/flame.svg"
echo "$folder/flame.svg"
