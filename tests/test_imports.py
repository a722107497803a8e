"""Importing Sfumato is fast and pulls in nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = {
    "matplotlib", "plotly", "altair", "seaborn", "starlette", "fastapi", "uvicorn", "flask",
    "pyspark", "statsmodels", "sklearn", "numba", "scipy", "jinja2", "typer", "rich", "duckdb",
    "psycopg", "pandas",
}  # fmt: skip


def loaded(code: str) -> tuple[set[str], float]:
    script = (
        "import sys, json, time\nstart = time.process_time()\n"
        f"{code}\nprint(json.dumps([sorted(sys.modules), time.process_time() - start]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    modules, seconds = json.loads(done.stdout)
    return {name.partition(".")[0] for name in modules}, seconds


def test_importing_pulls_in_no_heavy_library():
    modules, _ = loaded("import sfumato")
    assert not modules & HEAVY
    assert "polars" not in modules


def test_the_public_names_are_all_there_and_pull_in_no_plot_web_spark_or_model_library():
    code = "import sfumato as sf\n[getattr(sf, name) for name in dir(sf)]\nsf.methods.Coarsen"
    modules, _ = loaded(code)
    assert not modules & (HEAVY - {"scipy"})


def test_importing_costs_little():
    # A generous bound on CPU time, not wall time: the promise is half a second.
    assert min(loaded("import sfumato")[1] for _ in range(3)) < 0.5


def test_unknown_names_are_told():
    import pytest

    import sfumato as sf

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        sf.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        sf.methods.Nonsense  # noqa: B018
    assert "Coarsen" in dir(sf.methods)
    assert "Uniqueness" in dir(sf.risk)
    assert "Propensity" in dir(sf.utility)
