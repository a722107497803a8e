"""Fitted values that are published: how rarely one record shows, and how little it says then."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.methods._publishing.counts import EPSILON, draw_geometric, noise_counts
from sfumato.methods._publishing.preferred_numbers import round_up_to_preferred_number
from sfumato.noise.transitions import invariant, to_marginal
from sfumato.randomness import Key

LEVELS = ["a", "b", "c"]


def key_of(number: int) -> Key:
    return Key(number.to_bytes(32, "big"))


def test_one_record_more_is_the_same_for_all_but_one_key_in_ten() -> None:
    counts = np.array([317.0, 42.0, 8.0])
    changed = 0
    for number in range(600):
        level = number % 3
        before = noise_counts(counts, 10, LEVELS, key_of(number), "x")
        after = noise_counts(counts + np.eye(3)[level], 10, LEVELS, key_of(number), "x")
        changed += bool((before != after).any())
    # 60 expected, with a standard deviation of 7.3.
    assert 35 <= changed <= 85


def test_where_something_changes_the_odds_of_a_category_are_bounded() -> None:
    """The likelihood of what is published, under one category against another: exp(2 epsilon)."""
    counts = np.array([300.0, 300.0, 300.0])
    seen: dict[int, Counter[tuple[float, ...]]] = {0: Counter(), 1: Counter()}
    for number in range(3000):
        before = noise_counts(counts, 10, LEVELS, key_of(number), "x")
        for level, counter in seen.items():
            after = noise_counts(counts + np.eye(3)[level], 10, LEVELS, key_of(number), "x")
            if (before != after).any():
                # Which of the two rose more is all that an attacker can use.
                counter[tuple(np.sign((after - before)[:2] - (after - before)[1::-1]))] += 1
    for outcome in set(seen[0]) | set(seen[1]):
        first, second = seen[0][outcome] + 1, seen[1][outcome] + 1
        assert first / second < math.exp(2 * EPSILON) * 1.5


def test_counts_keep_their_size_on_average() -> None:
    counts = np.array([500.0, 137.0, 64.0])
    drawn = np.array([noise_counts(counts, 10, LEVELS, key_of(n), "x") for n in range(2000)])
    spread = drawn.std(axis=0)
    assert (np.abs(drawn.mean(axis=0) - counts) < 4 * spread / math.sqrt(2000)).all()
    # The variance of two-sided geometric noise, and that of the rounding, in steps.
    odds = math.exp(-EPSILON)
    wanted = 10 * math.sqrt(2 * odds / (1 - odds) ** 2 + 0.25)
    assert (spread < 1.15 * wanted).all()
    assert (spread > 0.7 * wanted).all()


@given(
    st.lists(st.integers(0, 10_000), min_size=1, max_size=6),
    st.integers(2, 50),
    st.integers(0, 2**64),
)
def test_no_count_is_zero_or_off_the_steps(counts: list[int], step: int, number: int) -> None:
    levels = [f"level {position}" for position in range(len(counts))]
    array = np.array(counts, float)
    drawn = noise_counts(array, step, levels, key_of(number), "x")
    assert (drawn >= step / 2).all()
    assert all(count == step / 2 or count % step == 0 for count in drawn)
    assert drawn.tolist() == noise_counts(array, step, levels, key_of(number), "x").tolist()


def test_what_the_noise_costs_an_invariant_matrix() -> None:
    """The figure in the docstring of `misclassify`: about 3, rarely more than 10 times."""
    random, off = np.random.default_rng(0), []
    for number in range(300):
        counts = random.lognormal(5, 1.5, size=random.integers(2, 8)).round() + 1
        levels = [f"level {position}" for position in range(len(counts))]
        noised = noise_counts(counts, 10, levels, key_of(number), "x")
        shares = noised / noised.sum()
        for retention in (0.6, 0.9):
            matrix = invariant(to_marginal(shares, retention), shares)
            off.append(np.abs(counts @ matrix - counts).max() / (10 * (1 - retention)))
    assert np.median(off) < 4
    assert np.quantile(off, 0.98) < 12


def test_two_sided_geometric_noise_has_its_distribution() -> None:
    uniform = np.random.default_rng(2).uniform(size=(200_000, 2))
    noise = draw_geometric(uniform, 0.5)
    odds = math.exp(-0.5)
    for value in range(-4, 5):
        wanted = (1 - odds) / (1 + odds) * odds ** abs(value)
        assert np.mean(noise == value) == pytest.approx(wanted, abs=0.004)


@given(st.floats(1e-200, 1e200), st.integers(1, 10_000))
def test_preferred_numbers_are_never_less_and_little_more(value: float, records: int) -> None:
    rounded = round_up_to_preferred_number(value, records)
    most = 1.61 if records < 80 else 1.27 if records < 160 else 1.13 if records < 320 else 1.07
    most = 1.034 if records >= 1000 else most
    assert value * (1 - 1e-13) <= rounded <= value * most
    assert round_up_to_preferred_number(rounded, records) == rounded
    # The series for fewer records is a part of that for more.
    assert round_up_to_preferred_number(rounded, records * 3) == rounded
