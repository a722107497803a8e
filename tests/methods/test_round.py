"""Rounding: against decimal arithmetic, whatever the type, the codes and the size."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MethodError, PlanError
from sfumato.methods.round import Round


def apply(values: list[Any], dtype: Any = None, column: sf.Column | None = None, **how: Any):
    data = sf.Dataset(
        pl.DataFrame({"x": pl.Series(values, dtype=dtype)}), sf.Schema({"x": column or sf.Column()})
    )
    released = Round(variables=["x"], **how).apply(data)
    assert released.frame["x"].dtype == data.frame["x"].dtype
    return released.frame["x"].to_list()


def to_decimals(number: Decimal, digits: int) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN)


@given(
    st.lists(st.decimals(-(10**6), 10**6, places=3), min_size=1, max_size=20), st.integers(-4, 2)
)
def test_decimals_are_those_of_decimal_arithmetic(numbers, digits):
    released = apply([float(number) for number in numbers], digits=digits)
    for number, value in zip(numbers, released, strict=True):
        # A float holds no exact half but that of a power of two: both neighbours are right then.
        below = abs(Decimal(repr(value)) - number)
        assert below <= Decimal("0.5").scaleb(-digits)
        assert to_decimals(Decimal(repr(value)), digits) == Decimal(repr(value))


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=20), st.integers(-12, -1))
def test_whole_numbers_of_any_size_are_exact(numbers, digits):
    released = apply(numbers, pl.Int64, digits=digits)
    assert released == [int(to_decimals(Decimal(number), digits)) for number in numbers]


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=20), st.integers(1, 5))
def test_significant_figures_stay(numbers, figures):
    for number, value in zip(numbers, apply(numbers, pl.Int64, figures=figures), strict=True):
        text = f"{number:.{figures - 1}e}"
        assert value == int(Decimal(text)), number


def test_small_fractions_keep_their_figures():
    assert apply([0.0567, 1234.5, 0.0, -9.96, None], figures=2) == [0.057, 1200.0, 0, -10.0, None]


def test_codes_for_missing_stay_and_nothing_becomes_one():
    column = sf.Column(kind="integer", missing=(900, -9))
    assert apply([930, 900, -9, 49, None], pl.Int64, column, digits=-2) == [1000, 900, -9, 0, None]


def test_whole_numbers_do_not_change_with_decimals():
    assert apply([7, 2**60 + 1], pl.Int64, digits=2) == [7, 2**60 + 1]
    assert apply([2.5, 3.5], digits=0) == [2.0, 4.0]


def test_a_type_that_is_too_narrow_is_named():
    with pytest.raises(MethodError, match="'x' has numbers that its type cannot hold"):
        apply([127], pl.Int8, digits=-1)


def test_a_declared_domain_covers_the_rounded_values():
    column = sf.Column(kind="integer", domain=(18, 95))
    data = sf.Dataset(pl.DataFrame({"x": [18, 95]}), sf.Schema({"x": column}))
    released = Round(variables=["x"], digits=-1).apply(data)
    assert released.schema["x"].domain == (18, 100)
    assert released.frame["x"].to_list() == [20, 100]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"digits": 1, "figures": 2},
        {"digits": {"y": 1}},
        {"digits": 40},
        {"figures": 0},
        {"figures": {}},
    ],
)
def test_sizes_that_make_no_sense_are_refused(settings):
    with pytest.raises(PlanError):
        Round(variables=["x"], **settings)


def test_only_numbers_are_rounded():
    data = sf.Dataset(pl.DataFrame({"x": ["a"]}))
    with pytest.raises(MethodError, match="Rounding"):
        Round(variables=["x"], digits=1).apply(data)
