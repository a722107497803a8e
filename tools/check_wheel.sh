#!/usr/bin/env bash
# Install the wheel into a bare environment and go from a file to a signed and checked release with it:
#   bash tools/check_wheel.sh 3.12 lowest-direct     or     bash tools/check_wheel.sh 3.11 highest formats,postgres
# The second word is how our dependencies are chosen: the lowest that pyproject.toml allows, the newest
# there are, or those of requirements.lock (locked). Needs uv, and that Python or a network to fetch it from.
set -euo pipefail
python=$1
resolution=${2:-highest}
extras=${3:-}
repository=$PWD
wheel=$(ls "$repository"/dist/sfumato-*.whl)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for folder in "$HOME"/.pyenv/versions/*/bin; do
  export PATH="$PATH:$folder"  # uv looks for interpreters on the path
done
uv venv --quiet --python "$python" bare
# Our dependencies are named here, and not left to the wheel: "lowest-direct" lowers only what is named.
chosen=(--resolution "$resolution" -r "$repository/pyproject.toml")
[ "$resolution" != locked ] || chosen=(--constraint "$repository/requirements.lock" -r "$repository/pyproject.toml")
for extra in ${extras//,/ }; do
  chosen+=(--extra "$extra")
done
uv pip install --quiet --python bare/bin/python "${chosen[@]}" "$wheel"
export PATH="$work/bare/bin:$PATH" SFUMATO_LEDGER="$work/ledger" SFUMATO_DEBUG=1
sfumato --version
python - <<'PY'
import sfumato as sf

sf.datasets.cohort(300).write_csv("cohort.csv")
PY
sfumato inspect cohort.csv --plan plan.toml --quiet > inspect.log
sfumato assess cohort.csv --plan plan.toml --quiet > assess.log && head -1 assess.log
sfumato protect cohort.csv --plan plan.toml --out release --quiet &> protect.log || { cat protect.log; exit 1; }
echo "an invented passphrase" > passphrase
sfumato keygen custodian --passphrase-file passphrase &> keygen.log
sfumato sign release --key custodian.pem --name "A. Novak" --passphrase-file passphrase &> sign.log
sfumato verify release --original cohort.csv --signer custodian.public.pem --quiet > verify.log && head -1 verify.log
sfumato evaluate cohort.csv release --measure propensity --measure coefficients \
  --formula "systolic ~ height + sex" --quiet > evaluate.log
sfumato plot histogram cohort.csv --x height --out height.png --quiet > plot.log
sfumato table cohort.csv --rows sex --protection round --quiet > table.log
python - <<'PY'
import sfumato as sf

original = sf.Dataset(sf.datasets.cohort(300), sf.datasets.cohort_schema())
released = sf.methods.Noise(variables=["height"], variance_share=0.1).apply(original)
noise = {"height": sf.Gaussian(variance=9.0)}
print(sf.fit("systolic ~ height + sex", released.frame, noise=noise, draws=200, chains=2))
PY
for extra in ${extras//,/ }; do
  case $extra in
    formats)
      python -c 'import polars as pl; pl.read_csv("cohort.csv").write_excel("cohort.xlsx")'
      sfumato inspect cohort.xlsx --json --quiet > formats.log
      python -c 'import duckdb; duckdb.connect("cohort.duckdb").sql("create table cohort as from \"cohort.csv\"")'
      sfumato inspect duckdb:///cohort.duckdb --table cohort --json --quiet > formats.log ;;
    postgres) python -c 'import postgast, psycopg; postgast.parse("select 1")' ;;
    spark) python -c 'import pyspark, sfumato.engines.spark' ;;
    studio) python -c 'import starlette.applications, uvicorn' ;;
  esac
done
for file in man/man1/sfumato.1 bash-completion/completions/sfumato zsh/site-functions/_sfumato \
            fish/vendor_completions.d/sfumato.fish; do
  [ -s "bare/share/$file" ] || { echo "the wheel lacks share/$file" >&2; exit 1; }
done
echo "check-wheel: Python $python, $resolution dependencies${extras:+, with $extras}: passed"
