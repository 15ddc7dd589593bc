# Prints bundles of package teapot that are called by their versions; after `chain` also channel stable,
# in which each replaces the one before.
if [ "$1" = chain ]; then
  shift
  printf '{schema: olm.channel, package: teapot, name: stable, entries: ['
  for version; do
    printf '{name: teapot.v%s%s}, ' "$version" "${before:+, replaces: teapot.v$before}"
    before=$version
  done
  printf ']}\n---\n'
fi
for version; do
  printf '{schema: olm.bundle, package: teapot, name: teapot.v%s, image: teapot.v%s, ' "$version" "$version"
  printf 'properties: [{type: olm.package, value: {packageName: teapot, version: %s}}]}\n---\n' "$version"
done
