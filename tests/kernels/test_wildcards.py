from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sfumato.kernels.lattice.wildcards import count_with_wildcards


def slow(codes, counts):
    """Compare every combination with every other: agree wherever neither is missing."""
    total = []
    for mine in codes:
        fits = [
            all(a == b or a < 0 or b < 0 for a, b in zip(mine, other, strict=True))
            for other in codes
        ]
        total.append(int(sum(n for n, fit in zip(counts, fits, strict=True) if fit)))
    return total


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
    assert count_with_wildcards(codes, counts).tolist() == slow(codes, counts)


def test_without_missing_values_a_class_is_its_count():
    assert count_with_wildcards(np.array([[0, 1], [1, 1]]), np.array([4, 2])).tolist() == [4, 2]
