"""A package of somebody else brings a method and a measure, and they are found everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = '''
"""Record swapping: values of the same variables change places between records."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Engine, Starts
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.measure import Measure
from sfumato.method import Fitted, Grouped, Strength
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import Schema


@parameters
class Swap(Grouped):
    """Swap values between some of the records.

    Question: how many records must change places before nobody trusts a match?
    Assumes: an outsider cannot tell which records were swapped.

    Parameters
    ----------
    variables : what changes places.
    share : how many of the records take part.

    Examples
    --------
    >>> Swap(variables=["income"]).share
    0.1
    """

    name = "swap"
    keyed = True
    strength: ClassVar[Strength | None] = Strength("share", stronger="up")
    examples = ({"variables": ["income"], "share": 0.2},)
    variables: list[str]
    share: Annotated[float, Field(gt=0, le=1)] = 0.1

    def touches(self, schema: Schema) -> tuple[str, ...]:
        return tuple(self.variables)

    def by(self, schema: Schema) -> tuple[str, ...]:
        return ()

    def groups(
        self, batch: pl.DataFrame, starts: Starts, fitted: Fitted, draws: Draws | None
    ) -> pl.DataFrame:
        assert draws is not None
        rows = np.arange(len(batch))
        chosen = np.argsort(draws.uniform("swap"))[: round(self.share * len(batch))]
        rows[chosen] = np.roll(chosen, 1)
        return batch.select(self.variables)[rows]


@parameters
class Swapped(Measure):
    """Share of records whose values are no longer where they were.

    Question: how many records changed?
    Assumes: rows of both data sets belong together.

    Parameters
    ----------
    variables : what is compared.

    Examples
    --------
    >>> Swapped(variables=["income"]).of
    'pair'
    """

    name = "swapped"
    numbers = (Number.share("swapped", safer="neither", useful="less"),)
    of = "pair"
    aspect = "utility"
    examples = ({"variables": ["income"]},)
    odd: ClassVar[dict[str, float]] = {"one row": 0, "all missing": 0}
    variables: list[str]

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        if not len(original):
            raise MeasureError("There is no record to compare.", hint="is it the right file?")
        changed = np.zeros(len(original), bool)
        for name in self.variables:
            changed |= ~original.column(name).eq_missing(released.column(name)).to_numpy()
        return Evidence(
            name=self.name, subject="pair", value=float(changed.mean()),
            assumptions=("Rows of both data sets belong together.",),
        )
'''
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "record-swapping"
version = "0.1"

[project.entry-points."sfumato.methods"]
swap = "record_swapping:Swap"

[project.entry-points."sfumato.measures"]
swapped = "record_swapping:Swapped"

[tool.hatch.build.targets.wheel]
packages = ["record_swapping"]
"""
PLAN = """
[columns]
sex = "quasi"
income = "sensitive"

[[steps]]
method = "swap"
variables = ["income"]
share = 0.3

[targets]
swapped.min = 0.05

[evaluate.swapped]
variables = ["income"]
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed package, as it would lie in site-packages."""
    source = tmp_path_factory.mktemp("record-swapping")
    (source / "record_swapping").mkdir()
    (source / "record_swapping" / "__init__.py").write_text(MODULE)
    (source / "pyproject.toml").write_text(PROJECT)
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--no-build-isolation", "--target", str(folder), str(source)], check=True)
    return folder


@pytest.fixture(scope="module")
def run(site: Path, tmp_path_factory: pytest.TempPathFactory):
    """Python or `sfumato`, with that package installed, in a folder with data and plan."""
    folder = tmp_path_factory.mktemp("work")
    rows = "\n".join(f"{'mf'[number % 2]},{20000 + 37 * number}" for number in range(200))
    (folder / "people.csv").write_text(f"sex,income\n{rows}\n")
    (folder / "plan.toml").write_text(PLAN)
    environment = os.environ | {"PYTHONPATH": str(site)}

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )

    call.folder = folder  # type: ignore[attr-defined]
    return call


def test_a_plan_runs_it_and_the_report_names_it(run):
    done = run("-m", "sfumato", "protect", "people.csv", "-p", "plan.toml", "-o", "out", "--json")
    assert done.returncode == 0, done.stderr
    manifest = json.loads(done.stdout)
    assert [method["method"] for method in manifest["methods"]] == ["swap"]
    assert manifest["targets"][0]["met"]
    for edition in ("report.html", "custody/report.html"):
        page = (run.folder / "out" / edition).read_text("utf-8")
        assert "swap" in page
        assert "swapped" in page


def test_it_keeps_the_contract_and_is_found_where_dir_lists_it(run):
    code = """
import sfumato as sf
from sfumato.testing import check_measure, check_method
assert "Swap" in dir(sf.methods) and "Swapped" in dir(sf.utility)
check_method(sf.methods.Swap)
check_measure(sf.utility.Swapped)
try:
    sf.risk.Swapped
except AttributeError:
    print("kept")
"""
    done = run("-c", code)
    assert done.stdout.strip() == "kept", done.stderr


def test_the_command_line_explains_it(run):
    methods = json.loads(run("-m", "sfumato", "methods", "--json").stdout)
    assert methods["swap"]["what"] == "Swap values between some of the records."
    shown = run("-m", "sfumato", "measures", "swapped")
    assert "How many records changed?" in " ".join(shown.stdout.split()).replace("how", "How")
    assert "sfumato evaluate FILE RELEASE --measure swapped" in shown.stdout


def test_tune_turns_its_strength(run):
    code = """
import sfumato as sf
given = sf.Plan.load("plan.toml")
plan = sf.Plan(
    schema=given.schema,
    steps=given.steps,
    targets={"linkage.max": 0.99},
    evaluate={"linkage": sf.risk.Linkage(variables=["income"]), **given.evaluate},
)
data = sf.read("people.csv").with_schema(plan.schema)
tuned = sf.tune(data, plan, runs=4, repeats=1)
shares = {
    getattr(step, "share", None) for one in tuned.candidates for step in one.plan.steps
    if step.name == "swap"
}
print(len(shares) > 1)
"""
    done = run("-c", code)
    assert done.stdout.strip() == "True", done.stderr


def test_the_reference_has_a_page_of_it(run):
    # The site's generator, with a stand-in for the part of mkdocs that takes the pages.
    code = """
import contextlib, io, runpy, sys, types
pages = {}

@contextlib.contextmanager
def open_page(path, mode):
    page = io.StringIO()
    yield page
    pages[path] = page.getvalue()

site = types.ModuleType("mkdocs_gen_files")
site.open, site.config = open_page, {"nav": [{"Reference": []}]}
sys.modules["mkdocs_gen_files"] = site
runpy.run_path(sys.argv[1])
assert "Swap values between some of the records." in pages["reference/methods/swap.md"]
assert "`share`" in pages["reference/methods/swap.md"]
assert "[swapped](swapped.md)" in pages["reference/measures/index.md"]
print("found")
"""
    done = run("-c", code, str(Path(__file__).parents[2] / "docs" / "generate.py"))
    assert done.stdout.strip() == "found", done.stderr


def test_a_broken_plugin_is_named_and_left_out(site, run, tmp_path):
    folder = tmp_path / "broken-0.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 0.1\n")
    (folder / "entry_points.txt").write_text(
        "[sfumato.methods]\nnowhere = no_such_module:Method\nnothing = json:loads\n"
    )
    code = """
import sys, warnings
sys.path.insert(0, sys.argv[1])
from sfumato import catalogue
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    names = catalogue.methods()
assert "swap" in names and "coarsen" in names
print(sorted(str(one.message).split("'")[1] for one in caught))
"""
    done = run("-c", code, str(tmp_path))
    assert done.stdout.strip() == "['nothing', 'nowhere']", done.stderr


def test_nobody_may_pass_a_plugin_off_as_one_of_ours(run, tmp_path):
    folder = tmp_path / "impostor-0.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: impostor\nVersion: 0.1\n")
    (folder / "entry_points.txt").write_text("[sfumato.measures]\nuniqueness = impostor:Fake\n")
    (tmp_path / "impostor.py").write_text(
        "from sfumato.measure import Measure\nfrom sfumato.numbers import Number\n\n\n"
        "class Fake(Measure):\n    name = 'uniqueness'\n"
        "    numbers = (Number.share('uniqueness'),)\n"
    )
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from sfumato import catalogue
from sfumato.errors import PlanError
try:
    catalogue.measures()
except PlanError as error:
    print(error.what)
"""
    done = run("-c", code, str(tmp_path))
    assert "'impostor' brings a 'uniqueness', which Sfumato has already" in done.stdout
