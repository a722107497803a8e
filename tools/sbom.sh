#!/usr/bin/env bash
# The software bill of materials of an installed wheel (CycloneDX): dist/sfumato.cdx.json. Needs uv.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
uv venv --quiet --python "$1" "$work/bare"
uv pip install --quiet --python "$work/bare/bin/python" dist/sfumato-*.whl
uv tool run --quiet --from 'cyclonedx-bom>=5,<8' cyclonedx-py environment --output-reproducible \
  --pyproject pyproject.toml --mc-type application --output-format JSON \
  --output-file dist/sfumato.cdx.json "$work/bare/bin/python"
echo "dist/sfumato.cdx.json"
