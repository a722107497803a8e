"""Importing Sfumato is fast and pulls in nothing heavy."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import sfumato
from sfumato import catalogue

HEAVY = {
    "matplotlib", "plotly", "altair", "seaborn", "starlette", "fastapi", "uvicorn", "flask",
    "pyspark", "statsmodels", "sklearn", "numba", "scipy", "jinja2", "typer", "rich", "duckdb",
    "psycopg", "pandas",
}  # fmt: skip


def loaded(code: str, *, whole: bool = False) -> tuple[set[str], float]:
    script = (
        "import sys, json, time\nstart = time.process_time()\n"
        f"{code}\nprint(json.dumps([sorted(sys.modules), time.process_time() - start]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    modules, seconds = json.loads(done.stdout)
    return {name if whole else name.partition(".")[0] for name in modules}, seconds


def test_importing_pulls_in_no_heavy_library():
    modules, _ = loaded("import sfumato")
    assert not modules & HEAVY
    assert "polars" not in modules


def test_the_public_names_are_all_there_and_pull_in_no_plot_web_spark_or_model_library():
    code = "import sfumato as sf\n[getattr(sf, name) for name in dir(sf)]\nsf.methods.Coarsen"
    modules, _ = loaded(code)
    assert not modules & HEAVY


def test_the_studio_server_pulls_in_no_library_that_only_its_workers_use():
    code = """
from sfumato import catalogue
from sfumato.studio.forms import list_fields
from sfumato.studio.server import find_pages
from sfumato.studio.tasks import list_tasks
find_pages(), list_tasks()
for entries in (catalogue.methods(), catalogue.measures()):
    for entry in entries.values():
        list_fields(entry, {})
"""
    modules, _ = loaded(code)
    assert "starlette" in modules
    assert not modules & (HEAVY - {"starlette", "jinja2"} | {"pyarrow", "llvmlite"})


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


def test_no_two_classes_share_a_name():
    """A reader who searches for a name finds one thing."""
    places: dict[str, list[str]] = {}
    for path in Path(sfumato.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path.name)
    assert not {name: files for name, files in places.items() if len(files) > 1}


def test_no_room_enters_a_workshop_of_another():
    """What begins with an underscore belongs to its room; what others need has a plain name."""
    house = Path(sfumato.__path__[0])
    entered = []
    for path in house.rglob("*.py"):
        room = path.relative_to(house).parts[0]
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            top, *inner = node.module.split(".")
            if top != "sfumato" or inner[:1] in ([room], [path.stem]):
                continue
            names = [*inner[1:], *(item.name for item in node.names)]
            if any(name.startswith("_") and not name.startswith("__") for name in names):
                entered.append(f"{path.relative_to(house)}: {node.module}")
    assert entered == []


PROTECT = """
import polars as pl, sfumato as sf
plan = sf.Plan(schema={"age": "quasi"}, steps=[sf.methods.KAnonymity(k=2)], targets={"k.min": 2})
sf.protect(sf.Dataset(pl.DataFrame({"age": [1, 2, 3, 4]}), plan.schema), plan, key=bytes(32))
"""


def test_a_plan_loads_what_it_needs_and_not_every_method_and_measure():
    modules = [name for name in loaded(PROTECT, whole=True)[0] if name.startswith("sfumato")]
    assert "sfumato.risk.uniqueness" in modules
    assert not {"sfumato.risk.peers", "sfumato.methods.noise"} & {*modules}
    assert len(modules) <= 150


def test_every_number_is_found_without_loading_all_measures():
    """The text of the files says where a number is; it must not say less than the classes."""
    for entry in catalogue.measures().values():
        for number in entry.numbers:
            found = catalogue.measure_of(number.name)
            assert found is not None
            assert found.find_number(number.name) is not None
