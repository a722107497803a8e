"""Rows with gaps: the same counts as comparing all with all."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sfumato.kernels.lattice.covering_rows import count_covered, count_covering
from sfumato.kernels.lattice.wildcards import count_fitting


def covers(wide, narrow):
    return ((wide == narrow) | (wide < 0)).all(axis=-1)


@given(
    st.tuples(st.integers(1, 40), st.integers(1, 6)).flatmap(
        lambda shape: arrays.arrays(np.int64, shape, elements=st.integers(-1, 3))
    ),
    st.integers(0, 9),
)
def test_agrees_with_comparing_all_with_all(codes, seed):
    codes = np.unique(codes, axis=0)
    counts = np.random.default_rng(seed).integers(1, 9, len(codes))
    above = [int(counts[covers(codes, row)].sum()) for row in codes]
    below = [int(counts[covers(row, codes)].sum()) for row in codes]
    assert count_covering(codes, counts).tolist() == above
    assert count_covered(codes, counts).tolist() == below


def test_many_patterns_of_missing_values_take_no_longer():
    random = np.random.default_rng(1)
    codes = random.integers(0, 4, (3000, 14))
    codes[random.random(codes.shape) < 0.4] = -1  # nearly every record has a pattern of its own
    codes = np.unique(codes, axis=0)
    counts = np.ones(len(codes), np.int64)
    result = count_fitting(codes, counts)
    some = random.choice(len(codes), 50)
    assert result.covering[some].tolist() == [covers(codes, row).sum() for row in codes[some]]
    assert result.covered[some].tolist() == [covers(row, codes).sum() for row in codes[some]]
