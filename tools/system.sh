#!/usr/bin/env bash
# What the tests need from the operating system: a PostgreSQL server, a Spark cluster (Java 17) and
# nginx, which they start themselves, and Chromium, in which the report is opened.
# Installed where that is possible; elsewhere the tests that need it skip and say why.
set -euo pipefail
missing=()
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || missing+=(postgresql)
command -v java >/dev/null || [ -n "${JAVA_HOME:-}" ] || missing+=(openjdk-17-jre-headless)
command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium)
ls /usr/lib/*/libatomic.so.1 >/dev/null 2>&1 || missing+=(libatomic1)  # Playwright's own Node.js wants it
command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || missing+=(nginx-light)
[ "${#missing[@]}" -gt 0 ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
else
  echo "Not installed: ${missing[*]}; the tests that need it will be skipped." \
    "Hint: sudo apt-get install ${missing[*]}" >&2
fi
