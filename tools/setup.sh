#!/usr/bin/env bash
# Make the virtual environment with the locked versions, verified by their checksums. Called by make:
#   bash tools/setup.sh python3.11 .venv demo     what Sfumato needs to run, with formats and studio
#   bash tools/setup.sh python3.11 .venv          everything, also what tests, docs and linters need
# One may follow the other, in either order.
set -euo pipefail
python=$1
venv=$2
purpose=${3:-all}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "Sfumato needs Python 3.11 or newer; '$python' is older. Hint: make PYTHON=/path/to/python3.11" >&2
  exit 2
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  # Debian keeps the venv module in a package of its own.
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
  else
    echo "Python's venv module is missing. Hint: sudo apt-get install python3-venv" >&2
    exit 2
  fi
fi
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"

# pip installs uv, and uv the rest, many packages at once.
sed -n '/^uv==/,/[^\\]$/p' requirements.lock > "$venv/uv.lock"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$venv/uv.lock"

# Where there is a mirror, or no network, pip alone was told where packages come from.
settings=$("$venv/bin/python" -m pip config list)
for pair in index-url=UV_DEFAULT_INDEX extra-index-url=UV_INDEX find-links=UV_FIND_LINKS cert=SSL_CERT_FILE; do
  value=$(sed -nE "/^(:env:|global|install)\.${pair%=*}='(.*)'\$/{s//\2/p;q}" <<< "$settings")
  name=${pair#*=}
  [ -z "$value" ] || [ -n "${!name:-}" ] || export "$name=${value//'\n'/ }"
done
export UV_INDEX_STRATEGY=unsafe-best-match  # as pip does; the checksums say what is ours

install() { "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" "$@"; }
if [ "$purpose" = demo ]; then
  install --constraint requirements.lock -r pyproject.toml --extra formats --extra studio hatchling editables
else
  install --require-hashes -r requirements.lock
fi
install --no-deps --no-build-isolation -e .
