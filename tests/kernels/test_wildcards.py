from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sfumato.kernels.lattice.wildcards import count_fitting


def slow(codes, counts):
    """Compare every combination with every other: which covers which."""

    def covers(wide, narrow):
        return all(a in (b, -1) for a, b in zip(wide, narrow, strict=True))

    pairs = [(row, list(zip(codes.tolist(), counts.tolist(), strict=True))) for row in codes]
    above = [sum(n for other, n in rest if covers(other, row)) for row, rest in pairs]
    below = [sum(n for other, n in rest if covers(row, other)) for row, rest in pairs]
    return above, below


tables = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.tuples(*[st.integers(-1, 3)] * width), min_size=1, max_size=30, unique=True
    )
)


@given(tables, st.data())
def test_agrees_with_comparing_all_pairs(rows, data):
    size = len(rows)
    counts = np.array(data.draw(st.lists(st.integers(1, 9), min_size=size, max_size=size)))
    codes = np.array(rows, np.int64)
    fitting = count_fitting(codes, counts)
    assert (fitting.covering.tolist(), fitting.covered.tolist()) == slow(codes, counts)
    assert fitting.smaller.tolist() == np.minimum(*slow(codes, counts)).tolist()


def test_without_missing_values_a_class_is_its_count():
    fitting = count_fitting(np.array([[0, 1], [1, 1]]), np.array([4, 2]))
    assert fitting.covering.tolist() == fitting.covered.tolist() == [4, 2]
