"""Ranks against a count over all pairs, with ties, whatever the order of the rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.kernels.trees.ranks import Ranks, nearest, ranks
from sfumato.progress import send_progress_to

SCALES = {1.0: 30, 0.3: 9, 1 / 3: 10, 7.1: 213}
"""What the factors are meant to be, in thirtieths: a third is a third."""
UNITS = (1.0, 0.1, 0.01, 2.54, 1 / 2.54, 1 / 3)


def as_whole_numbers(values):
    """Values as Python's integers, to the last bit, in units of 2^-100."""
    return np.array([[int(value * 2.0**100) for value in row] for row in values], object)


def squared(item, others, scale):
    total = np.zeros(len(others))
    for index, factor in enumerate(scale):
        gap = (others[:, index] - item[index]) * factor
        total += gap * gap
    return total


def slowly(original, released, scale):
    """For each target, the sorted ranks behind its nearest released records; exact."""
    factors = np.array([SCALES[factor] for factor in scale.tolist()], object)
    original, released = (as_whole_numbers(values) * factors for values in (original, released))
    result = []
    for target in original:
        close, truth = (((values - target) ** 2).sum(axis=1) for values in (released, original))
        tied = np.flatnonzero(close == close.min())
        result.append(sorted(int((truth < truth[item]).sum()) for item in tied))
    return result


def listed(result: Ranks):
    return [
        None if of < 0 else result.ranks[result.starts[of] : result.starts[of + 1]].tolist()
        for of in result.of
    ]


@st.composite
def pairs(draw):
    rows, columns = draw(st.integers(1, 60)), draw(st.integers(1, 4))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    levels = draw(st.sampled_from([1, 2, 4, 30, 0]))
    original = random.normal(size=(rows, columns))
    if levels:  # whole numbers: many ties, among the originals and to the released
        original = random.integers(0, levels, (rows, columns)).astype(float)
        released = original + random.integers(-2, 3, (rows, columns)) * draw(st.integers(0, 1))
    else:
        released = original + draw(st.sampled_from([0.0, 0.1, 2.0])) * random.normal(
            size=original.shape
        )
    scale = random.choice([1.0, 0.3, 1 / 3, 7.1], columns)
    return original, released, scale


@given(pairs())
@settings(max_examples=150)
def test_the_same_as_by_brute_force(pair):
    assert listed(ranks(*pair)) == slowly(*pair)


@given(pairs(), st.integers(1, 5))
def test_a_cap_changes_nothing_below_it(pair, cap):
    total, capped = listed(ranks(*pair)), ranks(*pair, cap=cap)
    assert listed(capped) == [[min(item, cap) for item in several] for several in total]
    assert np.array_equal(capped.share_below(cap), ranks(*pair).share_below(cap))
    with pytest.raises(ValueError, match="before that limit"):
        capped.share_below(cap + 1)


@given(pairs(), st.integers(0, 2**32 - 1))
def test_rows_in_another_order(pair, seed):
    original, released, scale = pair
    order = np.random.default_rng(seed).permutation(len(original))
    there, here = ranks(*pair), ranks(original[order], released[order], scale)
    assert np.array_equal(here.mean(), there.mean()[order])
    assert np.array_equal(here.share_below(1), there.share_below(1)[order])
    assert np.array_equal(here.ties, there.ties[order])


@given(pairs(), st.integers(0, 2**32 - 1))
def test_some_targets_only(pair, seed):
    among = np.random.default_rng(seed).random(len(pair[0])) < 0.4
    some, everything = listed(ranks(*pair, among=among)), listed(ranks(*pair))
    assert some == [item if asked else None for item, asked in zip(everything, among, strict=True)]
    result = nearest(*pair, among=among)
    total = nearest(*pair)
    assert np.array_equal(result.ties[among], total.ties[among])
    assert np.isnan(result.squared[~among]).all()
    assert not result.ties[~among].any()


@given(pairs())
def test_nearest_against_brute_force(pair):
    original, released, scale = pair
    result = nearest(*pair)
    for index, target in enumerate(original):
        close = squared(target, released, scale)
        assert result.squared[index] == pytest.approx(close.min(), rel=1e-14, abs=1e-30)
        is_near = close <= close.min() * (1 + 1e-12)
        assert result.ties[index] == is_near.sum()
        assert result.is_pair[index] == is_near[index]


@given(pairs(), st.data())
@settings(max_examples=100)
def test_any_unit_and_order_of_the_columns(pair, data):
    original, released, scale = pair
    columns = data.draw(st.permutations(range(len(scale))))
    units = np.array([data.draw(st.sampled_from(UNITS)) for _ in scale])
    shift = data.draw(st.sampled_from([0.0, 0.7, 1000.3]))
    # A shift of values with all their digits rounds them.
    shift = shift if (original == np.rint(original)).all() else 0.0
    first, second = (((values + shift) * units)[:, columns] for values in (original, released))
    moved_scale = (scale / units)[columns]
    turned, plain = ranks(first, second, moved_scale), nearest(first, second, moved_scale)
    assert listed(turned) == slowly(*pair)
    assert plain.ties.tolist() == nearest(*pair).ties.tolist()
    assert plain.is_pair.tolist() == nearest(*pair).is_pair.tolist()


def test_nearly_equal_is_not_equal():
    # Far beyond what rounding does, however small: 1e-9 of the distance.
    original = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    released = np.array([[1.0 + 1e-9, 0.0], [-1.0, 0.0], [0.0, 30.0]])
    assert nearest(original, released, np.ones(2)).ties[0] == 1
    assert nearest(original, np.round(released), np.ones(2)).ties[0] == 2


@given(pairs(), st.sampled_from([0.25, 1024.0]), st.integers(-3, 3))
def test_powers_of_two_and_shifts_of_whole_numbers_change_nothing(pair, factor, shift):
    original, released, scale = (np.round(item) for item in pair[:2]), None, np.ones(pair[2].shape)
    item, other = original
    del released
    moved = ranks(item * factor + shift * factor, other * factor + shift * factor, scale)
    assert listed(moved) == listed(ranks(item, other, scale))


@pytest.mark.parametrize("levels", [0, 12])
def test_a_tree_of_several_levels(levels):
    random = np.random.default_rng(7)
    original = random.normal(size=(20_000, 3))
    if levels:
        original = np.round(original * levels) / 4
    released = original + np.round(random.normal(size=original.shape), 1 if levels else 9) / 2
    among = np.zeros(len(original), bool)
    among[random.choice(len(original), 150, replace=False)] = True
    scale = 1 / original.std(axis=0)
    result = listed(ranks(original, released, scale, among=among))
    for index in np.flatnonzero(among):
        close = squared(original[index], released, scale)
        truth = squared(original[index], original, scale)
        tied = np.flatnonzero(close == close.min())
        assert result[index] == sorted(int((truth < truth[item]).sum()) for item in tied)


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 256, 257, 300])
def test_a_release_of_one_value_only(rows):
    # Everybody ties with everybody: all ranks of all targets, by one look at all points.
    original = np.random.default_rng(rows).normal(size=(rows, 2))
    released = np.zeros_like(original)
    result = ranks(original, released, np.ones(2))
    assert listed(result) == slowly(original, released, np.ones(2))
    assert result.mean() == pytest.approx((rows - 1) / 2)
    assert result.share_below(1) == pytest.approx(1 / rows)


def test_identical_data_are_found_at_once():
    original = np.random.default_rng(3).integers(0, 9, (500, 2)).astype(float)
    result = ranks(original, original, np.ones(2))
    assert not result.mean().any()
    assert result.share_below(1).all()


def test_negative_zero_is_zero():
    result = ranks(np.array([[0.0], [-0.0], [5.0]]), np.array([[-0.0], [4.0], [0.0]]), np.ones(1))
    assert result.mean().tolist() == [1.0, 1.0, 1.0]  # of ranks 0 and 2; and of rank 1
    assert result.ties.tolist() == [2, 2, 1]


def test_the_mean_is_not_told_where_counting_stopped():
    original = np.arange(10.0)[:, None]
    result = ranks(original, original[::-1].copy(), np.ones(1), cap=2)
    assert np.isnan(result.mean()).any()
    assert (result.share_below(2) <= 1).all()


@pytest.mark.parametrize(
    ("original", "released", "scale", "said"),
    [
        (np.empty((0, 2)), np.empty((0, 2)), [1, 1], "at least one row"),
        (np.empty((3, 0)), np.empty((3, 0)), [], "at least one row"),
        (np.ones((3, 1)), np.ones((2, 1)), [1], "same rows"),
        (np.ones(3), np.ones(3), [1], "same rows"),
        (np.ones((3, 1)), np.full((3, 1), np.nan), [1], "finite"),
        (np.ones((3, 1)), np.full((3, 1), np.inf), [1], "finite"),
        (np.ones((3, 1)), np.ones((3, 1)), [0], "positive"),
        (np.ones((3, 1)), np.ones((3, 1)), [1, 1], "per column"),
        (np.full((3, 1), 1e200), np.ones((3, 1)), [1], "overflow"),
    ],
)
def test_what_cannot_be_ranked_is_refused(original, released, scale, said):
    with pytest.raises(ValueError, match=said):
        ranks(original, released, np.array(scale, float))


def test_wrong_marks_and_caps_are_refused():
    item = np.ones((3, 1))
    with pytest.raises(ValueError, match="mark for each row"):
        ranks(item, item, np.ones(1), among=np.ones(2, bool))
    with pytest.raises(ValueError, match="cap"):
        ranks(item, item, np.ones(1), cap=0)


def test_too_many_ties_are_refused():
    original = np.random.default_rng(1).normal(size=(9000, 1))
    with pytest.raises(ValueError, match="equally near"):
        ranks(original, np.zeros_like(original), np.ones(1))


def test_it_tells_how_far_it_is():
    heard = []
    original = np.random.default_rng(1).normal(size=(20_000, 2))
    with send_progress_to(lambda what, done, total: heard.append((what, done, total))):
        ranks(original, original + 0.1, np.ones(2), cap=3)
    assert ("counting nearer records", 20_000, 20_000) in heard
    assert len({done for what, done, _ in heard if what == "looking for the nearest"}) > 1
