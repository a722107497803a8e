from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MeasureError

SCHEMA = sf.Schema({"a": "quasi", "b": "quasi"})
GENERALISED = SCHEMA.changed(["a"], cells="generalised")
cell = st.one_of(st.none(), st.sampled_from(["u", "v", "w"]))
masks = st.sampled_from(["keep", "*", "[u;v]", None])


@given(st.lists(st.tuples(cell, masks, cell, st.booleans()), min_size=1, max_size=30))
def test_agrees_with_counting_one_by_one(rows):
    before = pl.DataFrame(
        {"a": [row[0] for row in rows], "b": [row[2] for row in rows]},
        schema=dict.fromkeys("ab", pl.String),
    )
    shown = [(a if how == "keep" else how, None if blank else b) for a, how, b, blank in rows]
    after = pl.DataFrame(
        {"a": [row[0] for row in shown], "b": [row[1] for row in shown]},
        schema=dict.fromkeys("ab", pl.String),
    )
    hidden = {
        "a": [a is not None and how != "keep" for a, how, _, _ in rows],
        "b": [b is not None and blank for _, _, b, blank in rows],
    }
    had = sum(a is not None for a, *_ in rows) + sum(b is not None for _, _, b, _ in rows)
    measure = sf.utility.MaskedCells(fewest=1)
    pair = sf.Dataset(before, SCHEMA), sf.Dataset(after, GENERALISED)
    if not had:
        with pytest.raises(MeasureError, match="No record has a value"):
            measure.measure(*pair)
        return
    found = measure.measure(*pair)
    assert found.value == pytest.approx((sum(hidden["a"]) + sum(hidden["b"])) / had)
    either = [x or y for x, y in zip(hidden["a"], hidden["b"], strict=True)]
    assert found.details["masked_records"] == sum(either)
    for name in "ab":
        values = before[name].to_list()
        total = Counter(value for value in values if value is not None)
        masked = Counter(value for value, one in zip(values, hidden[name], strict=True) if one)
        table = found.table.filter(pl.col("variable") == name)
        assert dict(table.select("value", "records").rows()) == dict(total)
        assert dict(table.select("value", "masked_records").rows()) == {
            value: masked[value] for value in total
        }


def test_rare_values_are_counted_together():
    frame = pl.DataFrame({"a": ["u"] * 5 + ["v", "w"], "b": ["x"] * 7})
    data = sf.Dataset(frame, SCHEMA)
    found = sf.utility.MaskedCells(variables=["a"]).measure(data, data)
    assert found.table["value"].to_list() == ["u", "(rare values)"]
    assert found.table["records"].to_list() == [5, 2]


def test_numbers_and_dates_are_counted_in_intervals_that_hold_them():
    days = [dt.date(1960, 1, 1) + dt.timedelta(days=97 * at) for at in range(60)]
    numbers = [0.37 * at for at in range(60)]
    frame = pl.DataFrame({"a": days, "b": numbers, "c": list(range(60))})
    data = sf.Dataset(frame, sf.Schema(dict.fromkeys("abc", "quasi")))
    table = sf.utility.MaskedCells(fewest=1).measure(data, data).table
    read: dict[str, Any] = {"a": dt.date.fromisoformat, "b": float, "c": int}
    for name in "abc":
        values: list[Any] = frame[name].to_list()
        rows = table.filter(pl.col("variable") == name)
        assert 5 <= len(rows) <= 25
        for text, count in rows.select("value", "records").rows():
            low, high = map(read[name], text.split(" to "))
            # Fractions belong to the interval that they begin; days and whole numbers to its end.
            inside = [low <= v < high if name == "b" else low <= v <= high for v in values]
            assert sum(inside) == count


def test_noise_masks_nothing_and_a_dropped_variable_is_named():
    frame = pl.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1, 1, 1]})
    data = sf.Dataset(frame, SCHEMA)
    moved = data.with_columns(pl.DataFrame({"a": [1.1, 2.1, 3.1]}))
    assert sf.utility.MaskedCells().measure(data, moved).value == 0.0
    found = sf.utility.MaskedCells().measure(data, data.without(["a"]))
    assert "Not released, and so not counted: 'a'" in found.warnings[0]


def test_the_picture_has_two_bars_a_value_and_a_public_one_hides_few():
    rows = [
        {"variable": "race", "value": "common", "records": 90, "masked_records": 9},
        {"variable": "race", "value": "rare", "records": 10, "masked_records": 8},
        {"variable": "sex", "value": "f", "records": 50, "masked_records": 0},
    ]
    picture = sf.pictures.masked_values(rows)
    assert picture.title == "Records and masked records, by race"
    bars: Any = picture.figure.axes[0].patches
    widths = sorted(bar.get_width() for bar in bars)
    assert widths == [8, 9, 10, 90]
    shown: Any = sf.pictures.masked_values(rows, public=True).figure.axes[0].patches
    assert sorted(bar.get_width() for bar in shown) == [9, 90]
    with pytest.raises(sf.SfumatoError, match="no variable 'rase'.*did you mean 'race'"):
        sf.pictures.masked_values(rows, "rase")
