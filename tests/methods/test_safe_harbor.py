"""Years of dates and three digits of ZIP codes, against a slow reference."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MethodError
from sfumato.method import Method
from sfumato.methods.years import Years
from sfumato.methods.zip3 import Zip3
from sfumato.risk.identifiers_left import IdentifiersLeft

DAYS = st.dates(dt.date(1890, 1, 1), dt.date(2030, 12, 31))
CODES = st.one_of(
    st.none(),
    st.from_regex(r"[0-9]{5}(-[0-9]{4})?", fullmatch=True),
    st.text(max_size=6),
)


def apply(step: Method, values: pl.Series, **column: Any) -> list[Any]:
    schema = sf.Schema({"v": sf.Column(role="quasi", **column)})
    released = step.apply(sf.Dataset(pl.DataFrame({"v": values}), schema))
    return list(released.frame["v"])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.none(), DAYS), min_size=1), st.none() | st.integers(1900, 1990))
def test_a_year_is_that_of_the_date_and_never_before_the_oldest(days, oldest):
    reference = [None if day is None else max(day.year, oldest or day.year) for day in days]
    step = Years(variables=["v"], oldest=oldest)
    assert apply(step, pl.Series(days, dtype=pl.Date)) == reference


def write_area(code: str | None, populations: dict[str, int]) -> str | None:
    if code is None:
        return None
    start = re.match(r"\s*([0-9]{3})", code)
    return start[1] if start and populations.get(start[1], 0) > 20_000 else "000"


@settings(max_examples=40, deadline=None)
@given(
    st.lists(CODES, min_size=1),
    st.dictionaries(
        st.from_regex(r"[0-9]{3}", fullmatch=True), st.sampled_from([0, 20_000, 20_001, 10**6])
    ),
)
def test_three_digits_leave_only_where_more_than_20000_people_live(codes, populations):
    step = Zip3(variables=["v"], populations=populations)
    released = apply(step, pl.Series(codes, dtype=pl.String))
    assert released == [write_area(code, populations) for code in codes]
    # What the step releases, the measure lets pass.
    frame = pl.DataFrame({"zip": pl.Series(released, dtype=pl.String)})
    found = IdentifiersLeft(populations=populations).measure(sf.Dataset(frame))
    assert found.value == 0


def test_numbers_lose_no_zero_and_codes_for_missing_stay_what_they_mean():
    step = Zip3(variables=["v"], populations={"021": 30_000})
    assert apply(step, pl.Series([2139, -9, None]), missing=(-9,)) == ["021", None, None]
    assert apply(step, pl.Series(["02139", "n/a"]), missing=("n/a",)) == ["021", "n/a"]


def test_what_holds_no_dates_or_codes_is_named():
    with pytest.raises(MethodError, match="'v' holds no dates"):
        apply(Years(variables=["v"]), pl.Series(["1980-05-01"]))
    with pytest.raises(MethodError, match="'v' is neither text nor whole numbers"):
        apply(Zip3(variables=["v"]), pl.Series([2139.5]))


def test_a_domain_of_dates_becomes_one_of_years():
    ends = dt.date(1900, 1, 1), dt.date(2009, 12, 31)
    column = sf.Column(role="quasi", kind="date", domain=ends)
    data = sf.Dataset(pl.DataFrame({"v": [dt.date(1980, 5, 1)]}), sf.Schema({"v": column}))
    after = Years(variables=["v"], oldest=1930).apply(data).schema["v"]
    assert (after.kind, after.domain) == ("integer", (1930, 2009))
