"""Bins and grids: right counts, round edges, no extreme, no small bar."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.errors import PlanError
from sfumato.figures.public import grid
from sfumato.outputs.output import OutputRefused
from sfumato.outputs.rules import Rules

finite = st.floats(-1e6, 1e6, allow_nan=False, width=64)
columns = arrays(np.float64, st.integers(20, 200), elements=finite)


def _binnable(values: np.ndarray, k: int = 3) -> bool:
    ordered = np.sort(values)
    return bool(ordered[-k] - ordered[k - 1] > 1e-6)


@given(columns, st.integers(1, 40), st.booleans())
@settings(max_examples=150, deadline=None)
def test_limits_are_no_extreme_and_bins_are_as_asked(
    values: np.ndarray,
    bins: int,
    exact: bool,  # noqa: FBT001 - drawn by hypothesis
) -> None:
    assume(_binnable(values))
    made = grid.choose_edges(values, bins, exact=exact)
    assert made[0] != values.min() or made[0] == 0
    assert made[-1] != values.max()
    assert (np.diff(made) > 0).all()
    assert len(made) - 1 == bins if exact else len(made) - 1 <= max(bins, 3)
    # At most k - 1 records lie beyond either end.
    assert (values < made[0]).sum() < 3
    assert (values > made[-1]).sum() < 3


@given(st.lists(st.integers(-50, 50), min_size=20, max_size=100), st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_whole_numbers_lie_inside_their_bins(listed: list[int], bins: int) -> None:
    values = np.array(listed, float)
    assume(_binnable(values))
    made = grid.choose_edges(values, bins, whole=True)
    assert not np.isin(values, made).any()
    assert (np.diff(made) == np.round(np.diff(made))).all()


@given(columns, st.permutations(range(20)))
@settings(max_examples=50, deadline=None)
def test_order_of_records_does_not_matter(values: np.ndarray, places: list[int]) -> None:
    assume(_binnable(values))
    other = values.copy()
    other[:20] = values[:20][places]
    assert (grid.choose_edges(values, 10) == grid.choose_edges(other, 10)).all()
    one, two = grid.merge_small_bins(values, 3, 10), grid.merge_small_bins(other, 3, 10)
    assert (one[0] == two[0]).all()
    assert (one[1] == two[1]).all()


@given(columns, st.integers(1, 20))
@settings(max_examples=100, deadline=None)
def test_counts_are_those_of_numpy(values: np.ndarray, bins: int) -> None:
    assume(values.min() < values.max())
    limits = (float(values.min()), float(values.max()))
    cuts = grid.choose_edges(values, bins, limits)
    assume((np.diff(cuts) > 0).all())
    assert (grid.count_cells([values], [cuts]) == np.histogram(values, cuts)[0]).all()
    both = np.histogram2d(values, values[::-1], [cuts, cuts])[0]
    assert (grid.count_cells([values, values[::-1]], [cuts, cuts]) == both).all()


def test_compiled_counts_are_the_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(5)
    x, y = chance.normal(size=50_000).round(1), chance.exponential(size=50_000)
    uneven = np.array([-1.0, -0.5, 0.1, 0.2, 3.0])
    for cuts in (grid.choose_edges(x, 30), grid.choose_edges(x, 30, (-1.0, 1.0)), uneven):
        for axes in ([cuts], [cuts, grid.choose_edges(y, 7)]):
            plain = grid.count_cells([x, y][: len(axes)], axes)
            with monkeypatch.context() as patched:
                patched.setattr(grid, "_COMPILED_FROM", 0)
                assert (grid.count_cells([x, y][: len(axes)], axes) == plain).all()


def test_last_bin_holds_its_right_end_and_nothing_beyond() -> None:
    values = np.array([0.0, 1.0, 2.0, 2.0, 2.5, -1.0])
    assert grid.count_cells([values], [np.array([0.0, 1.0, 2.0])]).tolist() == [1, 3]


@given(columns, st.integers(3, 9), st.integers(2, 40))
@settings(max_examples=150, deadline=None)
def test_adaptive_bars_hold_at_least_k_and_lose_nobody(
    values: np.ndarray, k: int, bins: int
) -> None:
    assume(_binnable(values, k))
    cuts, held = grid.merge_small_bins(values, k, bins)
    fine = grid.choose_edges(values, bins, k=k)
    assert set(cuts) <= set(fine)
    assert ((held == 0) | (held >= k)).all()
    inside = ((values >= fine[0]) & (values <= fine[-1])).sum()
    assert held.sum() == (inside if inside >= k else 0)


def test_adaptive_bins_keep_the_shape() -> None:
    """Tails become wide, the middle keeps its bins, and the density stays close."""
    values = np.random.default_rng(1).lognormal(0, 0.5, 500)
    cuts, held = grid.merge_small_bins(values, 3, 30)
    widths = np.diff(cuts)
    assert widths.max() > 2 * widths.min()
    assert widths[held.argmax()] == pytest.approx(widths.min())
    fine = grid.choose_edges(values, 30)
    equal = grid.count_cells([values], [fine]) / np.diff(fine)
    at = np.searchsorted(cuts, (fine[:-1] + fine[1:]) / 2) - 1
    moved = (np.abs((held / widths)[at] - equal) * np.diff(fine)).sum() / held.sum()
    assert moved < 0.03


@given(arrays(np.int64, (6, 5), elements=st.integers(0, 9)), st.integers(3, 6))
def test_suppression_hides_exactly_the_small(counted: np.ndarray, k: int) -> None:
    kept, hidden = grid.suppress_small(counted, k)
    assert hidden == ((counted > 0) & (counted < k)).sum()
    assert ((kept == 0) | (kept >= k)).all()
    assert (kept[counted >= k] == counted[counted >= k]).all()


def test_one_outlier_does_not_set_the_limits() -> None:
    values = np.append(np.random.default_rng(2).normal(size=500), 1e9)
    assert grid.choose_edges(values, 30)[-1] < 10


def test_limits_given_are_taken_and_own_extremes_noticed() -> None:
    values = np.array([1.5, 2.0, 7.25])
    assert grid.choose_edges(values, 2, (0.0, 10.0)).tolist() == [0.0, 5.0, 10.0]
    assert grid.are_extremes(values, (1.5, 10.0))
    assert not grid.are_extremes(values, (0.0, 10.0))
    assert not grid.are_extremes(values, None)


@pytest.mark.parametrize("limits", [(2.0, 1.0), (0.0, float("nan")), (0.0,), "ab", (0, None)])
def test_bad_limits(limits: object) -> None:
    with pytest.raises(PlanError, match="limits"):
        grid.check_limits(limits)  # type: ignore[arg-type]


def test_values_that_hardly_vary() -> None:
    with pytest.raises(OutputRefused, match="same value"):
        grid.choose_edges(np.array([5.0] * 30 + [6.0]), 10)
    with pytest.raises(OutputRefused, match="varies so little"):
        grid.choose_edges(np.linspace(1e6, 1e6 + 3e-8, 30), 10)


def test_bins_are_at_most_a_share_of_the_records() -> None:
    rules = Rules()
    assert grid.resolve_bins(None, 30, 500, rules) == 30
    assert grid.resolve_bins(None, 30, 50, rules) == 16
    assert grid.resolve_bins(16, 30, 50, rules) == 16
    with pytest.raises(OutputRefused, match="finer") as refused:
        grid.resolve_bins(17, 30, 50, rules)
    assert "up to 15 bins" in refused.value.hint
    for odd in (0, -1, True, 2.5):
        with pytest.raises(PlanError, match="bins"):
            grid.resolve_bins(odd, 30, 50, rules)  # type: ignore[arg-type]
