#!/usr/bin/env bash
# Build wheel and source distribution twice; both times they must have the same bytes.
set -euo pipefail
bin=$1
# Files in the packages carry the time of the last commit, wherever and whenever they are built.
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
again=$(mktemp -d)
trap 'rm -rf "$again"' EXIT
rm -rf dist/sfumato-*
"$bin/hatchling" build -d dist > /dev/null
"$bin/hatchling" build -d "$again" > /dev/null
for file in "$again"/*; do
  cmp "$file" "dist/$(basename "$file")"
done
(cd dist && sha256sum sfumato-*.whl sfumato-*.tar.gz | tee SHA256SUMS)
