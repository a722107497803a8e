"""The 1958 birth cohort in kind: an invented cohort of its size, with its strata and variables.

The records of the real one are given to approved researchers only. What the paper says of them can
still be held against people who do not exist: four measurements, simulated after the bundled cohort
by the method that the paper names, in four strata of the printed sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import polars as pl

from replication.comparison import Bound, Row
from sfumato.data import Dataset
from sfumato.datasets.cohort import cohort
from sfumato.datasets.simulation import Simulator, simulator
from sfumato.methods.deterministic import Deterministic
from sfumato.progress import current_progress
from sfumato.risk.mahalanobis import Mahalanobis
from sfumato.schema import Column, Schema
from sfumato.utility.coefficients import Coefficients
from sfumato.utility.displacement import Displacement
from sfumato.utility.propensity import Propensity

NUMBERS = ["glucose", "hdl", "height", "weight_kg"]
STRATA = ["sex", "smoker"]
FORMULA = "glucose ~ sex + smoker + hdl + height + weight_kg"
SIZES: Mapping[tuple[str, bool], int] = {
    ("male", False): 492, ("male", True): 111, ("female", False): 468, ("female", True): 140,
}  # fmt: skip
"""The strata as the paper prints them: 1211 complete records."""
K = 3
COHORTS = 5
"""Cohorts of which each number is the mean."""
_LIKE = 20_000
"""Records of the bundled cohort after whose distribution the others are drawn."""
_W1 = [0.0025, 0.005, 0.01, 0.02, 0.05, 0.1]
_W2 = [0.01, 0.05, 0.1, 0.2, 0.5]
_MANY_K = [3, 10, 46]
_MANY_RECORDS = [100, 500, 2000]
FEW = 2
"""Cohorts at each point of Figures 7 and 8."""
_LITTLE = 0.05
"""Of the variance of a variable: the paper has less than that from the anonymisation."""
_WHY = (
    "an invented cohort of the printed size and strata, not the real one. The bound is what the "
    "paper says in words."
)


def invent_cohort() -> Simulator:
    """Draws cohorts like the bundled one, with the strata of the paper.

    Without the few people of the bundled cohort who were made extreme.
    """
    smoker = (pl.col("smoking") == "current").alias("smoker")
    like = cohort(_LIKE).select("sex", smoker, *NUMBERS).drop_nulls()
    usual = like.filter(pl.col("glucose").is_between(0, 15), pl.col("height").is_between(140, 200))
    fitted = simulator(usual, continuous=NUMBERS, strata=STRATA)
    strata = tuple(
        replace(stratum, records=SIZES[stratum.levels["sex"], stratum.levels["smoker"]])
        for stratum in fitted.strata
    )
    return replace(fitted, strata=strata)


def compare_rows() -> Iterator[Row]:
    """The text on the cohort, Table 4 and Figures 5 to 8, each as far as it can be said in kind."""
    drawn, report = invent_cohort(), current_progress()
    records = sum(SIZES.values())
    runs = []
    for number in range(COHORTS):
        report("inventing birth cohorts", number, COHORTS)
        runs.append(_measure(_declare(drawn.draw(records, number)), K))
    yield from _say_means(runs)
    yield from _follow_weights(_declare(drawn.draw(records)))
    yield from _follow_sweeps(drawn)


def _declare(frame: pl.DataFrame) -> Dataset:
    columns = {
        **{name: Column(role="quasi", kind="nominal") for name in STRATA},
        # With all digits: the paper does not round.
        **{name: Column(role="sensitive", kind="continuous", digits=15) for name in NUMBERS},
    }
    return Dataset(frame, Schema(columns))


def _release(original: Dataset, k: int) -> Dataset:
    return Deterministic(variables=NUMBERS, strata=STRATA, k=k).apply(original)


def _measure(original: Dataset, k: int) -> dict[str, float]:
    """Every number that the paper has of a release of the cohort."""
    released = _release(original, k)
    moved = Displacement(variables=NUMBERS).measure(original, released).table
    risk = Mahalanobis(variables=NUMBERS).measure(original, released).details
    model = Coefficients(formula=FORMULA).measure(original, released)
    table = model.table
    overlap = [
        low_of_one <= high and low <= high_of_one
        for low_of_one, high_of_one, low, high in zip(
            *(table[name] for name in
              ("original_low", "original_high", "released_low", "released_high")),
            strict=True,
        )
    ]  # fmt: skip
    terms = zip(table["term"], table["coefficients"], strict=True)
    return {
        **{f"δ of {name}": d for name, d in moved.select("variable", "displacement").rows()},
        "U": Propensity(permutations=0).measure(original, released).value,
        "risk1": risk["risk1"],
        "risk2": risk["risk2"],
        **{f"{term}, standardised difference": float(value) for term, value in terms},
        "share of coefficients whose intervals overlap": sum(overlap) / len(overlap),
        "mean standardised difference": float(model.details["mean_difference"]),
    }


def _say_means(runs: Sequence[Mapping[str, float]]) -> Iterator[Row]:
    """The text and Table 4: means over cohorts, with what the paper says of them as the bound."""
    for name in runs[0]:
        mean = sum(run[name] for run in runs) / len(runs)
        passage, bound = "Table 4, in kind", None
        if name.startswith("δ"):
            passage, bound = "text on the 1958 cohort, in kind", Bound(0, _LITTLE, of="ours")
        elif name in ("U", "risk1", "risk2"):
            passage = "text on the 1958 cohort, in kind"
        elif name.endswith("overlap"):
            passage, bound = "Figure 6, in kind", Bound(1, 1, of="ours")
        yield Row(place=passage, what=f"{name}, mean of {len(runs)} cohorts", ours=mean, why=_WHY,
                  bound=bound)  # fmt: skip


def _follow_weights(original: Dataset) -> Iterator[Row]:
    """Figure 5: risk1 rises with w1 and does not know w2; risk2 falls with w2."""
    curve = Mahalanobis(variables=NUMBERS).curve(original, _release(original, K), w1=_W1, w2=_W2)
    by_w1 = [curve.filter(pl.col("w1") == w1) for w1 in _W1]
    falls = sum(a["risk1"][0] > b["risk1"][0] for a, b in pairwise(by_w1))
    differ = sum(part["risk1"].n_unique() > 1 for part in by_w1)
    rises = sum(a < b for part in by_w1 for a, b in pairwise(part.sort("w2")["risk2"]))
    none = Bound(0, 0, of="ours")
    for what, number in (
        ("steps at which risk1 falls as w1 grows", falls),
        ("values of w1 at which risk1 depends on w2", differ),
        ("steps at which risk2 rises as w2 grows", rises),
    ):
        yield Row(place="Figure 5, in kind", what=what, ours=number, why=_WHY, bound=none)


def _follow_sweeps(drawn: Simulator) -> Iterator[Row]:
    """Figures 7 and 8: what grows and what falls with k, and with the number of records."""
    by_k = [_average(drawn, 500, k) for k in _MANY_K]
    by_records = [_average(drawn, records, 5) for records in _MANY_RECORDS]
    moved = f"δ of {NUMBERS[0]}"
    for passage, points, growing, falling in (
        ("Figure 7, in kind", by_k, ("U", moved, "mean standardised difference"), ("risk1",)),
        ("Figure 8, in kind", by_records, ("risk1",), ("U", moved)),
    ):
        for name in (*growing, *falling):
            sign = 1 if name in growing else -1
            wrong = sum(sign * (b[name] - a[name]) <= 0 for a, b in pairwise(points))
            verb = "falls" if name in growing else "rises"
            yield Row(place=passage, what=f"steps at which {name} {verb}", ours=wrong, why=_WHY,
                      bound=Bound(0, 0, of="ours"))  # fmt: skip


def _average(drawn: Simulator, records: int, k: int) -> dict[str, float]:
    runs = [_measure(_declare(drawn.draw(records, number)), k) for number in range(FEW)]
    return {name: sum(run[name] for run in runs) / len(runs) for name in runs[0]}
