"""Mean, standard deviation and number of a cell together: how many sets of values fit them.

The attacker here tries every set of whole numbers, and shares no code with the table.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.outputs import Rules
from sfumato.outputs.tables.joint_statistics import FEWEST_SETS, ValueGrid, count_sets

PLAIN = Rules(zeros="show", full="show", dominance=None, p_percent=None)
MEMBERS = st.lists(st.integers(30, 60), min_size=3, max_size=5)


def list_sets(members, mean, low, high, known=None):
    """All sets of as many whole numbers with that mean and that spread, with one of them known."""
    size = len(members) - (known is not None)
    total = round(mean * len(members)) - (known or 0)
    found = []
    for values in combinations_with_replacement(range(18, 91), size):
        if sum(values) != total:
            continue
        spread = np.std([*values, *([] if known is None else [known])], ddof=1)
        if low - 1e-9 <= spread <= high + 1e-9:
            found.append(values)
    return found


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(30, 50), min_size=2, max_size=3), st.integers(30, 50),
       st.floats(0.0, 1.5))  # fmt: skip
def test_no_more_sets_are_counted_than_there_are(others, own, slack):
    """On any grid: a lower bound for shifts, and all of them for few levels."""
    members = np.array([*others, own], float)
    mean, spread = members.mean(), members.std(ddof=1)
    low, high = max(spread - slack, 0), spread + slack
    grid = ValueGrid(low=18.0, high=90.0, unit=1.0)
    counted = count_sets(
        np.array(others, float), low=low**2 * (len(members) - 1),
        high=high**2 * (len(members) - 1), mean=mean, grid=grid,
    )  # fmt: skip
    exact = len(list_sets(members, mean, low, high, known=own))
    assert 1 <= counted <= exact


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=6), st.integers(1, 5), st.floats(0, 0.3))
def test_few_levels_are_counted_in_full(others, own, slack):
    members = np.array([*others, own], float)
    mean, spread = members.mean(), members.std(ddof=1)
    low, high = max(spread - slack, 0), spread + slack
    counted = count_sets(
        np.array(others, float), low=low**2 * (len(members) - 1),
        high=high**2 * (len(members) - 1), mean=mean,
        grid=ValueGrid(low=1.0, high=5.0, unit=1.0),
    )  # fmt: skip
    exact = [
        values for values in combinations_with_replacement(range(1, 6), len(others))
        if sum(values) == sum(others)
        and low - 1e-9 <= np.std([*values, own], ddof=1) <= high + 1e-9
    ]  # fmt: skip
    assert counted == len(exact)


def make_table(seed, small):
    chance = np.random.default_rng(seed)
    sizes = {"a": small, "b": small + 1, "c": 25, "d": 30}
    ward = [name for name, size in sizes.items() for _ in range(size)]
    age = chance.integers(25, 80, len(ward))
    frame = pl.DataFrame({"ward": ward, "age": age})
    table = sf.tables.pivot(
        frame, index="ward", values="age", aggregate=["mean", "std", "count"], rules=PLAIN
    )
    return frame, table


@pytest.mark.parametrize("small", [3, 4])
def test_neither_members_nor_outsiders_can_work_out_the_others(small):
    for seed in range(2 if small == 4 else 5):
        frame, table = make_table(seed, small)
        shown = dict(zip("abcd", table.shown["std"], strict=False))
        for ward in "ab":
            members = frame.filter(pl.col("ward") == ward)["age"].to_list()
            if np.isnan(shown[ward]):
                continue
            deviations = [value for value in table.shown["std"] if not np.isnan(value)]
            step = next(
                step for step in (2.5, 1.0, 0.5, 0.2, 0.1)
                if all(abs(value / step - round(value / step)) < 1e-6 for value in deviations)
            )  # fmt: skip
            low, high = shown[ward] - step / 2, shown[ward] + step / 2
            for known in (None, *members):
                sets = list_sets(members, np.mean(members), low, high, known=known)
                assert len(sets) >= FEWEST_SETS


def test_means_stay_as_they_are_and_large_cells_keep_their_spread():
    frame, table = make_table(1, 3)
    ages = frame.filter(pl.col("ward") == "d")["age"].to_numpy()
    assert table.shown["mean"][3] == pytest.approx(ages.mean())
    assert table.shown["std"][3] == pytest.approx(ages.std(ddof=1), abs=1.5)
    assert "rounded" in " ".join(table.notes)
