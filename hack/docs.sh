#!/usr/bin/env bash
# Renders the documents as a site, with mdBook: target/book/index.html. Its contents are the pages that
# docs/README.md lists, in that order.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
source=target/book-source
rm -rf "$source"
mkdir -p "$source"
# Files that pages link to keep their paths.
git ls-files -z -- '*.md' docs src/cli/tests/graph src/image/testdata |
  xargs -0 cp --parents --target-directory="$source"

entry() { # indentation, page
  printf '%s- [%s](%s)\n' "$1" "$(sed -n '/^# /{s/^# //p;q}' "$2")" "$2"
}

pages() { # document, indentation: its tables and lists of pages, and its headings
  local line page folder
  folder=$(dirname "$1")
  while IFS= read -r line; do
    if [[ $line == '## '* ]]; then
      printf '\n%s\n\n' "${line#\#}"
      continue
    fi
    page=$(realpath --relative-to=. "$folder/$line")
    entry "$2" "$page"
    [[ $page != docs/runbooks/README.md ]] || pages "$page" "  "
  done < <(sed -nE 's/^(\| |- )\[[^]]*\]\(([^)#]*\.md)\).*/\2/p; /^## /p' "$1")
}

{
  printf '# Summary\n\n[olm-controller](README.md)\n[Documents](docs/README.md)\n'
  pages docs/README.md "" | grep -vF '](README.md)'
} >"$source/SUMMARY.md"

mdbook build
echo "the site is in target/book: open target/book/index.html"
