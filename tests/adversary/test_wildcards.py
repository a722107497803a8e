"""SECURITY.md: "k under `missing = "wildcard"` is k by fitting": so many released records fit the
true values of any person, and so many persons fit any released record, whatever a blank hides.

The attackers know everybody's true values. They are plain Python over rows and share nothing with
the measures.
"""

from __future__ import annotations

import itertools

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf

NAMES = ["a", "b", "c"]
cells = st.one_of(st.none(), st.integers(0, 2))
releases = st.integers(1, 3).flatmap(
    lambda width: st.lists(st.tuples(*[cells] * width), min_size=2, max_size=9)
)


def measure(rows, missing="wildcard", measure=sf.risk.Uniqueness):
    names = NAMES[: len(rows[0])]
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row")
    return measure(missing=missing).measure(
        sf.Dataset(frame, sf.Schema(dict.fromkeys(names, "quasi")))
    )


def fits(cells, truth):
    return all(cell is None or cell == value for cell, value in zip(cells, truth, strict=True))


def count_fitting_records(released, truths):
    """The fewest released records that fit somebody's true values."""
    return min(sum(fits(row, truth) for row in released) for truth in truths)


def count_fitting_persons(released, truths):
    """The fewest persons whose true values fit a released record."""
    return min(sum(fits(row, truth) for truth in truths) for row in released)


def count_consistent_owners(released, truths):
    """The fewest persons a record can belong to when all records are matched at once."""
    owners: list[set[int]] = [set() for _ in released]
    for order in itertools.permutations(range(len(truths))):
        if all(fits(row, truths[who]) for row, who in zip(released, order, strict=True)):
            for row, who in enumerate(order):
                owners[row].add(who)
    return min(map(len, owners))


def fill(released, draw, values):
    return [tuple(draw(values) if cell is None else cell for cell in row) for row in released]


def test_the_finding_a_blank_among_equals_is_one_person_alone():
    released = [("m", 41)] * 5 + [("m", None)]
    truths = [("m", 41)] * 5 + [("m", 50)]
    assert count_fitting_records(released, truths) == 1
    frame = pl.DataFrame(released, schema=["sex", "age"], orient="row")
    schema = sf.Schema({"sex": "quasi", "age": "quasi"})
    data = sf.Dataset(frame, schema)
    found = sf.risk.Uniqueness(missing="wildcard").measure(data)
    assert found.details["k"] == found.details["k_at_worst"] == 1
    assert found.records["class_size"].to_list() == [5] * 5 + [1]
    plan = sf.Plan(
        schema=schema, targets={"k.min": 2},
        evaluate=[sf.risk.Uniqueness(missing="wildcard")],
    )  # fmt: skip
    with pytest.raises(sf.SfumatoError, match="k.*MISSED"):
        sf.protect(data, plan)


def test_blank_records_that_fit_everybody_hide_nobody_from_an_exact_match():
    released = [(None,)] * 5 + [(value,) for value in range(20)]
    found = measure(released)
    assert found.details["k"] == 1
    truths = [(value,) for value in range(100, 105)] + released[5:]
    assert count_fitting_persons(released, truths) == 1
    assert measure(released, measure=sf.risk.Reidentification).details["k_by_fitting_at_worst"] == 1


@settings(max_examples=80)
@given(releases, st.data())
def test_no_attacker_with_true_values_gets_below_k(released, more):
    found = measure(released)
    truths = fill(released, more.draw, st.integers(0, 3))
    assert count_fitting_records(released, truths) >= found.details["k"]
    assert count_fitting_persons(released, truths) >= found.details["k"]


@settings(max_examples=100)
@given(releases)
def test_k_by_fitting_is_reached_when_blanks_hide_what_nobody_else_has(released):
    """The number is not only safe but exact: some true values leave no more."""
    counter = itertools.count(100)
    truths = [tuple(next(counter) if c is None else c for c in row) for row in released]
    least = min(count_fitting_records(released, truths), count_fitting_persons(released, truths))
    assert measure(released).details["k"] == least


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 2).flatmap(
        lambda width: st.lists(st.tuples(*[cells] * width), min_size=2, max_size=6)
    ),
    st.data(),
)
def test_what_targets_are_held_against_withstands_matching_everybody_at_once(released, more):
    truths = fill(released, more.draw, st.integers(0, 3))
    assert count_consistent_owners(released, truths) >= measure(released).details["k_at_worst"]


def test_matching_everybody_at_once_is_why_fitting_alone_is_not_enough():
    released = [(1, 1)] * 2 + [(1, None)] + [(None, None)] * 2
    truths = [(1, 1)] * 2 + [(1, 7)] + [(9, 9)] * 2
    found = measure(released)
    assert found.details["k"] == 2
    assert count_consistent_owners(released, truths) == found.details["k_at_worst"] == 1


originals = st.integers(1, 3).flatmap(
    lambda width: st.lists(st.tuples(*[st.integers(0, 2)] * width), min_size=4, max_size=7)
)


@settings(max_examples=30, deadline=None)
@given(originals, st.integers(2, 3), st.sampled_from(["value", "wildcard"]))
def test_local_suppression_reaches_k_against_every_attacker(truths, k, missing):
    names = NAMES[: len(truths[0])]
    frame = pl.DataFrame(truths, schema=dict.fromkeys(names, pl.Int64), orient="row")
    data = sf.Dataset(frame, sf.Schema(dict.fromkeys(names, "quasi")))
    released = sf.methods.Suppress(k=k, missing=missing).apply(data).frame.rows()
    assert count_fitting_records(released, truths) >= k
    assert count_fitting_persons(released, truths) >= k
    assert count_consistent_owners(released, truths) >= k
    assert measure(released, missing).details["k"] >= k


masks = st.sampled_from(["*", "1**", "2**", "11*", "12*", "21*", "111", "112", "121", "211"])


def stands_for(cell):
    """The codes of three digits that a released cell may stand for."""
    fixed = cell.rstrip("*")
    return {str(code) for code in range(100, 1000) if str(code).startswith(fixed)}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(masks, masks), min_size=2, max_size=9), st.data())
def test_masked_cells_by_fitting_in_both_directions(released, more):
    """The promise of `k_by_fitting`: no true values leave fewer records, or fewer persons."""
    schema = sf.Schema(
        dict.fromkeys("ab", sf.Column(role="quasi", kind="text", cells="generalised"))
    )
    data = sf.Dataset(pl.DataFrame(released, schema=["a", "b"], orient="row"), schema)
    found = sf.risk.Reidentification().measure(data)
    truths = [
        tuple(more.draw(st.sampled_from(sorted(stands_for(cell)))) for cell in row)
        for row in released
    ]

    def fits(row, truth):
        return all(value in stands_for(cell) for cell, value in zip(row, truth, strict=True))

    records = min(sum(fits(row, truth) for row in released) for truth in truths)
    persons = min(sum(fits(row, truth) for truth in truths) for row in released)
    assert records >= found.details["k_by_fitting"] >= found.details["k_by_fitting_at_worst"]
    assert persons >= found.details["k_of_persons"] >= found.details["k_by_fitting_at_worst"]
    inside = min(
        sum(
            all(stands_for(c) <= stands_for(d) for c, d in zip(other, row, strict=True))
            for other in released
        )
        for row in released
    )
    assert found.details["k_of_persons"] <= inside


def test_stars_hide_nobody_from_an_exact_match():
    released = ["*"] * 5 + [f"{code}" for code in range(100, 120)]
    column = sf.Column(role="quasi", kind="text", cells="generalised")
    data = sf.Dataset(pl.DataFrame({"a": released}), sf.Schema({"a": column}))
    found = sf.risk.Reidentification().measure(data)
    assert found.details["k_by_fitting"] > 1
    assert found.details["k_of_persons"] == found.details["k_by_fitting_at_worst"] == 1
    assert any("20 records are hidden only by" in warning for warning in found.warnings)
