"""Sorting in pieces: the order is that of all at once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sfumato.kernels.orders import cut_by_keys, sort_by_keys


@st.composite
def key_lists(draw):
    """Keys with few values, many, or one in nearly all records."""
    records = draw(st.integers(1, 300))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    keys = []
    for _ in range(draw(st.integers(1, 3))):
        key = rng.integers(0, draw(st.sampled_from([1, 2, 9, 2**40])), records)
        key[rng.random(records) < draw(st.sampled_from([0.0, 0.95]))] = 0
        kind = draw(st.sampled_from([np.int64, np.uint64, np.float64]))
        keys.append(key.astype(kind))
    return keys


@given(key_lists(), st.integers(1, 120))
def test_pieces_follow_one_another_in_the_order_of_the_keys(keys, most):
    pieces = list(cut_by_keys(keys, most))
    assert np.array_equal(np.sort(np.concatenate(pieces)), np.arange(len(keys[0])))
    sorted_pieces = [p[np.lexsort((p, *(key[p] for key in keys[::-1])))] for p in pieces]
    wanted = np.lexsort((np.arange(len(keys[0])), *keys[::-1]))
    assert np.array_equal(np.concatenate(sorted_pieces), wanted)
    for piece in pieces:
        assert (np.diff(piece) > 0).all()
        assert len(piece) <= most or all((key[piece] == key[piece[0]]).all() for key in keys)


@given(key_lists())
def test_sorting_by_the_first_key_and_mending_ties_is_sorting_by_all(keys):
    wanted = np.lexsort((np.arange(len(keys[0])), *keys[::-1]))
    assert np.array_equal(sort_by_keys(keys), wanted)
