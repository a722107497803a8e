"""What is equally near in exact arithmetic is equally near, in any unit and order of columns."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.risk.h_index import HIndex
from sfumato.risk.linkage import Linkage
from sfumato.risk.mixed_linkage import MixedLinkage

UNITS = (1.0, 0.1, 0.01, 1 / 2.54, 1 / 3, 1000.0)


def dataset(values, names) -> sf.Dataset:
    frame = pl.DataFrame(dict(zip(names, values.T, strict=True)))
    return sf.Dataset(frame, sf.Schema(dict.fromkeys(names, "quasi")))


def draw_scores(rows, columns, seed):
    """Answers from 0 to 4, equally often in every column, so that their deviations are equal."""
    random = np.random.default_rng(seed)
    answers = np.append([0, 4], random.integers(0, 5, rows - 2))
    original = np.column_stack([random.permutation(answers) for _ in range(columns)])
    return original, np.clip(original + random.integers(-1, 2, original.shape), 0, 4)


def measure_exactly(original, released):
    """Pr(h < 3), mean h, the share linked and linked backwards, in fractions."""
    rows, columns = original.shape
    sums = [sum(int(value) for value in column) for column in original.T]
    squares = [sum(int(value) ** 2 for value in column) for column in original.T]
    spread = [rows * squares[j] - sums[j] ** 2 for j in range(columns)]

    def distance(one, other):
        return sum(
            (Fraction(int(one[j]) - int(other[j])) ** 2 / spread[j] for j in range(columns)),
            Fraction(0),
        )

    cross = [[distance(person, record) for record in released] for person in original]
    among = [[distance(person, other) for other in original] for person in original]
    below = mean = linked = back = Fraction(0)
    for i in range(rows):
        tied = [j for j in range(rows) if cross[i][j] == min(cross[i])]
        h = [sum(other < among[i][j] for other in among[i]) for j in tied]
        below += Fraction(sum(rank < 3 for rank in h), len(h))
        mean += Fraction(sum(h), len(h))
        linked += Fraction(i in tied, len(tied))
        column = [cross[person][i] for person in range(rows)]
        tied = [person for person in range(rows) if column[person] == min(column)]
        back += Fraction(i in tied, len(tied))
    return [float(total / rows) for total in (below, mean, linked, back)]


@given(st.integers(3, 18), st.integers(1, 4), st.integers(0, 2**32 - 1), st.data())
@settings(max_examples=25)
def test_as_in_fractions_whatever_the_unit_and_the_order(rows, columns, seed, data):
    original, released = draw_scores(rows, columns, seed)
    places = data.draw(st.permutations(range(columns)))
    units = np.array([data.draw(st.sampled_from(UNITS)) for _ in range(columns)])
    order = np.random.default_rng(seed).permutation(rows)
    names = [f"x{place}" for place in places]
    pair = [dataset((side * units)[:, places][order], names) for side in (original, released)]
    h, linkage = HIndex().measure(*pair), Linkage().measure(*pair)
    assert [
        h.value,
        h.details["mean_h"],
        linkage.value,
        linkage.details["linked_backwards"],
    ] == pytest.approx(measure_exactly(original, released), rel=1e-12)


def list_numbers(evidence):
    numbers = {key: value for key, value in evidence.details.items() if isinstance(value, float)}
    table = evidence.table.select(pl.selectors.numeric()).to_numpy()
    return [evidence.value, *numbers.values()], table


@pytest.mark.parametrize("how", [{}, {"distance": "mahalanobis"}, {"noise": "reliability"}])
@pytest.mark.parametrize("unit", [0.01, 1 / 2.54])
def test_no_number_depends_on_the_unit_or_the_order_of_the_columns(how, unit):
    original, released = draw_scores(60, 3, 4)
    for measure in (HIndex(**how), Linkage(**how), MixedLinkage()):
        results = []
        for places, factor in ((range(3), 1.0), ((2, 0, 1), unit)):
            names = [f"x{place}" for place in places]
            pair = [
                dataset((side * factor)[:, list(places)], names) for side in (original, released)
            ]
            results.append(list_numbers(measure.measure(*pair)))
        (first, table), (second, other_table) = results
        assert second == pytest.approx(first, rel=1e-9, nan_ok=True)
        if isinstance(measure, HIndex):  # linkage has a row per variable, in their order
            np.testing.assert_allclose(other_table, table, rtol=1e-9)


def test_years_and_metres():
    # 2010.1 - 2010.0 and 2010.2 - 2010.1 differ in the twelfth digit.
    random = np.random.default_rng(2)
    original = np.column_stack([random.integers(0, 30, 80), random.integers(150, 200, 80)])
    released = original + random.integers(-2, 3, original.shape)
    there = HIndex().measure(*(dataset(side, ["year", "height"]) for side in (original, released)))
    moved = [side * [0.1, 0.01] + [2010, 0] for side in (original, released)]
    here = HIndex().measure(*(dataset(side, ["year", "height"]) for side in moved))
    assert there.records["h"].to_list() == here.records["h"].to_list()
    assert math.isclose(there.details["h_index_rescaled"], here.details["h_index_rescaled"])
