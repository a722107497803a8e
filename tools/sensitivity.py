"""What k and the number of records do to risk and utility: the two figures of the docs.

    .venv/bin/python -m tools.sensitivity            # 100 cohorts at each point
    .venv/bin/python -m tools.sensitivity --repeats 5 --out /tmp

Cohorts are simulated after the bundled, invented one: four measurements in the four strata of sex
and smoking. Each is blurred by the deterministic method and measured.

References: Avraam, Jones & Burton (2021), A deterministic approach for protecting privacy in
sensitive personal data, Figures 7 and 8.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl

import sfumato as sf
from sfumato.datasets.simulation import Simulator
from sfumato.figures.custodian import sweep as drawn

NUMBERS = ["glucose", "hdl", "height", "weight_kg"]
STRATA = ["sex", "smoker"]
MODEL = "glucose ~ sex + smoker + hdl + height + weight_kg"
K = [3, 5, 7, 10, 15, 20, 25, 30, 35, 40, 46]
SIZES = [50, 100, 200, 500, 1000, 1500, 2000, 2500, 3000]
SWEEPS = (("sensitivity-k", "k", K, [500]), ("sensitivity-n", "records", [5], SIZES))
PANELS = {
    "Utility loss as a whole (U)": {"propensity": "U"},
    "Displacement (δ)": {f"displacement[{name}]": name for name in NUMBERS},
    "Difference of coefficients": {"coefficients.mean_difference": "mean over terms"},
    "Disclosure risk": {"mahalanobis.risk1": "risk1", "mahalanobis.risk2": "risk2"},
}
"""What is drawn: the columns of each panel, and what they are called there."""


def cohorts() -> Simulator:
    """Draws cohorts after the bundled one, without the few people who were made extreme."""
    smoker = (pl.col("smoking") == "current").alias("smoker")
    like = sf.datasets.cohort(20_000).select("sex", smoker, *NUMBERS).drop_nulls()
    usual = like.filter(pl.col("glucose").is_between(0, 15), pl.col("height").is_between(140, 200))
    return sf.datasets.simulator(usual, continuous=NUMBERS, strata=STRATA)


def plan(k: int = 5) -> sf.Plan:
    """Blur the four measurements; measure U, δ, the coefficients and the risk."""
    return sf.Plan(
        schema={**dict.fromkeys(STRATA, "quasi"), **dict.fromkeys(NUMBERS, "sensitive")},
        steps=[sf.methods.Deterministic(variables=NUMBERS, strata=STRATA, k=k)],
        evaluate=[
            sf.utility.Propensity(permutations=0),
            sf.utility.Displacement(variables=NUMBERS),
            sf.utility.Coefficients(formula=MODEL),
            sf.risk.Mahalanobis(variables=NUMBERS),
        ],
    )


def told(what: str, done: int, total: int) -> None:
    """A line that overwrites itself."""
    sys.stderr.write(f"\r{what}: {done} of {total}")


def runs(name: str, folder: Path | None, **what: Any) -> pl.DataFrame:
    """The table of all runs; one that was kept in the folder is not made again."""
    kept = folder / f"{name}.csv" if folder else None
    if kept and kept.is_file():
        return pl.read_csv(kept, infer_schema_length=None)
    start = time.perf_counter()
    made: pl.DataFrame = sf.sweep(cohorts(), plan(), progress=told, **what)
    print(f"\n{name}: {len(made)} runs in {time.perf_counter() - start:.0f} s")
    if kept:
        made.write_csv(kept)
    return made


def draw(made: pl.DataFrame, x: str, to: Path) -> None:
    """The means on the screen, and the figure in its file."""
    names = {column: called for columns in PANELS.values() for column, called in columns.items()}
    short = made.select(x, "repeat", "reason", *names).rename(names)
    failed = short["reason"].is_not_null().sum()
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=140, float_precision=5):
        print(short.group_by(x).agg(pl.col(*names.values()).mean()).sort(x))
    print(f"{failed} runs lack numbers.")
    panels = {title: list(columns.values()) for title, columns in PANELS.items()}
    picture = drawn(short, x, panels, log_x=x == "records", public=True)
    picture.save(to, overwrite=True)


def main() -> None:
    """Make both tables and both figures."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--repeats", type=int, default=100)
    words.add_argument("--out", type=Path, default=Path("docs/assets"), help="for the figures")
    words.add_argument("--tables", type=Path, help="keep the tables of all runs in this folder")
    given = words.parse_args()
    for name, x, values, sizes in SWEEPS:
        made = runs(name, given.tables, k=values, sizes=sizes, repeats=given.repeats)
        draw(made, x, given.out / f"{name}.svg")


if __name__ == "__main__":
    main()
