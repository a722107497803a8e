"""Deterministic anonymisation: the Titanic, and what cannot be had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from replication import birth_cohort
from replication.comparison import Row, bound_by_range, read_table
from replication.sources import Sources
from sfumato.data import Dataset
from sfumato.engines.local import count_combinations
from sfumato.methods.deterministic import Deterministic
from sfumato.progress import current_progress
from sfumato.risk.mahalanobis import Mahalanobis
from sfumato.risk.uniqueness import Uniqueness
from sfumato.schema import Column, Schema
from sfumato.utility.coefficients import Coefficients
from sfumato.utility.displacement import Displacement
from sfumato.utility.propensity import Propensity

_STRATA = ["Pclass", "Sex", "Family"]
_NUMBERS = ["Age", "Fare"]
_FORMULA = "Survived ~ C(Pclass) + Sex + Age + Fare + Family"
K = 3
TIE_ORDERS = 32
"""Random ways to break ties that are tried."""
_JITTER = 1e-9
"""Standard deviations by which records are moved to break ties: no printed digit sees it."""
_TABLE_2 = """
1 female 0  34 33
2 female 0  32 29
3 female 0  60 37
1 male   0  75 25
2 male   0  72  7
3 male   0 264 32
1 female 1  60 58
2 female 1  44 41
3 female 1  84 35
1 male   1  47 20
2 male   1  36 10
3 male   1  83 15
"""
_TEXT = (
    ("displacement of Age", "δ of Age", "0.0114"),
    ("displacement of Fare", "δ of Fare", "0.0473"),
    ("propensity", "U", "0.000117"),
    ("risk1", "risk1", "0.0426"),
    ("risk1_records", "risk1, records", "38"),
    ("risk2", "risk2", "0.009"),
    ("risk2_records", "risk2, records", "8"),
)
_TERMS = ("intercept", "2nd class", "3rd class", "male", "age", "fare", "family")
_COLUMNS = (
    "original", "original_se", "original_z", "original_p", "released", "released_se",
    "released_z", "released_p", "coefficients",
)  # fmt: skip
_TABLE_3 = """
 3.519 0.437   8.054 8.00e-16  3.615 0.454   7.972 1.56e-15 0.220
-1.067 0.286  -3.732 0.0002   -1.112 0.300  -3.707 0.0002   0.159
-2.283 0.281  -8.135 4.12e-16 -2.343 0.300  -7.822 5.21e-15 0.216
-2.628 0.194 -13.527 <2e-16   -2.625 0.194 -13.508 <2e-16   0.012
-0.033 0.008  -4.437 9.13e-06 -0.035 0.008  -4.586 4.53e-06 0.205
 0.001 0.002   0.466 0.641     0.001 0.002   0.217 0.829    0.223
-0.091 0.194  -0.471 0.638    -0.089 0.197  -0.452 0.651    0.010
"""
_COLUMN_LABELS = {
    "original": "original, estimate", "original_se": "original, standard error",
    "original_z": "original, z", "original_p": "original, p",
    "released": "released, estimate", "released_se": "released, standard error",
    "released_z": "released, z", "released_p": "released, p",
    "coefficients": "standardised difference",
}  # fmt: skip


def compare_rows(sources: Sources) -> Iterator[Row]:
    """Tables 2 and 3 and the numbers of the text; then what needs data that nobody may have."""
    raw = sources.read("titanic.csv")
    family = ((pl.col("SibSp") + pl.col("Parch")) > 0).cast(pl.Int64)
    frame = raw.select("Survived", "Pclass", "Sex", "Age", "Fare", Family=family)
    yield from _compare_table_2(frame)
    method = Deterministic(
        variables=_NUMBERS, strata=_STRATA, k=K, missing="median", release_imputed=True
    )
    released = method.apply(Dataset(frame, _build_schema()))
    full = frame.with_columns(pl.col("Age").fill_null(pl.col("Age").median()))
    original = Dataset(full, _build_schema())
    ours = _measure_release(original, released)
    orders = [ours, *_break_ties(original, method)]
    why = (
        "some passengers have neighbours at the same distance. The paper's program broke these "
        f"ties by chance, ours breaks them by coordinates. The bound is the range over "
        f"{TIE_ORDERS} random ways to break them, and ours."
    )
    for passage, what, name, printed in _list_printed_numbers():
        if name.startswith("original"):  # no release is in it, and no tie
            yield Row(place=passage, what=what, printed=printed, ours=ours[name])
            continue
        bound = bound_by_range([order[name] for order in orders])
        yield Row(place=passage, what=f"our release: {what}", printed=printed, ours=ours[name],
                  why=why, bound=bound)  # fmt: skip
    theirs = sources.find_reference("titanic_anonymised.csv")
    if theirs is not None:
        file = pl.read_csv(theirs)
        paper = Dataset(full.with_columns(file["Age"], file["Fare"]), original.schema)
        measured = _measure_release(original, paper)
        for passage, what, name, printed in _list_printed_numbers():
            if not name.startswith("original"):
                yield Row(place=passage, what=f"the paper's release: {what}", printed=printed,
                          ours=measured[name])  # fmt: skip
    yield from _measure_dense(sources)
    why = (
        "the data of the 1958 cohort are available to approved researchers only. In kind below, on "
        "an "
        "invented cohort of the same size."
    )
    yield Row(place="Table 4, Figures 5 and 6", what="1958 cohort", why=why)
    why = (
        "simulated from that cohort; in kind below, and in full by `python -m tools.sensitivity` "
        "or, for data of your own, by `sfumato sweep --simulate`. Utility and risk both fall with "
        "k, "
        "as printed; with more records the standardised differences of coefficients fall and then "
        "rise, which the figure does not show."
    )
    yield Row(place="Figures 7 and 8", what="sensitivity", why=why)
    yield from birth_cohort.compare_rows()


def _build_schema() -> Schema:
    columns = {
        "Survived": Column(role="sensitive", kind="nominal"),
        # With all digits: the paper does not round.
        "Age": Column(role="quasi", kind="continuous", digits=15),
        "Fare": Column(role="quasi", kind="continuous", digits=15),
    }
    return Schema({**columns, **{name: Column(role="quasi", kind="nominal") for name in _STRATA}})


def _compare_table_2(frame: pl.DataFrame) -> Iterator[Row]:
    everybody = count_combinations(frame.select(_STRATA))
    survivors = count_combinations(frame.filter(pl.col("Survived") == 1).select(_STRATA))
    people, survived = (
        dict(zip(counted.values.rows(), counted.counts.tolist(), strict=True))
        for counted in (everybody, survivors)
    )
    for pclass, sex, family, *printed in read_table(_TABLE_2):
        stratum = (int(pclass), sex, int(family))
        what = f"class {pclass}, {sex}, {'with family' if stratum[2] else 'alone'}"
        yield Row(place="Table 2", what=what, printed=printed[0], ours=people.get(stratum, 0))
        yield Row(place="Table 2", what=f"{what}, survived", printed=printed[1],
                  ours=survived.get(stratum, 0))  # fmt: skip
    k = Uniqueness(known=_STRATA).measure(Dataset(frame, _build_schema())).details["k"]
    yield Row(place="Table 2", what="smallest stratum", printed="32", ours=k)


def _list_printed_numbers() -> Iterator[tuple[str, str, str, str]]:
    """Place, label, name in `_measure_release` and printed text of each number on a release."""
    for name, what, printed in _TEXT:
        yield "text", what, name, printed
    table = read_table(_TABLE_3)
    for index, column in enumerate(_COLUMNS):
        for term, cells in zip(_TERMS, table, strict=True):
            what = f"{term}, {_COLUMN_LABELS[column]}"
            yield "Table 3", what, f"{column} of {term}", cells[index]


def _measure_release(original: Dataset, released: Dataset) -> Mapping[str, float]:
    """Every number that the paper prints on a release, by our measures."""
    moved = Displacement(variables=_NUMBERS).measure(original, released).table
    risk = Mahalanobis(variables=_NUMBERS).measure(original, released).details
    table = Coefficients(formula=_FORMULA, family="logistic").measure(original, released).table
    measured: dict[str, Any] = {
        f"displacement of {name}": value
        for name, value in moved.select("variable", "displacement").rows()
    }
    measured["propensity"] = Propensity(permutations=0).measure(original, released).value
    for number in ("risk1", "risk1_records", "risk2", "risk2_records"):
        measured[number] = risk[number]
    for column in _COLUMNS:
        for term, value in zip(_TERMS, table[column], strict=True):
            measured[f"{column} of {term}"] = float(value)
    return measured


def _break_ties(original: Dataset, method: Deterministic) -> Iterator[Mapping[str, float]]:
    """The same numbers when ties are broken by chance: records are moved by next to nothing."""
    random, report = np.random.default_rng(7), current_progress()
    frame = original.batch(original.columns)
    values = frame.select(_NUMBERS).to_numpy()
    for order in range(TIE_ORDERS):
        report("breaking ties", order, TIE_ORDERS)
        moved = values + _JITTER * values.std(axis=0) * random.normal(size=values.shape)
        jittered = frame.with_columns(pl.DataFrame(moved, schema=_NUMBERS))
        yield _measure_release(original, method.apply(Dataset(jittered, original.schema)))


def _measure_dense(sources: Sources) -> Iterator[Row]:
    """Not in the paper: how little centres move records where data are dense."""
    frame = sources.read("exam.csv").select("normexam", "standLRT")
    data = Dataset(frame)
    for k in (3, 5, 10):
        released = Deterministic(variables=frame.columns, k=k).apply(data)
        stayed = Displacement(within=0.01).measure(data, released).details["stayed_in_all"]
        yield Row(place="not in the paper", ours=stayed,
                  what=f"exam data, k = {k}: share of records within 0.01 SD")  # fmt: skip
