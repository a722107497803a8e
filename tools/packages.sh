#!/usr/bin/env bash
# Build wheel and source distribution, then both once more from the source distribution, unpacked in
# another folder with other file times. Both times they must have the same bytes.
set -euo pipefail
hatchling=$(realpath "$1")/hatchling
# Files in the packages carry the time of the last commit, wherever and whenever they are built.
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
again=$(mktemp -d)
trap 'rm -rf "$again"' EXIT
rm -rf dist/sfumato-*
"$hatchling" build -d dist &> "$again/log" || { cat "$again/log" >&2; exit 1; }
tar --extract --touch --gzip --file dist/sfumato-*.tar.gz --directory "$again" --strip-components 1
(cd "$again" && "$hatchling" build -d built &>> log) || { cat "$again/log" >&2; exit 1; }
for file in "$again"/built/*; do
  cmp "$file" "dist/$(basename "$file")"
done
(cd dist && sha256sum sfumato-*.whl sfumato-*.tar.gz | tee SHA256SUMS)
