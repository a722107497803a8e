#!/usr/bin/env bash
# Make the virtual environment with exactly the locked versions. Called by `make setup` when they changed.
set -euo pipefail
python=$1
venv=$2

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
# --use-pep517: the pip of Debian 12 would warn of each package that comes as source.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --use-pep517 --require-hashes \
  -r requirements.lock
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
