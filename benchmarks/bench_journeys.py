"""Whole journeys, as people make them: in Python, on the command line and in the studio.

A release is read, protected, measured, attacked, checked against its targets and written with its
reports. The baseline of large files is polars, which reads and writes the same table and does
nothing else; that of the command line is a Python that imports polars. A studio starts, opens the
file, takes all suggestions, tries the plan once and stops; its baseline does the same in Python.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.rows import Row, compare

GROUP = "journey"
SIZES, FEW = (100_000, 500_000, 4_000_000), 1_500
DATA = Path(__file__).parent / "data"

SETUP = """
import tempfile
import polars as pl
import sfumato as sf
from sfumato.plan import Writing
from benchmarks.bench_journeys import make
path, out = str(make({records})), tempfile.mkdtemp()
schema = {{
    "id": "direct", "name": "direct", "postcode": "quasi", "sex": "quasi", "region": "quasi",
    "age": sf.Column(role="quasi", kind="integer", domain=(0, 99)),
    "income": sf.Column(role="sensitive", kind="continuous"),
    "height": sf.Column(role="quasi", kind="continuous", domain=(50, 260)),
    "glucose": "sensitive", "visits": "other",
}}
steps = {steps}
plan = sf.Plan(schema=schema, steps=steps, targets={targets},
               release=Writing(accept_attacks="a benchmark"))
def release(path, out):
    done = sf.protect(sf.read(path), plan, key=bytes(32))
    done.write(out, overwrite=True, ledger=False)
release(str(make(2000)), tempfile.mkdtemp() + "/few")  # compiled code is loaded once
open("/proc/self/clear_refs", "w").write("5")
"""
PLANS: tuple[tuple[str, str, dict[str, float], float | None], ...] = (
    (
        "pseudonyms and intervals",
        """[sf.methods.Drop(variables=["name"]), sf.methods.Pseudonymise(variables=["id"]),
            sf.methods.Coarsen(variables=["age", "height"], intervals=8)]""",
        {},
        None,
    ),
    ("k-anonymity", "[sf.methods.Drop(), sf.methods.KAnonymity(k=5)]", {"k.min": 5}, 12),
    (
        "k-anonymity and noise",
        """[sf.methods.Drop(), sf.methods.KAnonymity(k=5),
            sf.methods.Noise(variables=["income", "glucose"], sd_share=0.2)]""",
        {"k.min": 5},
        18,
    ),
)
POLARS = 'pl.read_csv(path).write_csv(out + "/copy.csv")'

COMMANDS = """
import subprocess, sys, tempfile
import sfumato as sf
folder = tempfile.mkdtemp()
def call(*arguments):
    subprocess.run([sys.executable, "-m", "sfumato", *arguments], cwd=folder, check=True,
                   capture_output=True)
def import_polars():
    subprocess.run([sys.executable, "-c", "import polars"], check=True)
sf.datasets.cohort({records}).write_csv(folder + "/people.csv")
call("inspect", "people.csv", "--plan", "plan.toml")
"""
PROTECT = (
    'call("protect", "people.csv", "--plan", "plan.toml", "--out", "release", "--no-ledger", '
    '"--overwrite")'
)

STUDIO = """
import tempfile
from pathlib import Path
from benchmarks.bench_studio import try_the_plan
import sfumato as sf
from sfumato.suggestion.first_plan import first_plan
folder = Path(tempfile.mkdtemp())
sf.datasets.cohort({records}).write_csv(folder / "people.csv")
def in_python():
    data = sf.read(folder / "people.csv")
    sf.protect(data, first_plan(data), key=bytes(32)).evidence
"""

ROWS = [
    *(
        Row(
            f"release with {name}, {records:,} x 10",
            'release(path, out + "/many")',
            POLARS,
            "polars reading and writing",
            SETUP.format(records=records, steps=steps, targets=targets),
            goal=goal,
            quick=records == SIZES[0],
        )
        for records in SIZES
        for name, steps, targets, goal in PLANS
    ),
    *(
        Row(
            f"sfumato {name}",
            work,
            "import_polars()",
            "a Python that imports polars",
            COMMANDS.format(records=891),
            repeats=2,
            quick=True,
        )
        for name, work in (
            ("--version", 'call("--version")'),
            ("inspect, 891 records", 'call("inspect", "people.csv")'),
            ("protect, 891 records", PROTECT),
            ("demo", 'call("demo", "--out", "demo")'),
        )
    ),
    *(
        Row(
            f"studio: open, suggest, try, {records:,} records",
            'try_the_plan(folder, "people.csv")',
            "in_python()",
            "the same in Python",
            STUDIO.format(records=records),
            quick=records == FEW,
        )
        for records in (FEW, SIZES[0])
    ),
]


def make(records: int) -> Path:
    """A file of so many persons, made once."""
    DATA.mkdir(exist_ok=True)
    path = DATA / f"pipeline_{records}.csv"
    if not path.exists():
        random = np.random.default_rng(1)
        number = random.permutation(records)
        pl.DataFrame(
            {
                "id": pl.Series(number)
                .cast(pl.String)
                .str.zfill(8)
                .map_elements(lambda text: f"P{text}", return_dtype=pl.String),
                "name": pl.Series(random.integers(0, 10**7, records))
                .cast(pl.String)
                .str.pad_start(14, "N"),
                "age": random.integers(0, 95, records),
                "postcode": pl.Series(random.integers(1000, 99999, records))
                .cast(pl.String)
                .str.zfill(5),
                "sex": np.array(["F", "M"])[random.integers(0, 2, records)],
                "region": np.array(["north", "south", "east", "west"])[
                    random.integers(0, 4, records)
                ],
                "income": np.round(random.lognormal(10, 0.5, records), 2),
                "height": np.round(random.normal(170, 10, records), 1),
                "glucose": np.round(random.normal(5, 1, records), 2),
                "visits": random.integers(0, 30, records),
            }
        ).write_csv(path)
    return path


if __name__ == "__main__":
    list(compare(ROWS))
