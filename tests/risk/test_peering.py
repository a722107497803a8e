"""Which variable to generalise: against brute force, and against the published figures."""

from __future__ import annotations

import datetime as dt
import json
from fractions import Fraction
from itertools import combinations

import numpy as np
import polars as pl
import polars.selectors as cs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import LIBRARIES, drawn, in_library

import sfumato as sf
from sfumato.errors import MeasureError, SfumatoError
from sfumato.risk import protection as peering

KNOWN = ["age", "pregnancies", "smoking"]


@st.composite
def frames(draw):
    count = draw(st.integers(1, 14))

    def column(values):
        return draw(st.lists(st.sampled_from(values), min_size=count, max_size=count))

    return pl.DataFrame(
        {
            "age": column([20, 21, 22, 24, 27, None]),
            "sex": column(["f", "m", None]),
            "ill": column(["a", "b", "c"]),
        },
        schema={"age": pl.Int64, "sex": pl.String, "ill": pl.String},
    )


def peers_of(rows, row, known):
    return [one for one in rows if all(one[name] == row[name] for name in known)]


def share(rows, row, known, secret):
    """Protective peers, by the definition."""
    peers = peers_of(rows, row, known)
    return Fraction(sum(one[secret] != row[secret] for one in peers), len(peers))


def least(rows, row, known, secret):
    some = [one for size in range(1, len(known) + 1) for one in combinations(known, size)]
    return min(share(rows, row, one, secret) for one in some)


@given(frames(), st.sampled_from([0.0, 0.2, 0.5]), st.sampled_from([0.0, 0.25]))
@settings(max_examples=60)
def test_gains_by_brute_force(frame, p, q):
    found = peering.gains(sf.Dataset(frame), "ill", ["age", "sex"], p, q)
    rows, exact = frame.to_dicts(), Fraction(str(p))
    values = {row["ill"] for row in rows}
    now = sum(share(rows, row, ["age", "sex"], "ill") > exact for row in rows)
    for line, (name, other) in zip(
        found.table.to_dicts(), [("age", "sex"), ("sex", "age")], strict=True
    ):
        shares = [share(rows, row, [other], "ill") for row in rows]
        assert line["variable"] == name
        assert found.peers[name].to_list() == [float(one) for one in shares]
        assert line["protected"] == now / len(rows)
        assert line["without"] == sum(one > exact for one in shares) / len(rows)
        assert line["gained_records"] == sum(one > exact for one in shares) - now
        for row, alternatives in zip(rows, found.alternatives[name], strict=True):
            peers = peers_of(rows, row, [other])
            likely = sum(
                Fraction(sum(one["ill"] == value for one in peers), len(peers)) > Fraction(str(q))
                for value in values - {row["ill"]}
            )
            if len(values) > 1:
                assert alternatives == likely / (len(values) - 1)
            else:
                assert np.isnan(alternatives)


@given(frames(), st.sampled_from([0.0, 0.2]), st.sampled_from(["narrow", "any"]))
@settings(max_examples=40)
def test_widths_by_brute_force(frame, p, ends):
    ages = frame["age"].drop_nulls()
    if not len(ages):
        return
    low, high = ages.min(), ages.max()
    table = peering.widths(sf.Dataset(frame), "ill", "age", ["age", "sex"], p, ends=ends)
    for line in table.sample(min(len(table), 8), seed=3).to_dicts():
        starts = [low + line["offset"] + line["width"] * at for at in range(line["categories"] - 1)]
        assert all(one <= high for one in starts)
        rows = [
            {**row, "age": None if row["age"] is None else sum(row["age"] >= one for one in starts)}
            for row in frame.to_dicts()
        ]
        safe = sum(least(rows, row, ["age", "sex"], "ill") > Fraction(str(p)) for row in rows)
        assert line["protected_records"] == safe
        assert line["protected"] == safe / len(rows)


def test_every_width_and_every_offset_once():
    frame = pl.DataFrame({"age": [1, 5], "ill": [0, 1]})
    table = peering.widths(sf.Dataset(frame), "ill", "age", ["age"])
    assert table.select("width", "offset").rows() == [
        (width, offset) for width in range(1, 6) for offset in range(1, width + 1)
    ]
    assert table["categories"].to_list()[:3] == [5, 3, 3]
    best = table.filter("best")
    assert best["categories"].n_unique() == len(best) == table["categories"].n_unique()
    for row in best.to_dicts():
        same = table.filter(pl.col("categories") == row["categories"])
        assert row["protected"] == same["protected"].max()


@pytest.fixture
def cervical(shared_data) -> sf.Dataset:
    return sf.read(shared_data / "cervical.csv")


@pytest.fixture
def figure(shared_data):
    path = shared_data.parent / "reference" / "004_fig4.json"
    if not path.exists():
        pytest.skip("the published figure is not there")
    return json.loads(path.read_text())


def by_categories(table: pl.DataFrame) -> dict[str, list[int]]:
    return {
        str(count): sorted(some["protected_records"])
        for (count,), some in table.group_by("categories")
    }


def published(shares: dict[str, list[float]]) -> dict[str, list[int]]:
    return {count: sorted(round(one * 789) for one in some) for count, some in shares.items()}


def test_the_published_ages(cervical, figure):
    table = peering.widths(cervical, "biopsy", "age", KNOWN, ends="any")
    assert by_categories(table) == published(figure["age"])
    assert table["protected_records"].max() == 761
    narrow = peering.widths(cervical, "biopsy", "age", KNOWN)
    assert narrow["protected_records"].max() == 761
    assert narrow.filter(pl.col("categories") == 1)["protected_records"].to_list() == [761]


def test_the_published_pregnancies(cervical, figure):
    """The figure counts the values that occur, as levels; in their order, and as text."""
    values = sorted(cervical.column("pregnancies").unique())
    for levels, key in (
        (values, "preg_numeric"),
        (sorted(values, key=str), "preg_lexicographic"),
    ):
        data = cervical.with_schema(
            {"pregnancies": sf.Column(role="quasi", kind="ordinal", domain=tuple(levels))}
        )
        table = peering.widths(data, "biopsy", "pregnancies", KNOWN, ends="any")
        assert by_categories(table) == published(figure[key])
    table = peering.widths(cervical, "biopsy", "pregnancies", KNOWN)
    assert table["protected_records"].max() == 463


def test_the_published_gains(cervical):
    table = peering.gains(cervical, "biopsy", KNOWN).table
    gained = dict(table.select("variable", "gained_records").iter_rows())
    assert gained == {"age": 761 - 223, "pregnancies": 463 - 223, "smoking": 293 - 223}


def test_a_recommendation_does_what_it_says(cervical):
    found = peering.recommend(cervical, "biopsy", KNOWN)
    assert found.table["variable"].to_list() == ["age", "pregnancies", "smoking"]
    assert found.table["coarsened"].to_list() == [761 / 789, 463 / 789, None]
    assert [one.variables for one in found.steps] == [["age"], ["pregnancies"]]
    plan = sf.Plan(schema=cervical.schema, steps=list(found.steps))
    assert len(plan.steps) == 2
    for step, expected in zip(found.steps, found.table["coarsened"], strict=False):
        coarse = step.apply(cervical)
        breached = sf.risk.Peers(known=KNOWN, sensitive=["biopsy"]).measure(coarse).value
        assert 1 - breached == pytest.approx(expected, abs=1e-12)


def test_as_many_categories_as_are_enough(cervical):
    few = peering.recommend(cervical, "biopsy", KNOWN, fewest=4).table.row(0, named=True)
    assert few["categories"] == 4
    assert few["coarsened"] == 731 / 789
    enough = peering.recommend(cervical, "biopsy", KNOWN, enough=0.8).table.row(0, named=True)
    # 12 categories are the most that protect four in five: 639 of 789.
    assert (enough["categories"], enough["coarsened"]) == (12, 639 / 789)
    assert enough["reason"] is None
    never = peering.recommend(cervical, "biopsy", KNOWN, enough=1.0).table.row(0, named=True)
    assert never["coarsened"] == 761 / 789
    assert "None protects enough" in never["reason"]


def test_a_recommendation_above_a_share_of_peers(cervical):
    found = peering.recommend(cervical, "biopsy", ["pregnancies", "smoking"], p=0.05)
    first = found.table.row(0, named=True)
    assert first["variable"] == "pregnancies"
    for data, share in ((cervical, "before"), (found.steps[0].apply(cervical), "coarsened")):
        measure = sf.risk.Peers(known=["pregnancies", "smoking"], sensitive=["biopsy"], p=0.05)
        assert 1 - measure.measure(data).value == pytest.approx(first[share], abs=1e-12)


def test_dates_wide_numbers_and_what_cannot_be_cut():
    chance = np.random.default_rng(4)
    born = [dt.date(1950, 1, 1) + dt.timedelta(int(day)) for day in chance.integers(0, 9000, 40)]
    frame = pl.DataFrame(
        {
            "born": born,
            "weight": chance.normal(70, 9, 40),
            "code": chance.integers(0, 9, 40).astype(str),
            "ill": chance.integers(0, 2, 40),
        }
    )
    data = sf.Dataset(frame)
    found = peering.recommend(data, "ill", ["born", "weight"])
    row = {one["variable"]: one for one in found.table.to_dicts()}
    assert "neither whole numbers" in row["weight"]["reason"]
    only = peering.recommend(data, "ill", ["born"])
    coarse = only.steps[0].apply(data)
    breached = sf.risk.Peers(known=["born"], sensitive=["ill"]).measure(coarse).value
    assert 1 - breached == pytest.approx(only.table["coarsened"][0])
    with pytest.raises(MeasureError, match="more than the budget.*sizes"):
        peering.widths(data, "ill", "born", ["born"], budget=1000)
    assert len(peering.widths(data, "ill", "born", ["born"], sizes=[365])) == 365
    with pytest.raises(MeasureError, match="'code' holds neither"):
        peering.widths(data, "ill", "code", ["code"])


def test_levels_and_numbers_of_every_type():
    numbers = [1, 2, 2, 5]
    expected = None
    for column in (
        pl.Series("x", numbers, pl.UInt8),
        pl.Series("x", numbers, pl.Float64),
        pl.Series("x", [dt.date(2020, 1, one) for one in numbers]),
        pl.Series("x", [dt.datetime(2020, 1, one, tzinfo=dt.UTC) for one in numbers]),
        pl.Series("x", ["abcde"[one - 1] for one in numbers]),
        pl.Series("x", ["abcde"[one - 1] for one in numbers], pl.Enum(list("abcde"))),
    ):
        told = sf.Column(role="quasi", kind="ordinal", domain=tuple("abcde"))
        schema = sf.Schema({"x": told if column.dtype in (pl.String, pl.Enum) else "quasi"})
        data = sf.Dataset(pl.DataFrame([column, pl.Series("ill", [0, 1, 0, 1])]), schema)
        found = peering.widths(data, "ill", "x").rows()
        expected = expected or found
        assert found == expected
        peering.recommend(data, "ill")


@pytest.mark.parametrize(
    "column",
    [
        pl.Series("x", [0, 2**64 - 1], pl.UInt64),
        pl.Series("x", [-(2**62), 2**62]),
        pl.Series("x", [1.0, float("inf")]),
        pl.Series("x", [1.0, 1e300]),
        pl.Series("x", [True, False]),
        pl.Series("x", [b"a", b"b"]),
        pl.Series("x", [0, 2**30]),
    ],
)
def test_what_cannot_be_cut_is_told_without_a_value(column):
    data = sf.Dataset(pl.DataFrame([column, pl.Series("ill", [0, 1])]))
    for ends in ("narrow", "any"):
        with pytest.raises(MeasureError, match=r"'x'|budget") as error:
            peering.widths(data, "ill", "x", ["x"], ends=ends, budget=10**6)
        assert not any(
            one in str(error.value) for one in ("2147", "461168", "inf", "1e+300", "1844")
        )


def test_missing_codes_are_a_category_of_their_own():
    frame = pl.DataFrame({"age": [-9, -9, 1, 2], "ill": [0, 1, 0, 1]})
    told = {"age": sf.Column(role="quasi", kind="integer", missing=(-9,))}
    table = peering.widths(sf.Dataset(frame, sf.Schema(told)), "ill", "age")
    assert table.select("width", "offset", "protected_records").rows() == [
        (1, 1, 2), (2, 1, 2), (2, 2, 4),
    ]  # fmt: skip


@drawn("library", LIBRARIES)
def test_every_library_and_every_order(library, cohort_frame):
    names = ["sex", "region", "household_size", "smoking"]
    frame = cohort_frame.select(names)
    known = names[:3]
    plain = peering.recommend(sf.Dataset(frame), "smoking", known)
    there = sf.Dataset(in_library(frame.sample(fraction=1, shuffle=True, seed=2), library))
    found = peering.recommend(there, "smoking", known)
    assert isinstance(found.table, type(there.frame))
    assert found.steps == plain.steps
    from sfumato.io.frames import wrap

    filled = wrap(found.table).to_polars().with_columns(cs.float().fill_nan(None))
    assert filled.rows() == plain.table.rows()
    gained = peering.gains(there, "smoking", known, 0.1).table
    assert (
        wrap(gained).rows() == peering.gains(sf.Dataset(frame), "smoking", known, 0.1).table.rows()
    )


def test_what_cannot_be_asked():
    data = sf.Dataset(pl.DataFrame({"age": [40, 41], "empty": [None, None], "ill": [0, 1]}))
    with pytest.raises(MeasureError, match="Nothing is known besides 'ill'"):
        peering.gains(data, "ill", ["ill"])
    with pytest.raises(MeasureError, match="'age' is not known"):
        peering.widths(data, "ill", "age", ["empty"])
    with pytest.raises(MeasureError, match="'empty' has no values"):
        peering.widths(data, "ill", "empty", ["empty"])
    with pytest.raises(MeasureError, match="p is 0 or more"):
        peering.gains(data, "ill", ["age"], 1.0)
    with pytest.raises(MeasureError, match="A width is 1 or more"):
        peering.widths(data, "ill", "age", ["age"], sizes=[0])
    with pytest.raises(MeasureError, match="`ends`"):
        peering.widths(data, "ill", "age", ["age"], ends="wide")  # type: ignore[arg-type]
    with pytest.raises(MeasureError, match="`fewest`"):
        peering.recommend(data, "ill", ["age"], fewest=0)
    with pytest.raises(SfumatoError, match="aeg"):
        peering.gains(data, "ill", ["aeg"])
