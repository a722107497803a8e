from __future__ import annotations

import math
from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import generalised

import sfumato as sf
from sfumato.errors import MeasureError, TargetError
from sfumato.parameters import ParameterError

cells = st.one_of(st.none(), st.integers(0, 4))
tables = st.lists(st.tuples(st.integers(0, 2), cells), min_size=1, max_size=40)


def data(rows) -> sf.Dataset:
    frame = pl.DataFrame(rows, schema={"a": pl.Int64, "x": pl.Int64}, orient="row")
    return generalised(frame, sf.Schema({"a": "quasi", "x": "sensitive"}))


def recursive(counts, c):
    ordered = sorted(counts, reverse=True)
    kept = [at + 1 for at in range(len(ordered)) if ordered[0] < c * sum(ordered[at:])]
    return max(kept, default=0)


def entropy(counts):
    total = sum(counts)
    return math.exp(-sum(one / total * math.log(one / total) for one in counts)) if total else 0


def brute(rows, missing, c):
    """Distinct, entropy and recursive l of each row's class, from the definitions."""
    found = {}
    for a in {a for a, _ in rows}:
        held = [x for b, x in rows if b == a and (missing == "value" or x is not None)]
        counts = list(Counter(held).values())
        found[a] = (len(counts), entropy(counts), recursive(counts, c))
    return [found[a] for a, _ in rows]


@given(tables, st.sampled_from(["value", "none"]), st.sampled_from([0.5, 1.0, 3.0]))
def test_agrees_with_the_definitions_one_by_one(rows, missing, c):
    found = sf.risk.Diversity(missing_confidential=missing, c=c).measure(data(rows))
    expected = brute(rows, missing, c)
    assert found.records["l"].to_list() == [one[0] for one in expected]
    assert found.value == found.details["l"] == min(one[0] for one in expected)
    assert found.details["l_entropy"] == pytest.approx(min(one[1] for one in expected))
    assert found.details["l_recursive"] == min(one[2] for one in expected)
    other = "none" if missing == "value" else "value"
    least = min(one[0] for one in brute(rows, other, c))
    assert found.details[f"l_if_missing_is_{other}"] == least


def test_missing_is_one_value_or_none_and_never_many():
    # sdcMicro 5.8.1 counts every missing value as a new one: "110" of a variable with 5 levels.
    rows = [(0, None)] * 105 + [(0, at) for at in range(5)]
    assert sf.risk.Diversity().measure(data(rows)).value == 6
    assert sf.risk.Diversity(missing_confidential="none").measure(data(rows)).value == 5
    assert sf.risk.Diversity(missing_confidential="none").measure(data([(0, None)] * 3)).value == 0


def test_entropy_is_at_least_one_and_exact_on_even_classes():
    one = sf.risk.Diversity().measure(data([(0, 1)] * 7))
    assert one.details["l_entropy"] == 1.0
    even = sf.risk.Diversity().measure(data([(0, at % 3) for at in range(300)]))
    assert even.details["l_entropy"] == pytest.approx(3.0, abs=1e-12)


def test_recursive_diversity_of_a_lopsided_class():
    # Counts 5, 3, 2: 5 < 3 × 2 keeps l = 3 at c = 3; 5 < 2 × (3 + 2) keeps l = 2 at c = 2.
    rows = [(0, 1)] * 5 + [(0, 2)] * 3 + [(0, 3)] * 2
    assert sf.risk.Diversity(c=3).measure(data(rows)).details["l_recursive"] == 3
    assert sf.risk.Diversity(c=2).measure(data(rows)).details["l_recursive"] == 2


def test_more_is_better_and_the_worst_variable_counts():
    frame = pl.DataFrame({"a": [0, 0, 0], "x": [1, 2, 3], "y": ["u", "u", "v"]})
    schema = sf.Schema({"a": "quasi", "x": "sensitive", "y": "sensitive"})
    found = sf.risk.Diversity().measure(generalised(frame, schema))
    assert found.direction == "higher"
    assert found.table.columns[:2] == ["variable", "diversity"]
    assert found.table["diversity"].to_list() == [3, 2]
    assert found.value == 2
    assert found.records["l"].to_list() == [2, 2, 2]


def test_suppressed_cells_are_no_value_of_their_own():
    frame = pl.DataFrame({"a": [0, 0, 0], "x": ["*", None, "u"]})
    schema = sf.Schema({"a": "quasi", "x": "sensitive"})
    found = sf.risk.Diversity().measure(generalised(frame, schema))
    assert found.value == 2
    assert found.details["l_if_missing_is_none"] == 1


def test_generalised_cells_are_taken_as_they_stand_and_it_is_said():
    frame = pl.DataFrame({"a": [0, 0], "x": ["[1;2]", "[1;3]"]})
    schema = sf.Schema({"a": "quasi", "x": "sensitive"})
    found = sf.risk.Diversity().measure(generalised(frame, schema))
    assert found.value == 2
    assert any("as they stand" in one for one in found.assumptions)


def test_what_is_not_there_is_told():
    one = data([(0, 1), (1, 2)])
    with pytest.raises(MeasureError, match="nothing to learn"):
        sf.risk.Diversity(confidential=["x"]).measure(one, one.without(["x"]))
    with pytest.raises(MeasureError, match="declared as confidential"):
        sf.risk.Diversity().measure(one.with_schema({"x": "other"}))
    with pytest.raises(ParameterError, match="'c' parameter"):
        sf.risk.Diversity(c=0)


def test_targets_on_all_its_numbers(cohort):
    one = cohort.without(cohort.schema.having("direct"))
    for target in ({"l.min": 2}, {"l_entropy.min": 1.5}, {"l_recursive.min": 2}):
        with pytest.raises(TargetError):
            sf.protect(one, sf.Plan(schema=one.schema, targets=target), key=bytes(32))
