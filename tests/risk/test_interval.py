from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import MeasureError
from sfumato.parameters import ParameterError
from sfumato.risk.interval import Interval

NAMES = ["a", "b", "c"]


def data(values, names=NAMES) -> sf.Dataset:
    frame = pl.DataFrame(values, schema=names)
    return sf.Dataset(frame, sf.Schema(dict.fromkeys(names, "quasi")))


def drawn(records=300, seed=0):
    return np.random.default_rng(seed).gamma(2.0, size=(records, 3)) * [1, 10, 100]


def noisy(values, share=0.05, seed=1):
    noise = np.random.default_rng(seed).standard_normal(values.shape)
    return values + share * np.nanstd(values, axis=0) * noise


def slow(original, released, k=0.05):
    """How many variables lie outside, as in R's function."""
    width = k * released.std(axis=0, ddof=1)
    return ((original < released - width) | (original > released + width)).sum(axis=1)


@pytest.mark.parametrize("k", [0.01, 0.05, 0.2])
def test_agrees_with_the_definition(k):
    original, released = drawn(), noisy(drawn())
    outside = slow(original, released, k)
    found = Interval(k=k).measure(data(original), data(released))
    assert found.details["interval_in_all"] == (outside == 0).mean()
    assert found.records["inside_in_all"].to_list() == (outside == 0).tolist()
    assert found.details["all_but_one"] == (outside <= 1).mean()
    # The value is that of the worst variable.
    shares = [(slow(original[:, [at]], released[:, [at]], k) == 0) for at in range(3)]
    worst = max(shares, key=lambda share: share.mean())
    assert found.value == worst.mean()
    assert found.details["interval_records"] == worst.sum()
    assert found.records["inside"].to_list() == worst.tolist()
    assert found.records["variables_outside"].to_list() == outside.tolist()
    for at, share in enumerate(found.table["interval"]):
        assert share == (slow(original[:, [at]], released[:, [at]], k) == 0).mean()
    assert found.table["variable"].to_list() == NAMES
    assert found.audience == "custodian"


def test_all_but_one_of_one_says_nothing():
    original, released = drawn()[:, :1], noisy(drawn())[:, :1]
    found = Interval().measure(data(original, NAMES[:1]), data(released, NAMES[:1]))
    assert np.isnan(found.details["all_but_one"])
    assert "one variable only" in found.details["all_but_one_reason"]
    assert found.plain()["details"]["all_but_one"] is None
    assert 0 < found.value < 1
    both = Interval().measure(data(original.repeat(2, axis=1), NAMES[:2]),
                              data(released.repeat(2, axis=1), NAMES[:2]))  # fmt: skip
    assert "all_but_one_reason" not in both.details


def test_titanic_by_the_definition(shared_data):
    original = pl.read_csv(shared_data / "titanic.csv").with_columns(pl.col("Age").fill_null(28.0))
    where = shared_data.parent / "reference" / "titanic_anonymised.csv"
    released = pl.read_csv(where)
    assert original["PassengerId"].equals(released["PassengerId"])
    one, two = (frame.select("Age", "Fare").to_numpy() for frame in (original, released))
    found = Interval().measure(data(one, NAMES[:2]), data(two, NAMES[:2]))
    assert found.details["interval_in_all"] == (slow(one, two) == 0).mean()


@pytest.mark.parametrize("kind", ["plain", "missing", "nothing", "constant", "zeros", "one record"])
def test_identical_data_are_all_inside(kind):
    values = drawn(1 if kind == "one record" else 50)
    if kind == "missing":
        values[3, 1] = np.nan
    if kind == "nothing":
        values[3] = np.nan
    if kind == "constant":
        values[:, 0] = 7
    if kind == "zeros":
        values[:45, 0] = 0
    found = Interval(k=0).measure(data(values), data(values))
    assert found.value == found.details["interval_on_original_scale"] == 1.0
    told = " ".join(found.warnings)
    assert ("1 records lack a value" in told) == (kind == "missing")
    assert ("1 records have no value to compare" in told) == (kind == "nothing")
    assert ("no width: 'a'." in told) == (kind == "constant")


def test_missing_values_are_no_protection():
    original = drawn(50)
    released = original.copy()
    released[:10, 0] = np.nan
    released[10:12] = np.nan
    found = Interval().measure(data(original), data(released))
    assert found.value == 1.0
    assert found.details["comparable_records"] == 48
    assert found.records["inside"][10:12].is_null().all()


def test_a_release_that_varies_less_is_told():
    original = drawn()
    released = original.mean(axis=0) + 0.9 * (original - original.mean(axis=0))
    found = Interval().measure(data(original), data(released))
    assert found.details["interval_on_original_scale"] > found.value
    assert any("varies less" in one for one in found.warnings)


def test_a_constant_release_is_told():
    original = drawn()
    released = original.copy()
    released[:, 2] = original[0, 2]
    found = Interval().measure(data(original), data(released))
    assert found.records["inside_in_all"].sum() == 1
    assert found.value == 1.0  # the other two did not change at all
    assert any("no width: 'c'" in one for one in found.warnings)


def test_the_baseline_is_what_chance_gives():
    original, released = drawn(200), noisy(drawn(200))
    found = Interval(k=0.5).measure(data(original), data(released))
    worst = NAMES.index(found.details["worst_variable"])
    pairs = [
        (slow(original[:, [worst]], np.roll(released[:, [worst]], by, 0), 0.5) == 0).mean()
        for by in range(1, 200)
    ]
    assert found.baseline == pytest.approx(np.mean(pairs), abs=1e-12)
    assert found.baseline is not None
    assert 0 < found.baseline < found.value
    few = Interval(k=0.5).measure(data(original[:9]), data(released[:9]))
    worst = NAMES.index(few.details["worst_variable"])
    width = 0.5 * released[:9, worst].std(ddof=1)
    near = np.abs(original[:9, None, worst] - released[None, :9, worst]) <= width
    assert few.baseline == pytest.approx((near.sum() - near.trace()) / 72)
    assert Interval().measure(data(original[:1]), data(original[:1])).baseline is None


def test_the_order_of_records_does_not_matter():
    original, released = np.round(drawn()), noisy(drawn())
    original[np.random.default_rng(5).random(original.shape) < 0.1] = np.nan
    order = np.random.default_rng(6).permutation(300)
    found = Interval().measure(data(original), data(released))
    other = Interval().measure(data(original[order]), data(released[order]))
    assert other.plain() == found.plain()
    assert other.records.equals(found.records[order])


def test_values_near_the_end_of_all_numbers_count():
    original = drawn(40)
    original[0, 1] = 8e307
    released = original.copy()
    released[0, 1] = -8e307
    found = Interval().measure(data(original), data(released))
    assert found.records["inside_in_all"].to_list() == [False] + [True] * 39


def test_what_cannot_be_compared_is_refused():
    values = drawn(20)
    values[0, 1] = np.inf
    with pytest.raises(MeasureError, match="'b' holds infinite"):
        Interval().measure(data(values), data(values))
    values[0, 1], values[1, 1] = 1e308, -1e308
    with pytest.raises(MeasureError, match="'b' spreads further"):
        Interval().measure(data(values), data(values))
    with pytest.raises(MeasureError, match="record by record"):
        Interval().measure(data(drawn(20)), data(drawn(21)))
    with pytest.raises(ParameterError, match="'k' parameter"):
        Interval(k=-1)
