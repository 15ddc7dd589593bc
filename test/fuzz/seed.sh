#!/usr/bin/env bash
# Makes the inputs fuzzing starts from, out of the fixtures of this repository.
#
#   test/fuzz/seed.sh DIR    writes DIR/<target>/<name> for every target
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=${1:?usage: seed.sh DIR}
mkdir -p "$out"/{bundle,catalog,config,range,yaml}

# A bundle is one input: `=== PATH` on a line, then the content.
for folder in "$root"/hack/demo/bundles/*/* "$root"/src/core/testdata/bundle/*; do
  name=$(basename "$(dirname "$folder")")-$(basename "$folder")
  (
    cd "$folder"
    find . -type f | LC_ALL=C sort | while read -r file; do
      printf '=== %s\n' "${file#./}"
      cat "$file"
      echo
    done
  ) >"$out/bundle/$name"
done

for file in "$root"/hack/demo/catalogs/*/*; do
  cp "$file" "$out/catalog/$(basename "$(dirname "$file")").yaml"
done
cp "$out"/catalog/* "$out/yaml/"
for file in "$root"/src/core/testdata/bundle/*/*/* "$root"/hack/demo/bundles/*/*/*/*; do
  cp "$file" "$out/yaml/$(basename "$file")"
done
number=0
while IFS= read -r line; do
  number=$((number + 1))
  printf '%b' "$line" >"$out/yaml/quoted-$number"
done <<'QUOTED'
a:\n  b: 'c\nd'\n  e: "f\n\n g"\n
- 'a''b  \n\tc'\n- "d\\\n\\ e"\n- x\n
a: [b, 'c\nd', {"e": "f\ng"}]\nh: "i\nj"\n
a: |\n  "b\nc: d\n  'e\nf: >2\n    'g\nh: "i\nj" # "k\n
? "a\nb"\n: &c !d "e\nf"\ng: *c\n
%YAML 1.2\n---\na: "b\\'c\nd"\r\n...\n--- 'e\n\nf'\n
QUOTED

number=0
while IFS= read -r line; do
  number=$((number + 1))
  printf '%b' "$line" >"$out/config/$number"
done <<'CONFIGS'
watchNamespace: other
watchNamespace: inst-ns
watchNamespace: ""
{"watchNamespace": null, "unknown": 1}
deploymentConfig:\n  env: [{name: A, value: c}, {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]\n  envFrom: [{configMapRef: {name: x}}]
deploymentConfig:\n  nodeSelector: {a: b}\n  tolerations: [{key: a, operator: Exists, effect: NoSchedule}]
deploymentConfig:\n  resources: {limits: {cpu: 500m, memory: 1Gi}, requests: {cpu: 1}}
deploymentConfig:\n  volumes: [{name: v, secret: {secretName: s}}]\n  volumeMounts: [{name: v, mountPath: /v}]
deploymentConfig:\n  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}
deploymentConfig:\n  annotations: {a: b}\n  selector: {matchLabels: {a: b}}
CONFIGS

number=0
while IFS= read -r line; do
  number=$((number + 1))
  printf '%b' "$line" >"$out/range/$number"
done <<'RANGES'
=1.11.0\n1.11.0
!=1.11\n1.11.3
>=1.11, <1.13\n1.12.0
>=1.2.3 <2.0.0 || >3\n3.0.0-alpha.1
~1.12.x\n1.12.5
^0.0.3\n0.0.3
^0.2\n0.2.9+build.1
1.2 - 1.4.5\n1.4.5
<=2.x\n2.9.9
*\n1.0.0-rc.1
>1.0.0 !=1.2.0\n18446744073709551615.0.0
v1.2.3-beta+001\n1.2.3+2
RANGES
