"""Models on the release of the first plan, beside the first plan that was suggested before.

Two tables. The first: what `deterministic` and `noise` leave of single values, by the number of
variables that are blurred together; it is why the first plan takes noise. The second: for each data
set and model, the overlap of confidence intervals with those on the original (1 is the same) and
the change of coefficients in standard errors, with the plan that `sfumato inspect` suggested before
and with the one that it suggests now; and how many targets of the plan of today each meets. Ranges
and sets cannot be modelled as they are: of a range the middle is taken, of a set a value at random,
which is the kindest an analyst could do.

SFUMATO_DATA must name the folder with adult.csv and titanic.csv.
"""

from __future__ import annotations

import os
import random
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

import sfumato as sf
from sfumato.plan.targets import judge
from sfumato.run import pair
from sfumato.run.measuring import take_measures
from sfumato.suggestion.first_plan import first_plan

KEY = bytes(32)
BLURRED = ["income", "glucose", "hdl", "systolic", "exam_score"]
STRATA = ["sex", "region"]
COHORT = """
[columns]
person_id = { role = "direct", kind = "text", identity = true }
name = { role = "direct", kind = "text" }
email = { role = "direct", kind = "text" }
nhs_number = { role = "direct", kind = "integer" }
address = { role = "direct", kind = "text" }
postcode = { role = "quasi", kind = "text" }
birth_date = { role = "quasi", kind = "date", domain = [1955-01-01, 1974-12-31] }
sex = { role = "quasi", kind = "nominal" }
ethnicity = { role = "quasi", kind = "nominal" }
region = { role = "quasi", kind = "nominal" }
school = { role = "cluster", kind = "nominal" }
household_size = { role = "quasi", kind = "integer", domain = [0, 10] }
marital_status = { role = "quasi", kind = "nominal" }
education = { role = "quasi", kind = "nominal" }
smoking = { role = "sensitive", kind = "nominal" }
income = { role = "sensitive", kind = "integer" }
height = { role = "quasi", kind = "continuous", domain = [140, 230] }
weight_kg = { role = "quasi", kind = "continuous", domain = [40, 160] }
glucose = { role = "sensitive", kind = "continuous" }
hdl = { role = "sensitive", kind = "continuous" }
systolic = { role = "sensitive", kind = "integer" }
diagnosis = { role = "sensitive", kind = "nominal" }
children = { role = "quasi", kind = "integer", domain = [0, 9] }
survey_weight = { role = "weight", kind = "continuous" }
exam_score = { role = "sensitive", kind = "continuous" }
[[steps]]
method = "drop"
[[steps]]
method = "drop"
variables = ["postcode"]
[[steps]]
method = "deterministic"
variables = ["income", "glucose", "hdl", "systolic", "exam_score"]
strata = ["sex", "region"]
k = 3
missing = "median"
whole = true
[[steps]]
method = "k_anonymity"
k = 5
output = "range"
"""
ADULT = """
[columns]
gender = { role = "quasi", kind = "nominal" }
age = { role = "quasi", kind = "integer", domain = [10, 100] }
race = { role = "quasi", kind = "nominal" }
marital_status = { role = "quasi", kind = "nominal" }
education = { role = "quasi", kind = "nominal" }
native_country = { role = "quasi", kind = "nominal" }
workclass = { role = "quasi", kind = "nominal" }
salary = { role = "sensitive", kind = "ordinal" }
occupation = { role = "quasi", kind = "nominal" }
[[steps]]
method = "k_anonymity"
k = 5
output = "range"
"""
TITANIC = """
[columns]
PassengerId = { role = "direct", kind = "integer", identity = true }
Survived = { role = "sensitive", kind = "nominal" }
Pclass = { role = "quasi", kind = "ordinal" }
Name = { role = "direct", kind = "text" }
Sex = { role = "quasi", kind = "nominal" }
Age = { role = "quasi", kind = "continuous", domain = [0, 90] }
SibSp = { role = "quasi", kind = "integer", domain = [0, 9] }
Parch = { role = "quasi", kind = "integer", domain = [0, 7] }
Ticket = { role = "direct", kind = "text" }
Fare = { role = "sensitive", kind = "continuous" }
Cabin = { role = "quasi", kind = "text" }
Embarked = { role = "quasi", kind = "nominal" }
[[steps]]
method = "drop"
[[steps]]
method = "drop"
variables = ["Cabin"]
[[steps]]
method = "deterministic"
variables = ["Fare"]
strata = ["Survived", "Pclass"]
k = 5  # what at_most = 0.2 came to
whole = true
[[steps]]
method = "k_anonymity"
k = 5
output = "range"
"""


@dataclass(frozen=True)
class Case:
    """A data set, the first plan it had, and models that somebody may fit."""

    name: str
    old: str
    models: tuple[tuple[str, str], ...]

    def read(self) -> sf.Dataset:
        """The file as a user reads it."""
        if self.name != "cohort":
            return sf.read(Path(os.environ["SFUMATO_DATA"]) / f"{self.name}.csv")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cohort.csv"
            sf.datasets.cohort(5000).write_csv(path)
            return sf.read(path)


CASES = (
    Case(
        "cohort",
        COHORT,
        (
            ("systolic ~ height + weight_kg + C(sex) + C(region)", "linear"),
            ("income ~ household_size + C(sex) + C(education)", "linear"),
        ),
    ),
    Case(
        "adult",
        ADULT,
        (
            ("salary ~ age + C(gender) + C(race)", "logistic"),
            ("salary ~ age + C(gender) + C(marital_status)", "logistic"),
        ),
    ),
    Case(
        "titanic",
        TITANIC,
        (
            ("Survived ~ Age + C(Sex) + C(Pclass)", "logistic"),
            ("Fare ~ Age + C(Pclass) + SibSp", "linear"),
        ),
    ),
)


def main() -> None:
    """Print both tables."""
    warnings.simplefilter("ignore")
    _compare_blurs()
    _compare_plans()


def _compare_blurs() -> None:
    cohort = sf.Dataset(sf.datasets.cohort(5000), sf.datasets.cohort_schema())
    complete = cohort.batch(BLURRED).select(~pl.any_horizontal(pl.all().is_null())).to_series()
    data = cohort.take(complete.arg_true().to_numpy())
    print(f"{len(data):,} people")
    print(f"{'cohort, step':<34} {'stayed':>7} {'interval':>9} {'undone':>7} {'change':>7}")
    for count in (1, 2, 3, 5):
        names = BLURRED[:count]
        step = sf.methods.Deterministic(variables=names, strata=STRATA, k=3, whole=True)
        undoing = sf.risk.Undoing(variables=names, strata=STRATA, k=3)
        _show_blur(f"deterministic, {count} variables, k = 3", data, step, names, undoing)
    for share in (0.1, 0.2, 0.3):
        step = sf.methods.Noise(variables=BLURRED, sd_share=share)
        _show_blur(f"noise, sd_share = {share}", data, step, BLURRED, None)
    print()


def _show_blur(label: str, data: sf.Dataset, step: Any, names: list[str], undoing: Any) -> None:
    released = step.apply(data, key=KEY)
    stayed = sf.utility.Displacement(variables=names).measure(data, released)
    interval = sf.risk.Interval(variables=names).measure(data, released)
    undone = "none" if undoing is None else f"{undoing.measure(data, released).value:.3f}"
    share = stayed.details["stayed_at_worst"]
    change = stayed.value
    print(f"{label:<34} {share:>7.3f} {interval.value:>9.3f} {undone:>7} {change:>7.3f}")


def _compare_plans() -> None:
    print(f"{'model':<62} {'plan':<4} {'targets':<8} {'overlap':>8} {'least':>7} {'change':>7}")
    for case in CASES:
        data = case.read()
        suggested = first_plan(data)
        plans = {"then": sf.Plan.parse(f"version = 1\n{case.old}"), "now": suggested}
        releases = {
            label: pair(data, sf.protect(data, _without_targets(plan), key=KEY))
            for label, plan in plans.items()
        }
        for model, family in case.models:
            for label, (original, released) in releases.items():
                measure = sf.utility.Coefficients(formula=model, family=family)
                found = measure.measure(original, read_kindly(original, released))
                print(
                    f"{case.name + ': ' + model:<62} {label:<4} "
                    f"{_count_met(suggested, original, released):<8} "
                    f"{found.details['mean_overlap']:>8.3f} "
                    f"{found.details['smallest_overlap']:>7.3f} "
                    f"{found.details['mean_difference']:>7.2f}"
                )


def _without_targets(plan: sf.Plan) -> sf.Plan:
    return sf.Plan(schema=plan.schema, steps=plan.steps)


def _count_met(plan: sf.Plan, original: sf.Dataset, released: sf.Dataset) -> str:
    """How many targets of the plan of today a release meets."""
    evidence = take_measures(plan.measures, original, released)
    verdict = judge(plan.targets, plan.measures, evidence)
    return f"{sum(judgement.met for judgement in verdict)} of {len(verdict)}"


def read_kindly(original: sf.Dataset, released: sf.Dataset) -> sf.Dataset:
    """The release with single values: the middle of a range, one of a set, nothing for `*`."""
    columns = []
    for name in released.columns:
        values, truth = released.column(name), original.column(name)
        if values.dtype != pl.String or not released.schema[name].generalised:
            continue
        if truth.dtype.is_temporal():
            continue
        draw = random.Random(1)  # noqa: S311 - no secret
        cells = [_read_cell(cell, draw, numeric=truth.dtype.is_numeric()) for cell in values]
        column = pl.Series(name, cells, strict=False)
        if truth.dtype.is_integer() and original.schema[name].kind in ("nominal", "ordinal"):
            column = column.round().cast(truth.dtype)
        columns.append(column)
    frame = released.batch(released.columns).with_columns(columns)
    schema = sf.Schema({name: original.schema[name] for name in released.columns})
    return sf.Dataset(frame, schema, given_identity=released.identity)


def _read_cell(cell: str | None, draw: random.Random, *, numeric: bool) -> Any:
    if cell is None or cell == "*":
        return None
    if cell.startswith("[") and numeric:
        low, high = cell[1:-1].split(";")
        return (float(low) + float(high)) / 2
    if cell.startswith(("{", "[")):
        value = draw.choice(cell[1:-1].split(";"))
        return float(value) if numeric else value
    return float(cell) if numeric else cell


if __name__ == "__main__":
    main()
