"""Paper 000, Figures 7 and 8: what k and the number of records do to utility and risk.

Few cohorts at each point; `tools/sensitivity.py` makes the figures with 100. Cohorts of a repeat
are the same for every k, and smaller ones are part of larger ones, so that trends show early.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import polars as pl
import pytest
from scipy.stats import spearmanr
from tools.sensitivity import MODEL, NUMBERS, cohorts, plan

import sfumato as sf
from sfumato.datasets.simulation import Simulator
from sfumato.evidence import Evidence
from sfumato.measure import Measure
from sfumato.numbers import Number

K = [3, 5, 7, 10, 15, 20]
SIZES = [50, 100, 200, 500, 1000, 2000]
REPEATS = 4


class Slopes(Measure):
    """How far the slopes of the model move, in standard deviations of outcome and predictor."""

    name = "slopes"
    numbers = (Number.loss("slopes"),)
    of: ClassVar[Literal["one", "pair"]] = "pair"

    def variables(self, data: sf.Dataset) -> tuple[str, ...]:
        del data
        return tuple(NUMBERS)

    def compare(self, original: sf.Dataset, released: sf.Dataset, engine: Any) -> Evidence:
        found = sf.utility.Coefficients(formula=MODEL).measure(original, released).table
        spread = {name: original.column(name).std() for name in NUMBERS}
        moved = [
            abs(row["original"] - row["released"]) * spread[row["term"]] / spread["glucose"]
            for row in found.rows(named=True)
            if row["term"] in spread
        ]
        assert len(moved) == 3
        return Evidence(name=self.name, subject="pair", value=sum(moved) / len(moved))


# Wider intervals hold more records, so that few cohorts show the trend.
MORE: dict[str, Any] = {"wide": sf.risk.Mahalanobis(variables=NUMBERS, w1=0.1), "slopes": Slopes()}


def means(x: str, made: pl.DataFrame) -> pl.DataFrame:
    assert made["reason"].null_count() == len(made)
    return made.group_by(x).agg(pl.col(pl.Float64).mean()).sort(x)


def trend(table: pl.DataFrame, name: str) -> tuple[float, float]:
    """The rank correlation of a number with the parameter, and how often it grows all in all."""
    numbers = table[name].to_list()
    return float(spearmanr(table.to_series(0), numbers).statistic), numbers[-1] / numbers[0]


@pytest.fixture(scope="module")
def draw() -> Simulator:
    return cohorts()


@pytest.fixture(scope="module")
def by_k(draw: Simulator) -> pl.DataFrame:
    made = sf.sweep(draw, plan(), k=K, sizes=[500], repeats=REPEATS, measures=MORE)
    return means("k", made)


@pytest.fixture(scope="module")
def by_size(draw: Simulator) -> pl.DataFrame:
    made = sf.sweep(draw, plan(), k=[5], sizes=SIZES, repeats=REPEATS, measures=MORE)
    return means("records", made)


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("propensity", 10),
        ("displacement.mean_delta", 2.5),
        *[(f"displacement[{one}]", 2) for one in NUMBERS],
        ("coefficients.mean_difference", 3),
        ("slopes", 3),
    ],
)
def test_a_larger_k_costs_utility(by_k, name, factor):
    correlation, times = trend(by_k, name)
    assert correlation > 0.9
    assert times > factor


def test_a_larger_k_lowers_the_risk(by_k):
    correlation, times = trend(by_k, "wide")
    assert correlation < -0.9
    assert times < 0.8
    assert trend(by_k, "mahalanobis.risk1")[1] < 0.8
    assert trend(by_k, "displacement.median_distance")[1] > 1.5


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("propensity", 20),
        ("displacement.mean_delta", 5),
        *[(f"displacement[{one}]", 5) for one in NUMBERS],
        ("slopes", 2),
    ],
)
def test_more_records_bring_utility(by_size, name, factor):
    correlation, times = trend(by_size, name)
    assert correlation < -0.9
    assert times < 1 / factor


def test_more_records_raise_the_risk(by_size):
    correlation, times = trend(by_size, "wide")
    assert correlation > 0.9
    assert times > 1.5
    narrow = by_size["mahalanobis.risk1"].to_list()
    assert narrow[-1] > 1.5 * narrow[0]


def test_standard_errors_shrink_as_fast_as_the_coefficients_come_nearer(by_size):
    """The paper's third panel falls with n; where the outcome depends on much, it does not.

    The slopes come nearer to those of the original, but not faster than their standard errors
    shrink: counted in these, an analyst of more records is no better off.
    """
    numbers = by_size["coefficients.mean_difference"].to_list()
    assert 0.5 < numbers[-1] / numbers[2] < 2.5
