from __future__ import annotations

import datetime as dt
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MethodError

# Tables S7 and S8 of paper 002, and the four-way split in its text: age in [0, 85].
PUBLISHED = {
    4: "0-20 21-42 43-63 64-85",
    8: "0-9 10-20 21-31 32-42 43-52 53-63 64-74 75-85",
    16: "0-4 5-9 10-15 16-20 21-25 26-31 32-36 37-42 43-47 48-52 53-58 59-63 64-68 69-74 75-79 "
    "80-85",
}


def ages(values, domain=(0, 85), kind="integer") -> sf.Dataset:
    column = sf.Column(role="quasi", kind=kind, domain=domain)
    return sf.Dataset(pl.DataFrame({"age": values}), sf.Schema({"age": column}))


@pytest.mark.parametrize("intervals", PUBLISHED)
def test_published_intervals_are_exact(intervals):
    after = sf.methods.Coarsen(variables=["age"], intervals=intervals).apply(ages(range(86)))
    expected = [f"[{one.replace('-', ';')}]" for one in PUBLISHED[intervals].split()]
    assert after.frame["age"].unique(maintain_order=True).to_list() == expected
    assert after.schema["age"].domain == tuple(expected)
    assert after.schema["age"].kind == "ordinal"


@given(
    st.lists(st.one_of(st.none(), st.integers(-50, 50)), min_size=1, max_size=40),
    st.integers(1, 200),
)
def test_every_whole_number_lies_in_its_interval(values, intervals):
    after = sf.methods.Coarsen(variables=["age"], intervals=intervals).apply(
        ages(pl.Series(values, dtype=pl.Int64), (-50, 50))
    )
    for value, written in zip(values, after.frame["age"], strict=True):
        if value is None:
            assert written is None
        else:
            low, high = map(int, written[1:-1].split(";"))
            assert low <= value <= high


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.integers(1, 50))
def test_every_number_lies_in_its_interval(values, intervals):
    after = sf.methods.Coarsen(variables=["age"], intervals=intervals).apply(
        ages(values, (-1e6, 1e6), "continuous")
    )
    for value, written in zip(values, after.frame["age"], strict=True):
        low, high = map(float, written[1:-1].split(";"))
        assert low <= value <= high


def test_intervals_are_nearly_equal_and_cover_the_domain():
    for intervals in range(1, 60):
        made = sf.methods.Coarsen(variables=["age"], intervals=intervals).apply(ages(range(86)))
        ends = [tuple(map(int, one[1:-1].split(";"))) for one in made.schema["age"].domain]
        widths = {high - low + 1 for low, high in ends}
        assert max(widths) - min(widths) <= 1
        assert ends[0][0] == 0
        assert ends[-1][1] == 85
        assert all(a[1] + 1 == b[0] for a, b in pairwise(ends))


def test_breaks_dates_and_middles():
    dates = [dt.date(1958, 3, 1), dt.date(1964, 12, 31), None]
    born = sf.Column(kind="date", domain=(dt.date(1958, 1, 1), dt.date(1969, 12, 31)))
    data = sf.Dataset(pl.DataFrame({"born": dates}), sf.Schema({"born": born}))
    cut = sf.methods.Coarsen(variables=["born"], breaks=[dt.date(1964, 1, 1)]).apply(data)
    assert cut.frame["born"].to_list() == [
        "[1958-01-01;1963-12-31]",
        "[1964-01-01;1969-12-31]",
        None,
    ]
    middle = sf.methods.Coarsen(variables=["age"], intervals=2, output="middle")
    assert middle.apply(ages([0, 85])).frame["age"].to_list() == [21.0, 64.0]


def test_without_a_domain_nothing_is_taken_from_the_data_unless_asked():
    data = ages([3, 77], None, None)
    with pytest.raises(MethodError, match="'age' has no declared domain.*observed") as error:
        sf.methods.Coarsen(variables=["age"], intervals=2).apply(data)
    assert "77" not in str(error.value)
    seen = sf.methods.Coarsen(variables=["age"], intervals=1, edges="observed").apply(data)
    # Round numbers outside: neither 3 nor 77 is shown.
    assert seen.frame["age"].to_list() == ["[0;79]", "[0;79]"]


def test_values_outside_the_domain_are_refused_without_being_shown():
    with pytest.raises(MethodError, match="outside its declared domain") as error:
        sf.methods.Coarsen(variables=["age"], intervals=4).apply(ages([20, 103]))
    assert "103" not in str(error.value)


@pytest.mark.parametrize("bad", [{}, {"intervals": 3, "breaks": [1]}, {"breaks": [3, 2]}])
def test_one_way_to_cut(bad):
    with pytest.raises(sf.SfumatoError):
        sf.methods.Coarsen(variables=["age"], **bad)


def test_text_is_refused_by_name():
    data = sf.Dataset(pl.DataFrame({"t": ["a"]}))
    with pytest.raises(MethodError, match="variable 't' holds text"):
        sf.methods.Coarsen(variables=["t"], intervals=2, edges="observed").apply(data)


def test_pandas_whole_numbers_with_gaps_are_cut_like_whole_numbers():
    import pandas as pd

    column = sf.Column(role="quasi", kind="integer", domain=(0, 85))
    frame = pd.DataFrame({"age": [20, np.nan, 21]})
    after = sf.methods.Coarsen(variables=["age"], intervals=4).apply(
        sf.Dataset(frame, sf.Schema({"age": column}))
    )
    assert after.column("age").to_list() == ["[0;20]", None, "[21;42]"]


def test_breaks_are_of_the_type_of_the_variable():
    born = sf.Column(kind="date", domain=(dt.date(1958, 1, 1), dt.date(1969, 12, 31)))
    dates = sf.Dataset(pl.DataFrame({"born": [dt.date(1960, 1, 1)]}), sf.Schema({"born": born}))
    for data, name, breaks in (
        (dates, "born", [1960, 1970]),
        (ages([20]), "age", [dt.date(1960, 1, 1)]),
    ):
        with pytest.raises(MethodError, match="not of one type"):
            sf.methods.Coarsen(variables=[name], breaks=breaks).apply(data)


def test_fractions_are_not_cut_like_whole_numbers():
    with pytest.raises(MethodError, match="declared as whole numbers but has others"):
        sf.methods.Coarsen(variables=["age"], intervals=2).apply(ages([1.5]))
    decimals = pl.Series(["4.5", "4.9"]).cast(pl.Decimal(5, 1))
    after = sf.methods.Coarsen(variables=["age"], intervals=2).apply(
        ages(decimals, (0, 8), "continuous")
    )
    assert after.frame["age"].to_list() == ["[4;8]", "[4;8]"]
