#!/usr/bin/env bash
# Install the wheel into a bare environment and go from a file to a checked release with it:
#   bash tools/check_wheel.sh 3.12 lowest-direct     or     bash tools/check_wheel.sh 3.11 highest formats,postgres
# The second word is how uv resolves our dependencies: the lowest that pyproject.toml allows, or the
# newest. Needs uv (`pip install uv`), and a Python of that version or a network to fetch one from.
set -euo pipefail
python=$1
resolution=${2:-highest}
extras=${3:+[$3]}
wheel=$(ls "$PWD"/dist/sfumato-*.whl)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for folder in "$HOME"/.pyenv/versions/*/bin; do
  export PATH="$PATH:$folder"  # uv looks for interpreters on the path
done
uv venv --quiet --python "$python" bare
uv pip install --quiet --python bare/bin/python --resolution "$resolution" "sfumato$extras @ file://$wheel"
export PATH="$work/bare/bin:$PATH" SFUMATO_LEDGER="$work/ledger"
sfumato --version
python - <<'PY'
import sfumato as sf

sf.datasets.cohort(300).write_csv("cohort.csv")
PY
sfumato inspect cohort.csv --plan plan.toml --quiet > /dev/null
sfumato assess cohort.csv --plan plan.toml --quiet | head -1
sfumato protect cohort.csv --plan plan.toml --out release --quiet > /dev/null
sfumato verify release --original cohort.csv --quiet | head -1
case "$extras" in *formats*)
  python -c 'import polars as pl; pl.read_csv("cohort.csv").write_excel("cohort.xlsx")'
  sfumato inspect cohort.xlsx --json --quiet > /dev/null ;;
esac
for file in man/man1/sfumato.1 bash-completion/completions/sfumato zsh/site-functions/_sfumato \
            fish/vendor_completions.d/sfumato.fish; do
  [ -s "bare/share/$file" ] || { echo "the wheel lacks share/$file" >&2; exit 1; }
done
echo "check-wheel: Python $python, $resolution dependencies${extras:+, extras $extras}: passed"
