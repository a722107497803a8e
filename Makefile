# `make demo` and `make test` prepare everything themselves, on a bare Debian machine with Python 3.11.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
DEMO_STAMP := $(VENV)/.ready-for-demo
unexport PYTHONDONTWRITEBYTECODE  # hundreds of processes would compile the same modules again

.PHONY: demo test test-all checks soak mutants docs-numbers setup system lint types unit spark docs bench bench-check \
  replicate lock clean packages check-wheel check-wheel-lowest-direct check-wheel-locked check-wheels wheelhouse sbom image

demo: $(DEMO_STAMP)
	$(BIN)/sfumato demo --out demo

test: setup
	$(MAKE) --jobs=2 --output-sync=target checks  # each of these leaves a core idle for long
	$(MAKE) unit
	@echo "make test: everything passed"

checks: lint types spark docs check-wheel

test-all: setup system lint types docs check-wheel  ## also the long statistical studies, and coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n 2 --dist worksteal -m "not spark"
	$(BIN)/coverage run -m pytest -n 0 -m spark tests/engines
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report
	@echo "make test-all: everything passed"

setup: $(STAMP)

$(STAMP): pyproject.toml requirements.lock tools/setup.sh
	bash tools/setup.sh "$(PYTHON)" $(VENV)
	@touch $@ $(DEMO_STAMP)

$(DEMO_STAMP): pyproject.toml requirements.lock tools/setup.sh  ## a part of it, in a fraction of the time
	bash tools/setup.sh "$(PYTHON)" $(VENV) demo
	@touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: setup
	$(BIN)/mypy

system:
	bash tools/system.sh

unit: setup system
	$(BIN)/pytest -n 3 --dist worksteal -m "not study and not spark"  # some wait: servers, browsers

spark: setup system
	$(BIN)/pytest -n 0 -m "spark and not study" tests/engines  # one cluster, started once

docs: setup
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true \
	  $(BIN)/mkdocs build --strict --quiet --site-dir site

bench: setup  ## what everything costs beside a baseline, into the ledger: hours
	$(BIN)/python -m benchmarks

bench-check: setup  ## the quick rows: fails where one got slower
	$(BIN)/python -m benchmarks --check

replicate: setup  ## recompute the tables of the papers, or of one: make replicate PAPER=crowds
	$(BIN)/python -m replication $(PAPER:%=--paper %)

CASES ?= 5000
soak: setup  ## attack random releases for minutes or hours: make soak CASES=100000
	$(BIN)/python -m tests.soak.met_but_broken --cases $(CASES)
	$(BIN)/python -m tests.soak.outputs --cases $(CASES)
	$(BIN)/python -m tests.soak.preserved --cases $(CASES)
	$(BIN)/python -m tests.soak.fuzz --cases $(CASES)
	$(BIN)/python -m tests.soak.kills

SAMPLE ?= 60
SEED ?= 19
mutants: setup  ## change the code in random places and see whether a test notices: about an hour
	$(BIN)/python -m tools.mutants --sample $(SAMPLE) --seed $(SEED)

docs-numbers: setup  ## run the slow commands behind numbers in the docs again: hours
	$(BIN)/python -m tools.docs_numbers

packages: setup  ## wheel and source distribution in dist/, the same bytes whenever they are built
	bash tools/packages.sh $(BIN)

## the wheel in bare environments: the lowest dependencies, and the locked ones
check-wheel: check-wheel-lowest-direct check-wheel-locked

check-wheel-lowest-direct check-wheel-locked: check-wheel-%: packages
	PATH="$(CURDIR)/$(BIN):$$PATH" bash tools/check_wheel.sh "$(PYTHON)" $*

check-wheels: packages  ## on every Python, with the lowest and the newest dependencies, and all extras
	export PATH="$(CURDIR)/$(BIN):$$PATH"; \
	for python in 3.11 3.12 3.13; do \
	  for resolution in lowest-direct highest; do \
	    bash tools/check_wheel.sh $$python $$resolution formats,postgres,spark,studio || exit 1; \
	  done; \
	done

EXTRAS ?= formats,studio
wheelhouse: packages  ## all that an installation needs, for a machine without a network
	rm -rf dist/wheelhouse
	$(BIN)/pip wheel --quiet --disable-pip-version-check --wheel-dir dist/wheelhouse \
	  "sfumato[$(EXTRAS)] @ file://$$(ls $(CURDIR)/dist/sfumato-*.whl)"
	@echo "on the other machine: pip install --no-index --find-links wheelhouse 'sfumato[$(EXTRAS)]'"

sbom: packages  ## dist/sfumato.cdx.json: every package that is installed, with its licence
	PATH="$(CURDIR)/$(BIN):$$PATH" bash tools/sbom.sh "$(PYTHON)"

image: packages  ## an OCI image with the command line and the studio; needs docker
	docker build --tag sfumato .

lock: setup  ## resolve the newest versions that pyproject.toml allows
	$(BIN)/uv pip compile pyproject.toml --extra formats --extra postgres --extra spark --extra studio --group dev --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --no-header --no-emit-index-url --quiet --output-file requirements.lock

clean:
	rm -rf $(VENV) site demo dist .coverage* .mypy_cache .pytest_cache .ruff_cache
