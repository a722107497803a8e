"""Linkage by nearness, by assignment, and by chance."""

from __future__ import annotations

import itertools
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MeasureError
from sfumato.parameters import ParameterError
from sfumato.risk.attacks.assignment import count_correct_links, sample_pairs
from sfumato.risk.attacks.outcomes import wilson
from sfumato.risk.linkage import Linkage


def dataset(values) -> sf.Dataset:
    table = np.asarray(values, float).reshape(len(values), -1)
    frame = pl.DataFrame({f"x{at}": column for at, column in enumerate(table.T)})
    return sf.Dataset(frame, sf.Schema(dict.fromkeys(frame.columns, "quasi")))


def normal(rows=200, share=0.1, seed=1):
    random = np.random.default_rng(seed)
    original = random.normal(size=(rows, 3))
    return original, original + random.normal(size=original.shape) * np.sqrt(share)


def shares(one, other):
    """By definition: the chance that each of `one` picks its own among the nearest of `other`."""
    apart = ((other[None] - one[:, None]) ** 2).sum(axis=2)
    nearest = apart == apart.min(axis=1, keepdims=True)
    return np.diag(nearest) / nearest.sum(axis=1)


@given(st.integers(2, 60), st.integers(1, 3), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_by_definition_with_ties(rows, columns, seed):
    random = np.random.default_rng(seed)
    original = random.integers(0, 4, (rows, columns)).astype(float)
    original[:2] = [[0] * columns, [3] * columns]
    released = original + random.integers(-1, 2, original.shape)
    measure = Linkage(standardise=False)
    found = measure.measure(dataset(original), dataset(released))
    assert found.records["linked"].to_numpy() == pytest.approx(shares(original, released))
    assert found.value == pytest.approx(shares(original, released).mean())
    assert found.details["linked_backwards"] == pytest.approx(shares(released, original).mean())
    order = random.permutation(rows)
    other = measure.measure(dataset(original[order]), dataset(released[order]))
    assert other.plain() == found.plain()


def by_all_permutations(original, released):
    """The expected number of right links over all best assignments of equal records."""
    rows = range(len(original))
    costs = {
        one: sum(float(((released[j] - original[i]) ** 2).sum()) for i, j in enumerate(one))
        for one in itertools.permutations(rows)
    }
    least = min(costs.values())
    best = [one for one, cost in costs.items() if cost <= least + 1e-9]
    return np.mean([sum(i == j for i, j in enumerate(one)) for one in best])


@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_the_assignment_against_all_permutations(rows, seed):
    random = np.random.default_rng(seed)
    # Distinct values, some of them repeated: only equal records tie.
    original = random.normal(size=(rows, 2))[random.integers(0, rows, rows)]
    released = random.normal(size=(rows, 2))[random.integers(0, rows, rows)]
    found = count_correct_links(original, released, np.ones(2))
    assert found == pytest.approx(by_all_permutations(original, released))


def test_assigning_all_at_once_beats_one_by_one():
    # Everybody moved alike: many are nearer to others, but no assignment is better than the truth.
    original, _ = normal()
    found = Linkage().measure(dataset(original), dataset(original + 0.3))
    assert found.details["assigned"] == 1.0
    assert 1 / 200 < found.value < 1
    assert found.details["assigned_records"] == 200
    assert found.details["assigned_by_chance"] == found.baseline == 1 / 200


def test_identical_data_are_all_linked_and_a_constant_release_is_a_guess():
    original, _ = normal()
    same = Linkage().measure(dataset(original), dataset(original))
    assert same.value == same.details["linked_backwards"] == same.details["assigned"] == 1.0
    none = Linkage().measure(dataset(original), dataset(np.zeros_like(original)))
    assert none.value == pytest.approx(1 / 200)
    assert none.details["assigned"] == pytest.approx(1 / 200)
    assert none.details["linked_backwards"] == pytest.approx(1 / 200)


@pytest.mark.parametrize("factor", [10, -1])
def test_another_unit_hides_nobody(factor):
    original, _ = normal()
    found = Linkage().measure(dataset(original), dataset(original * factor + 1000))
    assert found.value < 0.1
    assert found.details["linkage_rescaled"] == found.details["linkage_at_worst"] == 1.0
    assert found.details["linked_backwards_at_worst"] == 1.0
    assert found.details["assigned_at_worst"] == 1.0


def test_large_data_are_assigned_only_when_sampled():
    original, released = normal(rows=1200)
    pair = dataset(original), dataset(released)
    whole = Linkage().measure(*pair)
    assert math.isnan(whole.details["assigned"])
    assert "individuals" in whole.details["assigned_reason"]
    some = Linkage(individuals=100).measure(*pair)
    assert some.details["assigned_records"] == 100
    assert some.details["assigned"] > some.value  # fewer are easier to tell apart
    assert some.details["assigned_low"] < some.details["assigned"] < some.details["assigned_high"]
    order = np.random.default_rng(2).permutation(1200)
    other = Linkage(individuals=100).measure(dataset(original[order]), dataset(released[order]))
    assert other.plain() == some.plain()


def test_a_sample_holds_each_record_once():
    original, released = normal(rows=500)
    rows = sample_pairs(original, released, 100)
    assert len(set(rows.tolist())) == 100


def test_interval_against_a_published_example():
    # Newcombe (1998), Statistics in Medicine 17:857, Table I, method 3.
    cases = ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611))
    for found, of, low, high in cases:
        assert wilson(found / of, of) == pytest.approx((low, high), abs=6e-5)
    original, released = normal()
    evidence = Linkage().measure(dataset(original), dataset(released))
    assert evidence.interval == wilson(evidence.value, 200)


@pytest.mark.parametrize("how", [{"distance": "mahalanobis"}, {"noise": "matrix"}])
def test_other_attackers(how):
    original, released = normal(share=0.5)
    found = Linkage(**how).measure(dataset(original), dataset(released))
    assert 0 < found.value < 1


def test_what_cannot_be_linked_is_refused():
    with pytest.raises(MeasureError, match="overflow"):
        Linkage().measure(dataset([1.0, 2.0]), dataset([1e200, 2.0]))
    with pytest.raises(ParameterError, match="needs noise"):
        Linkage(noise_variances={"x0": 1.0})
    with pytest.raises(ParameterError, match="individuals"):
        Linkage(individuals=10_000)


def test_missing_values_are_left_out_and_said():
    original, released = normal()
    released[3, 0] = np.nan
    found = Linkage().measure(dataset(original), dataset(released))
    assert found.records["linked"].null_count() == 1
    assert any("1 records lack" in one for one in found.warnings)
