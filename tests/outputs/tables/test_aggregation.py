"""Tables of values: sums, means, spreads and quantiles, weighted or not."""

from __future__ import annotations

import math
import statistics

import numpy as np
import polars as pl
import pytest
from tests.outputs.tables import attacker
from tests.outputs.tables.test_crosstabs import CELLS, people

import sfumato as sf
from sfumato.errors import DataError
from sfumato.outputs import OutputRefused, Rules


@pytest.mark.parametrize("name", ["min", "max", "maximum", "range", "mode"])
def test_extremes_are_refused(name):
    frame = people(CELLS).with_columns(value=1.0)
    with pytest.raises(OutputRefused, match="q95"):
        sf.tables.crosstab(frame, "row", values="value", aggregate=name)


def test_values_are_added_up_exactly_and_hidden_together():
    rng = np.random.default_rng(1)
    frame = people(CELLS).with_columns(value=pl.Series(rng.lognormal(3, 0.5, 108)))
    table = sf.tables.pivot(
        frame, index="row", columns="column", values="value", aggregate=["count", "sum", "mean"]
    )
    parts = {key: group["value"].to_list() for key, group in frame.group_by("row", "column")}
    for (row, column), values in parts.items():
        here = table.cells.filter((pl.col("row") == row) & (pl.col("column") == column))
        found = dict(zip(here["statistic"], here["value"], strict=True))
        if found["count"] is None:
            assert found["sum"] is None  # a count and a mean give the sum
            assert found["mean"] is None
        else:
            assert found["sum"] == math.fsum(values)
            assert found["mean"] == pytest.approx(statistics.fmean(values), rel=1e-15)
    hidden = table.known["sum"].cells
    assert attacker.linear((3, 2), hidden)[1][1] > 1.05 * math.fsum(parts["a", "y"])


def test_a_dominated_sum_is_hidden_and_wide():
    cells = {(row, column): 12 for row in "ab" for column in "xyz"}
    values = np.random.default_rng(0).uniform(5, 10, 72)
    values[0] = 1000.0  # one firm makes up nearly all of (a, x)
    frame = people(cells).with_columns(value=pl.Series(values))
    table = sf.tables.crosstab(frame, "row", "column", values="value", aggregate="sum")
    assert np.isnan(table.shown["sum"][0])
    total = math.fsum(values[:12])
    low, high = attacker.linear((2, 3), table.known["sum"].cells)[0]
    need = 0.1 * 1000 - (total - 1000 - max(values[1:12]))
    assert high >= total + need - 1e-3
    assert low <= total - need + 1e-3
    free = Rules(dominance=None, p_percent=None)
    table = sf.tables.crosstab(frame, "row", "column", values="value", aggregate="sum", rules=free)
    assert not np.isnan(table.shown["sum"]).any()
    assert table.verdict == "review"


def test_debts_count_by_their_size():
    values = np.tile([5.0, -5.0, 6.0, -6.0], 27)
    values[0] = -500.0
    frame = people(CELLS).with_columns(value=pl.Series(values))
    table = sf.tables.crosstab(frame, "row", "column", values="value", aggregate="mean")
    assert np.isnan(table.shown["mean"][0])
    assert not table.known["sum"].nonnegative


def test_quantiles_are_nobodys_value():
    values = np.random.default_rng(0).normal(size=108)
    frame = people(CELLS).with_columns(value=pl.Series(values))
    table = sf.tables.crosstab(
        frame, "row", "column", values="value", aggregate=["median", "q25", "q1"]
    )
    shown = [cell for cells in table.shown.values() for cell in cells if not np.isnan(cell)]
    assert len(shown) > 10
    assert not set(shown) & set(values)
    assert np.isnan(table.shown["q1"][0])  # fewer than k values stand around it
    inside = np.sort(values[22:52])
    # Rounded to about a 200th of the spread of all values.
    assert table.shown["q50"][3] == pytest.approx(np.mean(inside[13:17]), abs=0.011)


def test_no_number_of_quantiles_gives_a_value_away():
    """Means of three and of four neighbours differ by a value; so they are never both shown."""
    ordered = np.sort(np.random.default_rng(1).normal(50, 10, 101))
    frame = pl.DataFrame({"row": ["a"] * 101 + ["b"] * 101, "value": [*ordered, *ordered[::-1]]})
    alone = {
        name: sf.tables.crosstab(frame, "row", values="value", aggregate=name).shown[name][0]
        for name in (f"q{share / 4:g}" for share in range(160, 240))
    }
    places = list(alone.values())
    for one in places:
        for other in places:
            assert np.abs(4 * one - 3 * other - ordered).min() > 1e-6
    both = sf.tables.crosstab(frame, "row", values="value", aggregate=["q50", "q50.5"])
    assert np.isnan(both.shown["q50.5"][0])


def test_a_variable_passed_as_weight_is_protected_as_a_sum():
    values = np.r_[1e6, np.random.default_rng(2).uniform(1, 5, 49)]
    frame = pl.DataFrame({"row": ["a"] * 10 + ["b"] * 20 + ["c"] * 20, "income": values})
    table = sf.tables.crosstab(frame, "row", weights="income")
    assert np.isnan(table.shown["count"][0])


def test_sums_of_yes_and_no_are_counts():
    """Two of twenty without a disease are as few as two with it."""
    ill = [1] * 18 + [0] * 2 + [0, 1] * 15 + [1, 0] * 20
    frame = pl.DataFrame({"row": ["a"] * 20 + ["b"] * 30 + ["c"] * 40, "ill": ill})
    for name in ("sum", "mean", "std"):
        table = sf.tables.crosstab(frame, "row", values="ill", aggregate=name)
        assert np.isnan(table.shown[name][0])
    words = frame.with_columns(ill=pl.col("ill") == 1)
    assert np.isnan(
        sf.tables.crosstab(words, "row", values="ill", aggregate="mean").shown["mean"][0]
    )
    four = frame.with_columns(ill=pl.Series([0] * 4 + [1] * 16 + ill[20:]))
    assert np.isnan(
        sf.tables.crosstab(four, "row", values="ill", aggregate="sum", k=5).shown["sum"][0]
    )


def test_a_cell_of_one_value_asks_for_a_second_look():
    values = [7.25] * 20 + np.random.default_rng(0).normal(size=30).tolist()
    frame = pl.DataFrame({"row": ["a"] * 20 + ["b"] * 30, "value": values})
    table = sf.tables.crosstab(frame, "row", values="value", aggregate=["mean", "std"])
    assert table.verdict == "review"
    assert "same" in " ".join(table.reasons)


def test_weights_weigh_and_records_count():
    weights = np.random.default_rng(0).uniform(1, 50, 108)
    frame = people(CELLS).with_columns(weight=pl.Series(weights))
    table = sf.tables.crosstab(frame, "row", "column", weights="weight")
    assert table.shown["count"][3] == pytest.approx(math.fsum(weights[22:52]))
    assert np.isnan(table.shown["count"][1])
    low, high = attacker.linear((3, 2), table.known["weights"].cells)[1]
    heavy = math.fsum(weights[20:22])
    assert low <= 1e-3
    assert high >= 1.5 * heavy - 1e-3
    values = frame.with_columns(value=pl.Series(weights**2))
    mean = sf.tables.crosstab(values, "row", values="value", aggregate="mean", weights="weight")
    part = slice(22, 92)
    expected = np.average(weights[part] ** 2, weights=weights[part])
    assert mean.shown["mean"][1] == pytest.approx(expected)
    with pytest.raises(DataError, match="above 0"):
        sf.tables.crosstab(frame.with_columns(weight=0.0), "row", weights="weight")


def test_a_spread_is_the_usual_one_and_its_squares_are_protected_too():
    values = np.random.default_rng(3).lognormal(2, 0.4, 108)
    frame = people(CELLS).with_columns(value=pl.Series(values))
    table = sf.tables.crosstab(frame, "row", "column", values="value", aggregate=["std", "count"])
    # To a 200th of the spread, so that squares of a few do not follow.
    assert table.shown["std"][3] == pytest.approx(np.std(values[22:52], ddof=1), abs=0.05)
    hidden = np.isnan(table.known["squares"].cells)
    assert hidden[1]
    squares = math.fsum(values[20:22] ** 2)
    assert attacker.linear((3, 2), table.known["squares"].cells)[1][1] > 1.05 * squares


def test_a_release_and_a_variable_full_of_gaps():
    frame = people(CELLS).with_columns(value=pl.lit(None, pl.Float64))
    with pytest.raises(OutputRefused, match="fewer than 10 values"):
        sf.tables.crosstab(frame, "row", values="value", aggregate="mean")
    endless = frame.with_columns(value=pl.lit(math.inf))
    with pytest.raises(DataError, match="infinite"):
        sf.tables.crosstab(endless, "row", values="value", aggregate="mean")
    plan = sf.Plan(schema={"row": "quasi", "column": "other", "value": "other"}, steps=[])
    release = sf.protect(sf.Dataset(frame), plan)
    assert sf.tables.crosstab(release, "row", "column").shown["count"][-1] == 108
