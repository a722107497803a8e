"""Peers by tolerance, by cells that fit, in a sample; who is in danger, and by what."""

from __future__ import annotations

import datetime as dt
import math
from fractions import Fraction
from itertools import combinations
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import generalised

import sfumato as sf

EXAMPLE = pl.DataFrame(
    {
        "diagnosis": ["cancer", "cancer", "cancer", "arthrosis", "diabetes"],
        "gender": ["f", "m", "f", "m", "f"],
        "age": [50, 40, 35, 64, 49],
    }
)
OPTION_1 = ["50-54", "40-44", "35-39", "60-64", "45-49"]
OPTION_2 = ["45-54", "35-44", "35-44", "55-64", "45-54"]


def data(frame=EXAMPLE, **columns):
    roles = {name: columns.get(name, sf.Column(role="quasi")) for name in frame.columns}
    return generalised(frame, sf.Schema(roles))


def with_age(ages):
    return data(EXAMPLE.with_columns(age=pl.Series(ages)))


# The paper -----------------------------------------------------------------------------------


def test_examples_1_to_3():
    for ages in (EXAMPLE["age"].to_list(), OPTION_1):
        alice = sf.peering.who(with_age(ages), ["diagnosis"], ["gender", "age"]).row(0, named=True)
        assert (alice["ppp"], alice["npp"], alice["poac"]) == (0, 0, 0)
        assert not alice["upward"]
        assert (alice["breach_by"], alice["breach_size"]) == ("age", 1)
    wide = with_age(OPTION_2)
    alice = sf.peering.who(wide, ["diagnosis"], ["gender", "age"]).row(0, named=True)
    assert (alice["ppp"], alice["npp"], alice["poac"]) == (0.5, 1, 0.5)
    assert alice["upward"]
    assert not alice["downward"]
    shares = sf.peering.by_value(wide, "diagnosis", ["gender", "age"]).row(0, named=True)
    assert shares == {"arthrosis": 0.0, "cancer": 0.5, "diabetes": 0.5}


def test_figure_1():
    names = ["diagnosis", "gender", "age"]
    found = sf.peering.who(with_age(OPTION_2), names, names)
    poac = {name: found.filter(variable=name)["poac"].to_list() for name in names}
    assert poac == {
        "diagnosis": [0.5, 0, 0, 0, 0.5],
        "gender": [0, 1, 1, 0, 0],
        "age": [0.5, 0, 0.5, 0, 0],
    }


def test_what_is_known_is_taken_in_turn():
    found = sf.risk.Peers().measure(with_age(OPTION_2))
    assert found.details["sensitive"] == ("diagnosis", "gender", "age")
    assert "taken in turn" in found.warnings[0]
    assert found.records.columns == ["diagnosis", "gender", "age"]


# Tolerances ----------------------------------------------------------------------------------


def test_a_tolerance_finds_peers():
    found = sf.risk.Peers(
        known=["gender", "age"], sensitive=["diagnosis"], tolerance={"age": 1}
    ).measure(data())
    # Alice (50) and the woman of 49 protect each other; nobody else is within a year.
    assert found.records["diagnosis"].to_list() == pytest.approx([1 / 3, 0, 0, 0, 1 / 2])
    assert found.details["exact"]
    assert any("within the tolerance: age" in one for one in found.assumptions)


def test_a_secret_within_the_tolerance_does_not_protect():
    frame = pl.DataFrame({"sex": ["f"] * 4, "wage": [100, 104, 105, 106]})
    measure = sf.risk.Peers(known=["sex"], sensitive=["wage"], relative_tolerance={"wage": 0.05})
    found = measure.measure(data(frame))
    assert found.records["wage"].to_list() == [0.25, 0.0, 0.0, 0.25]  # 100.7 is the least of 106
    assert found.table["downward"].to_list() == [None]
    assert any("ruled out is not told" in one for one in found.warnings)


decimals = st.one_of(st.none(), st.integers(-30, 30))


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(decimals, decimals, st.sampled_from("ab"), decimals), min_size=1, max_size=9
    ),
    st.integers(0, 12),
    st.integers(0, 12),
    st.sampled_from([Fraction(0), Fraction(1, 2)]),
)
def test_decimals_tie_as_people_write_them(rows, absolute, relative, p):
    """Tenths against a tolerance in tenths, exactly; missing matches only missing."""

    def near(mine, other, width):
        if mine is None or other is None:
            return mine is other
        return abs(mine - other) * 10 <= width if width is not None else mine == other

    def widths(row):
        share = None if row[1] is None else relative * abs(row[1])
        return (absolute * 10, share if share is not None else 0, 0, 20)

    expected = []
    for i in rows:
        least = Fraction(2)
        for n in (1, 2, 3):
            for a in combinations((0, 1, 2), n):
                peers = [
                    j
                    for j in rows
                    if all(j[c] == i[c] if c == 2 else near(i[c], j[c], widths(i)[c]) for c in a)
                ]
                safe = [j for j in peers if not near(i[3], j[3], 20)]
                least = min(least, Fraction(len(safe), len(peers)))
        expected.append(least)
    frame = pl.DataFrame(
        {
            "x": [None if one[0] is None else one[0] / 10 for one in rows],
            "y": [None if one[1] is None else one[1] / 10 for one in rows],
            "z": [one[2] for one in rows],
            "s": [None if one[3] is None else one[3] / 10 for one in rows],
        },
        schema={"x": pl.Float64, "y": pl.Float64, "z": pl.String, "s": pl.Float64},
    )
    found = sf.risk.Peers(
        known=["x", "y", "z"], sensitive=["s"], p=float(p),
        tolerance={"x": absolute / 10, "s": 0.2}, relative_tolerance={"y": relative / 10},
    ).measure(data(frame))  # fmt: skip
    assert found.records["s"].to_list() == [float(one) for one in expected]
    assert found.details["breached_records"] == sum(one <= p for one in expected)


def test_dates_infinities_and_codes_for_missing():
    days = [dt.date(2020, 1, day) for day in (1, 2, 4, 4)]
    frame = pl.DataFrame(
        {
            "day": days,
            "time": pl.Series(days).cast(pl.Datetime("ms")),
            "size": [math.inf, -math.inf, math.inf, 5.0],
            "code": [-9, -8, None, -9],
            "s": ["a", "b", "c", "d"],
        }
    )
    told = data(frame, code=sf.Column(role="quasi", kind="integer", missing=(-9,)))

    def least(**tolerance):
        (name,) = tolerance
        one = sf.risk.Peers(known=[name], sensitive=["s"], tolerance=tolerance)
        return one.measure(told).records["s"].to_list()

    assert least(day=1) == [0.5, 0.5, 0.5, 0.5]
    assert least(time=1.5) == least(day=1)
    assert least(day=2) == [0.5, 0.75, pytest.approx(2 / 3), pytest.approx(2 / 3)]
    assert least(size=1e308) == [0.5, 0.0, 0.5, 0.0]
    assert least(code=5) == [0.5, 0.0, 0.0, 0.5]  # -8 is a number, -9 is not


def test_tolerances_that_make_no_sense():
    cases: list[tuple[dict[str, Any], str]] = [
        ({"tolerance": {"gender": 1}}, "'gender' has a tolerance, but does not hold"),
        ({"tolerance": {"agee": 1}}, "did you mean 'age'"),
        ({"tolerance": {"age": -1}}, "'tolerance' parameter"),
        ({"known": ["gender"], "tolerance": {"age": 1}}, "neither known nor sensitive"),
        ({"tolerance": {"age": 1}, "relative_tolerance": {"age": 1}}, "one of them is enough"),
    ]
    for options, says in cases:
        with pytest.raises(sf.SfumatoError, match=says):
            sf.risk.Peers(**{"sensitive": ["diagnosis"], **options}).measure(data())
    frame = pl.DataFrame({"day": [dt.date(2020, 1, 1)], "long": [2**60], "s": ["a"]})
    frame = pl.concat([frame, frame.with_columns(long=pl.lit(2**60 + 1))])
    with pytest.raises(sf.SfumatoError, match="single numbers"):
        sf.risk.Peers(known=["day"], sensitive=["s"], relative_tolerance={"day": 0.1}).measure(
            data(frame)
        )
    with pytest.raises(sf.SfumatoError, match="too long"):
        sf.risk.Peers(known=["long"], sensitive=["s"], tolerance={"long": 1}).measure(data(frame))


def test_a_tolerance_of_nothing_is_equality():
    plain = sf.risk.Peers(known=["gender", "age"], sensitive=["diagnosis"])
    zero = sf.risk.Peers(
        known=["gender", "age"], sensitive=["diagnosis"], tolerance={"age": 0, "diagnosis": 0}
    )
    assert zero.measure(data()).plain() == plain.measure(data()).plain()


# Generalised cells ---------------------------------------------------------------------------


def test_ranges_fit_values():
    frame = pl.DataFrame({"age": ["26", "[24;28]", "70", "*"], "ill": ["yes", "no", "no", "no"]})
    told = data(frame, age=sf.Column(role="quasi", kind="integer"))
    found = sf.risk.Peers(known=["age"], sensitive=["ill"]).measure(told)
    # 26 fits its own cell, the range and the wildcard. Who is in the range may not be 26.
    assert found.records["ill"].to_list() == pytest.approx([2 / 3, 0, 0, 0])
    assert not found.details["exact"]
    rows = sf.peering.who(told, ["ill"], ["age"])
    assert rows["exact"].to_list() == [True, False, True, False]
    assert any("bound from below" in one for one in found.warnings)
    assert any("wildcards match" in one for one in found.assumptions)


def test_cells_that_are_equal_or_apart_are_exact():
    frame = pl.DataFrame({"age": ["[1;9]", "[1;9]", "[10;19]"], "s": ["a", "b", "b"]})
    one = sf.Column(role="quasi", kind="integer")
    found = sf.risk.Peers(known=["age"], sensitive=["s"]).measure(data(frame, age=one))
    assert found.details["exact"]
    assert found.records["s"].to_list() == [0.5, 0.5, 0.0]
    assert not found.warnings


def test_sensitive_sets_that_share_a_value_do_not_protect():
    frame = pl.DataFrame({"sex": ["f", "f", "f"], "ill": ["{flu;cold}", "{cold;gout}", "gout"]})
    told = data(frame, ill=sf.Column(role="sensitive", kind="nominal"))
    found = sf.risk.Peers(known=["sex"]).measure(told)
    assert found.records["ill"].to_list() == pytest.approx([1 / 3, 0, 1 / 3])
    assert found.table["downward"].to_list() == [None]


ENDS = st.tuples(st.integers(0, 5), st.integers(0, 5)).map(sorted)
CELLS = st.one_of(
    st.integers(0, 5).map(lambda one: (str(one), frozenset({one}))),
    ENDS.map(lambda two: (f"[{two[0]};{two[1]}]", frozenset(range(two[0], two[1] + 1)))),
    st.frozensets(st.integers(0, 5), min_size=1).map(
        lambda some: ("{" + ";".join(map(str, sorted(some))) + "}", some)
    ),
    st.just(("*", frozenset(range(6)))),
    st.just((None, frozenset({-1}))),
)


@settings(max_examples=60)
@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=8))
def test_written_cells_match_what_they_stand_for(rows):
    cells = [[cell for _, cell in row] for row in rows]
    expected = []
    for i in cells:
        least = Fraction(1)
        for a in ((0,), (1,), (0, 1)):
            sure = [j for j in cells if all(i[c] <= j[c] for c in a)]
            possible = [j for j in cells if all(i[c] & j[c] for c in a)]
            safe = sum(not i[2] & j[2] for j in sure)
            rest = sum(bool(i[2] & j[2]) for j in possible)
            least = min(least, Fraction(safe, safe + rest))
        expected.append(float(least))
    names = ["a", "b", "s"]
    columns = {name: [row[at][0] for row in rows] for at, name in enumerate(names)}
    frame = pl.DataFrame(columns, schema=dict.fromkeys(names, pl.String))
    whole = sf.Column(role="quasi", kind="integer", domain=(0, 5))
    told = data(frame, **dict.fromkeys(names, whole))
    found = sf.risk.Peers(known=["a", "b"], sensitive=["s"]).measure(told)
    assert found.records["s"].to_list() == expected


def test_text_that_only_looks_odd_stays_text():
    frame = pl.DataFrame({"a": ["x]", "x]", "[y"], "s": ["1", "2", "2"]})
    told = data(frame, a=sf.Column(role="quasi", kind="integer"))
    assert sf.risk.Peers(known=["a"], sensitive=["s"]).measure(told).value == pytest.approx(1 / 3)
