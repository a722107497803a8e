"""What protected weights do to a survey's estimates."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import MeasureError
from sfumato.utility.weighted_estimates import WeightedEstimates

SCHEMA = sf.Schema({"age": "quasi", "sex": "quasi", "w": "weight"})


def _pair(new: list[float | None]) -> tuple[sf.Dataset, sf.Dataset]:
    frame = pl.DataFrame(
        {"age": [20.0, 40.0, 60.0, None], "sex": list("ffmm"), "w": [1.0, 2.0, 3.0, 2.0]}
    )
    released = frame.with_columns(w=pl.Series(new))
    return sf.Dataset(frame, SCHEMA), sf.Dataset(released, SCHEMA)


def test_by_hand() -> None:
    evidence = WeightedEstimates().measure(*_pair([2.0, 2.0, 2.0, 2.0]))
    mean, again = (20 + 80 + 180) / 6, 40
    variance = ((20 - mean) ** 2 + 2 * (40 - mean) ** 2 + 3 * (60 - mean) ** 2) / 6
    error = math.sqrt(variance / (36 / 14))
    assert evidence.value == pytest.approx(abs(again - mean) / error)
    assert evidence.details["largest_share_change"] == pytest.approx(4 / 8 - 3 / 8)
    assert evidence.details["total_change"] == 0
    assert evidence.details["design_effect_ratio"] == pytest.approx(1 / (4 * 18 / 64))


def test_the_same_weights_change_nothing() -> None:
    evidence = WeightedEstimates().measure(*_pair([1.0, 2.0, 3.0, 2.0]))
    assert evidence.value == 0
    assert evidence.details["largest_share_change"] == 0


def test_released_values_count_where_they_are_numbers() -> None:
    original, released = _pair([1.0, 2.0, 3.0, 2.0])
    moved = released.with_columns(pl.DataFrame({"age": [30.0, 50.0, 70.0, None]}))
    assert WeightedEstimates().measure(original, moved).value > 0
    texts = released.with_columns(pl.DataFrame({"age": ["about 40"] * 4}))
    found = WeightedEstimates().measure(original, texts)
    assert (found.value, found.details["not_compared"]) == (0, ("age",))


def test_ranges_and_exchanged_categories_count_too() -> None:
    original, released = _pair([1.0, 2.0, 3.0, 2.0])
    schema = released.schema.changed(["age"], kind="integer", cells="generalised")
    ranges = released.with_columns(pl.DataFrame({"age": ["[60;90]"] * 3 + [None]}), schema)
    assert WeightedEstimates().measure(original, ranges).value > 1
    exchanged = released.with_columns(pl.DataFrame({"sex": list("fffm")}))
    found = WeightedEstimates().measure(original, exchanged)
    assert found.details["largest_share_change"] == pytest.approx(3 / 8)


def test_order_of_rows_does_not_matter(cohort: sf.Dataset) -> None:
    released = sf.methods.Weights(levels=4).apply(cohort, key=bytes(32))
    order = np.random.default_rng(0).permutation(len(cohort))
    first = WeightedEstimates().measure(cohort, released)
    second = WeightedEstimates().measure(cohort.take(order), released.take(order))
    assert first.value == second.value
    assert dict(first.details) == dict(second.details)


def test_without_a_weight_there_is_a_reason() -> None:
    data = sf.Dataset(pl.DataFrame({"age": [1.0]}), sf.Schema({"age": "quasi"}))
    with pytest.raises(MeasureError, match="weight"):
        WeightedEstimates().measure(data, data)
