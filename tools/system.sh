#!/usr/bin/env bash
# What the tests need from the operating system: a PostgreSQL server they start themselves.
# Installed where that is possible; elsewhere the tests that need it skip and say why.
set -euo pipefail
if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; then
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql >/dev/null
else
  echo "PostgreSQL is not installed; its tests will be skipped. Hint: sudo apt-get install postgresql" >&2
fi
