"""Recoding: groups as declared, cells that measures read for what they stand for."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import LIBRARIES, drawn, in_library

import sfumato as sf
from sfumato.errors import MethodError, PlanError
from sfumato.io import frames
from sfumato.schema import hierarchies, periods

CITY = {"Dresden": ("Saxony", "east"), "Leipzig": ("Saxony", "east"),
        "Halle": ("Anhalt", "east"), "Bonn": ("Rhine", "west")}  # fmt: skip
AGES = hierarchies.intervals(0, 11, [3, 6])
CODES = hierarchies.prefixes(["110", "111", "120", "200"], keep=[2, 1])
LIKERT = ("never", "rarely", "often", "always")
TREES: dict[str, Any] = {"city": CITY, "age": AGES, "code": CODES}


def schema_of() -> sf.Schema:
    return sf.Schema(
        {
            "city": sf.Column(role="quasi", kind="nominal", hierarchy=CITY),
            "age": sf.Column(role="quasi", kind="integer", domain=(0, 11), hierarchy=AGES),
            "code": sf.Column(role="quasi", kind="text", hierarchy=CODES),
        }
    )


def one(values, **column) -> sf.Dataset:
    told = sf.Column(role="quasi", **column)
    return sf.Dataset(pl.DataFrame({"x": values}), sf.Schema({"x": told}))


def recoded(data: sf.Dataset, **how) -> list[Any]:
    return frames.get_column(
        sf.methods.Recode(variables=["x"], **how).apply(data).frame, "x"
    ).to_list()


def test_levels_of_the_hierarchy():
    data = one(["Dresden", None, "Bonn"], kind="nominal", hierarchy=CITY)
    assert recoded(data, level=1) == ["Saxony", None, "Rhine"]
    first = sf.methods.Recode(variables=["x"], level=1).apply(data)
    assert first.schema["x"].domain == ("Saxony", "Anhalt", "Rhine")
    assert recoded(first, level=2) == ["east", None, "west"]
    second = sf.methods.Recode(variables=["x"], level=2).apply(first)
    assert recoded(second, level=1) == ["east", None, "west"]  # never finer again
    assert second.schema["x"].hierarchy == CITY


def test_what_the_hierarchy_does_not_know_is_counted_and_not_named():
    data = one(["Dresden", "Secretville", "Secretville"], kind="nominal", hierarchy=CITY)
    with pytest.raises(MethodError, match="'x' has 2 records with a value that its") as caught:
        recoded(data, level=1)
    assert "Secretville" not in str(caught.value)
    with pytest.raises(MethodError, match="'x' has no level 3: its hierarchy has 2"):
        recoded(data, level=3)
    with pytest.raises(MethodError, match="'x' has no level 1: its hierarchy has 0"):
        recoded(one(["a"]), level=1)


def test_numbers_and_dates_meet_their_hierarchy_whatever_the_library():
    days = hierarchies.dates(dt.date(2020, 5, 1), dt.date(2020, 7, 9), output="label")
    frame = pl.DataFrame(
        {"age": [4, None, 11], "day": [dt.date(2020, 5, 2), dt.date(2020, 7, 1), None]}
    )
    schema = sf.Schema({
        "age": sf.Column(role="quasi", kind="integer", hierarchy=AGES),
        "day": sf.Column(role="quasi", kind="date", hierarchy=days),
    })  # fmt: skip
    for library in LIBRARIES:
        data = sf.Dataset(in_library(frame, library), schema)
        after = sf.methods.Recode(variables=["age", "day"], level=2).apply(data)
        assert frames.get_column(after.frame, "age").to_list() == ["[0;5]", None, "[6;11]"]
        assert frames.get_column(after.frame, "day").to_list() == ["2020-Q2", "2020-Q3", None]
        assert after.schema["age"].kind == after.schema["day"].kind == "ordinal"
        assert after.schema["age"].domain == ("[0;5]", "[6;11]")


def test_masks():
    assert recoded(one(["93722", "937", "9", None, ""]), keep=3) == ["937**", "937", "9", None, ""]
    assert recoded(one([93722, 1067, None]), keep=2) == ["93***", "10**", None]
    assert recoded(one([93722.0, None]), keep=2) == ["93***", None]
    assert recoded(one(["937**", "Ärzte"], cells="generalised"), keep=1) == ["9****", "Ä****"]
    for wrong in ([-5], [1.5], [dt.date(2020, 1, 1)], [True]):
        with pytest.raises(MethodError, match="'x' holds no codes to mask"):
            recoded(one(wrong), keep=1)
    with pytest.raises(MethodError, match="'x' has ranges or sets already"):
        recoded(one(["[1;3]"], cells="generalised"), keep=1)
    with pytest.raises(MethodError, match="'x' has 1 cells that look like ranges"):
        recoded(one(["[1;3]"]), keep=1)  # text of the original, which a mask must not resemble


@given(st.lists(st.none() | st.dates(dt.date(1900, 1, 1), dt.date(2099, 12, 31)), min_size=1))
def test_periods_hold_their_days(days):
    data = one(pl.Series(days, dtype=pl.Date), kind="date")
    for period in ("month", "quarter", "year"):
        ranges = recoded(data, period=period)
        labels = recoded(data, period=period, output="label")
        for day, text, label in zip(days, ranges, labels, strict=True):
            if day is None:
                assert text is None
                assert label is None
                continue
            assert text == periods.format_range(day, period)
            assert label == periods.format_label(day, period)


@drawn("library", LIBRARIES)
def test_periods_of_any_library_with_or_without_a_time_of_day(library):
    moments = pl.Series([dt.datetime(2020, 5, 31, 23, 59), None])  # noqa: DTZ001 - as files hold it
    for values in (moments, moments.cast(pl.Date), moments.dt.replace_time_zone("UTC")):
        frame = in_library(pl.DataFrame({"x": values}), library)
        column = sf.Column(
            role="quasi", domain=(dt.date(2020, 2, 1), dt.date(2020, 7, 9)), kind="date"
        )
        data = sf.Dataset(frame, sf.Schema({"x": column}))
        assert recoded(data, period="quarter") == ["[2020-04-01;2020-06-30]", None]
        for period, label in (("month", "2020-05"), ("quarter", "2020-Q2"), ("year", "2020")):
            assert recoded(data, period=period, output="label") == [label, None]
        after = sf.methods.Recode(variables=["x"], period="quarter", output="label").apply(data)
        assert after.schema["x"].domain == ("2020-Q1", "2020-Q2", "2020-Q3")
        assert after.schema["x"].kind == "ordinal"


def test_periods_need_dates():
    with pytest.raises(MethodError, match="'x' holds no dates"):
        recoded(one(["2020-05-01"]), period="month")


def test_groups_by_hand():
    data = one(["a", "b", None, "c"], kind="nominal", domain=("a", "b", "c", "d"))
    assert recoded(data, groups={"ab": ["a", "b"]}) == ["ab", "ab", None, "c"]
    after = sf.methods.Recode(variables=["x"], groups={"ab": ["a", "b"]}).apply(data)
    assert after.schema["x"].domain == ("ab", "c", "d")
    with pytest.raises(MethodError, match="'x' has 1 records with a value that has the name"):
        recoded(data, groups={"c": ["a", "b"]})
    assert recoded(data, groups={"c": ["a", "c"]}) == ["c", "b", None, "c"]
    assert recoded(one([1, 2, None]), groups={"few": ["1"]}) == ["few", "2", None]
    assert recoded(one([True, False]), groups={"yes": ["true"]}) == ["yes", "false"]


def test_groups_of_ordered_levels_keep_an_order_where_they_can():
    data = one(list(LIKERT), kind="ordinal", domain=LIKERT)
    for members, kind in ((["never", "rarely"], "ordinal"), (["never", "often"], "nominal")):
        after = sf.methods.Recode(variables=["x"], groups={"some": members}).apply(data)
        assert after.schema["x"].kind == kind


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"level": 1, "keep": 1},
        {"groups": {}},
        {"groups": {"a": ["x"], "b": ["x"]}},
        {"groups": {"a": ["b"], "b": ["a"]}},
        {"groups": {"[1;2]": ["1", "2"]}},
        {"groups": {"*": ["1", "2"]}},
        {"fewest": 2, "other": "9**"},
        {"level": 0},
        {"keep": 0},
        {"period": "week"},
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(PlanError):
        sf.methods.Recode(variables=["x"], **wrong)


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 8), min_size=1), st.integers(2, 6)
)
def test_rare_levels_join_until_each_group_holds(counts, fewest):
    values = [level for level, count in counts.items() for _ in range(count)]
    data = one([*values, None], kind="nominal")
    if len(values) < fewest:
        with pytest.raises(MethodError, match="fewer values in all"):
            recoded(data, fewest=fewest)
        return
    after = recoded(data, fewest=fewest, other="h")  # a name that may be there already
    assert after[-1] is None
    assert min(after.count(label) for label in set(after[:-1])) >= fewest
    joined = {was for was, now in zip(values, after, strict=False) if now != was}
    rare = {level for level in counts if level != "h" and counts[level] < fewest}
    assert rare <= joined
    if joined:  # no more than it takes: without the most frequent, the group would be too small
        held = after.count("h")
        more = joined - rare
        assert not more or held - max(counts[level] for level in more) < fewest
    assert all(now in (was, "h") for was, now in zip(values, after, strict=False))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(2, 5))
def test_rare_numbers_join_their_neighbours(values, fewest):
    data = one(pl.Series([*values, None]), kind="integer", domain=(0, 9))
    if len(values) < fewest:
        return
    after = recoded(data, fewest=fewest)
    assert min(after.count(label) for label in set(after[:-1])) >= fewest
    ends = {}
    for was, now in zip(values, after, strict=False):
        low, high = map(int, now[1:-1].split(";")) if now.startswith("[") else (int(now), int(now))
        assert low <= was <= high
        ends[low] = high
    for (_, high), (low, _) in itertools.pairwise(sorted(ends.items())):
        assert high < low


def test_rare_ordered_levels_become_ranges_that_are_read():
    data = one(
        ["never"] * 5 + ["rarely"] + ["often"] * 2 + ["always"] * 4, kind="ordinal", domain=LIKERT
    )
    after = sf.methods.Recode(variables=["x"], fewest=3).apply(data)
    assert after.frame["x"].unique(maintain_order=True).to_list() == [
        "never", "[rarely;often]", "always",
    ]  # fmt: skip
    assert after.schema["x"].domain == ("never", "rarely", "often", "[rarely;often]", "always")
    assert sf.risk.Reidentification().measure(after).value == 0
    with pytest.raises(MethodError, match="'x' has no declared order"):
        recoded(one(["a", "b"], kind="ordinal"), fewest=2)
    with pytest.raises(MethodError, match="'x' has numbers or dates"):
        recoded(one([1.5, 2.5], kind="continuous"), fewest=2)


def test_codes_for_missing_stay_where_the_type_does():
    data = one(["Bonn", "-9"], kind="nominal", hierarchy=CITY, missing=("-9",))
    after = sf.methods.Recode(variables=["x"], level=2).apply(data)
    assert after.frame["x"].to_list() == ["west", "-9"]
    assert after.schema["x"].missing == ("-9",)
    numbers = one([4, -9], kind="integer", hierarchy=AGES, missing=(-9,))
    after = sf.methods.Recode(variables=["x"], level=1).apply(numbers)
    assert after.frame["x"].to_list() == ["[3;5]", None]
    assert after.schema["x"].missing == ()


def leaves(name: str, cell: str) -> set[str]:
    """What a cell stands for, the slow way."""
    return {value for value, groups in TREES[name].items() if cell in (value, *groups)}


def slowly_unique(frame: pl.DataFrame) -> list[bool]:
    """A record is unique if some combination that it may stand for fits no other record."""
    boxes = [
        [leaves(name, cell) for name, cell in zip(frame.columns, row, strict=True)]
        for row in frame.rows()
    ]
    found = []
    for at, box in enumerate(boxes):
        others = [other for place, other in enumerate(boxes) if place != at]
        found.append(
            not all(
                any(
                    all(v in held for v, held in zip(point, other, strict=True)) for other in others
                )
                for point in itertools.product(*box)
            )
        )
    return found


rows = st.tuples(*(st.sampled_from(list(tree)) for tree in TREES.values()))


@settings(max_examples=60)
@given(st.lists(rows, min_size=2, max_size=7), st.lists(st.integers(0, 2), min_size=3, max_size=3))
def test_recoded_cells_are_read_for_what_they_stand_for(records, levels):
    """Columns at one level, and a release joined from two levels: as brute force finds it."""
    text = pl.DataFrame(records, schema=list(TREES), orient="row")
    data = sf.Dataset(text.with_columns(pl.col("age").cast(pl.Int64)), schema_of())
    for name, level in zip(TREES, levels, strict=True):
        if level:
            data = sf.methods.Recode(variables=[name], level=level).apply(data)
    plain = data.frame.with_columns(pl.all().cast(pl.String))
    found = sf.risk.Reidentification().measure(data).records["unique"].to_list()
    assert found == slowly_unique(plain)
    broad = data
    for name in TREES:
        broad = sf.methods.Recode(variables=[name], level=2).apply(broad)
    both = pl.concat([plain, broad.frame])
    schema = broad.schema.changed(["age"], domain=None)
    found = sf.risk.Reidentification().measure(sf.Dataset(both, schema)).records["unique"]
    assert found.to_list() == slowly_unique(both)


def test_other_ways_keep_the_part_of_the_hierarchy_that_nests():
    codes = one(["110", "200"], kind="text", hierarchy=CODES)
    assert sf.methods.Recode(variables=["x"], keep=1).apply(codes).schema["x"].hierarchy == CODES
    merged = one(["Halle", "Bonn"], kind="nominal", hierarchy=CITY)
    step = sf.methods.Recode(variables=["x"], groups={"SA": ["Dresden", "Leipzig", "Halle"]})
    after = step.apply(merged)
    assert after.schema["x"].hierarchy["Halle"] == ("Anhalt", "SA", "east")
    assert recoded(after, level=3) == ["east", "west"]
    days = hierarchies.dates(dt.date(2020, 1, 1), dt.date(2020, 12, 31), to=["year"])
    data = one([dt.date(2020, 5, 1)], kind="date", hierarchy=days)
    after = sf.methods.Recode(variables=["x"], period="month").apply(data)
    assert recoded(after, level=2) == ["[2020-01-01;2020-12-31]"]


@pytest.mark.parametrize(
    "values",
    [
        ["SECRETVALUE", "3", "3"],
        [1.5, 2.0, 2.0],
        [True, False, True],
        ["*", "3", "3"],
        ["9" * 5000, "3", "3"],
        [dt.date(2020, 1, 1)] * 2,
    ],
)
def test_rare_whole_numbers_must_be_whole_numbers(values):
    with pytest.raises(MethodError, match="'x' is declared integer") as caught:
        recoded(one(values, kind="integer"), fewest=2)
    assert not any(str(value) in str(caught.value) for value in values if value is not True)


def test_rare_whole_numbers_written_in_several_ways_have_one_order():
    for values in (["07", "7", "8"], ["8", "7", "07"]):
        after = recoded(one(values, kind="integer"), fewest=3)
        assert after == ["[07;8]"] * 3


def test_values_that_no_released_cell_shows_are_not_published(tmp_path):
    data = one(["SECRETTOWN", "Ulm", "Kiel"], kind="nominal")
    groups = {"big": ["SECRETTOWN", "Ulm"], "small": ["Kiel"]}
    step = sf.methods.Recode(variables=["x"], groups=groups)
    told = step.public({})
    assert told["groups"] == {"big": "2 values", "small": "1 value"}
    assert told["variables"] == ["x"]
    release = sf.protect(data, sf.Plan(schema=data.schema, steps=[step]), key=bytes(32))
    assert "SECRETTOWN" not in json.dumps(release.manifest)
    folder = release.write(tmp_path / "release")
    for file in folder.iterdir():
        assert file.is_dir() or b"SECRETTOWN" not in file.read_bytes()
    assert "SECRETTOWN" in (folder / "custody" / "plan.toml").read_text()
    assert sf.methods.Recode(variables=["x"], keep=2).public({})["keep"] == 2
