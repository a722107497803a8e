"""Hierarchies: built, read from files, named in plans."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import PlanError, SchemaError
from sfumato.schema import hierarchies

REGIONS = {"Dresden": ("Saxony", "east", "*"), "Leipzig": ("Saxony", "east", "*"),
           "Halle": ("Anhalt", "east", "*"), "Bonn": ("Rhine", "west", "*")}  # fmt: skip


def written(folder, text, name="region.csv"):
    where = folder / name
    where.write_bytes(text.encode() if isinstance(text, str) else text)
    return where


@pytest.mark.parametrize("mark", [";", ",", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_files_as_arx_writes_them(tmp_path, mark, end):
    lines = [mark.join((value, *groups)) for value, groups in REGIONS.items()]
    found = hierarchies.read(written(tmp_path, "\ufeff" + end.join(lines) + end))
    assert found == REGIONS
    assert list(found) == list(REGIONS)


def test_quoted_cells_may_hold_the_delimiter(tmp_path):
    found = hierarchies.read(written(tmp_path, '"a;b";x\n\nc;x\n'))
    assert found == {"a;b": ("x",), "c": ("x",)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("secret;g\nother;\n", "line 2: a value or a group is empty"),
        ("secret\n", "line 1: a value or a group is empty"),
        ("secret;g\nsecret;h\n", "line 2: this value stood on a line before"),
        ("secret;g;x\nother;g\n", "line 2: more or fewer groups"),
        ("secret;g;x\nother;g;y\n", "level 1 of its hierarchy is split over several of level 2"),
        ("secret;other\nother;other\n", "stands for different values"),
        ("secret;*\nother;rest\n", "stands for some values only"),
        ("", "is empty"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_flawed_files_are_told_by_line_and_never_by_value(tmp_path, text, said):
    with pytest.raises(SchemaError, match=said) as caught:
        hierarchies.read(written(tmp_path, text))
    assert "secret" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(SchemaError) as caught:
        hierarchies.read(tmp_path / "region.csv")
    assert str(caught.value) == f"There is no file 'region.csv' (looked in {tmp_path})."
    with pytest.raises(SchemaError, match="cannot be read"):
        hierarchies.read(tmp_path)


def test_a_heading_is_asked_about(tmp_path):
    with pytest.raises(SchemaError, match=r"Hint: is line 1 a heading\?"):
        hierarchies.read(written(tmp_path, "city;state;all\nDresden;Saxony;*\nHalle;Anhalt;*\n"))
    with pytest.raises(SchemaError) as caught:
        hierarchies.read(written(tmp_path, "a;b;*\nc;d;*\ne;f;rest\n"))
    assert "a heading" not in str(caught.value)
    assert len(hierarchies.read(written(tmp_path, "a;b;all\n"))) == 1


@given(st.integers(-20, 20), st.integers(0, 60), st.integers(1, 5), st.integers(1, 4))
def test_intervals_hold_their_values_and_nest(low, length, width, times):
    found = hierarchies.intervals(low, low + length, [width, width * times])
    assert not found.flaw
    assert list(found) == [str(one) for one in range(low, low + length + 1)]
    for value, groups in found.items():
        for group in groups:
            least, most = map(int, group[1:-1].split(";"))
            assert low <= least <= int(value) <= most <= low + length


def test_intervals_of_decimals():
    found = hierarchies.intervals(0, 1, [0.2, 0.4], step=0.1)
    assert found["0.3"] == ("[0.2;0.3]", "[0;0.3]")
    assert found["1"] == ("[1;1]", "[0.8;1]")


@pytest.mark.parametrize("widths", [[], [2, 3], [0], [-1], [0.5]])
def test_widths_that_do_not_nest_are_refused(widths):
    with pytest.raises(SchemaError, match="multiple of the one before"):
        hierarchies.intervals(0, 9, widths)
    with pytest.raises(SchemaError, match="between the ends"):
        hierarchies.intervals(9, 0, [1])


def test_prefixes():
    found = hierarchies.prefixes(["01067", "01099", "20095"], keep=[3, 1])
    assert found["20095"] == ("200**", "2****")
    assert hierarchies.prefixes(["1067", "20095"], keep=[3], pad="0")["1067"] == ("010**",)
    with pytest.raises(SchemaError, match="differ in length") as caught:
        hierarchies.prefixes(["1067", "20095"], keep=[3])
    assert "1067" not in str(caught.value)
    for keep in ([], [5], [1, 3], [2, 2], [0]):
        with pytest.raises(SchemaError, match="ever fewer"):
            hierarchies.prefixes(["20095"], keep=keep)


@given(st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)), st.integers(0, 400))
def test_dates_nest_and_hold_their_days(low, days):
    for output in ("range", "label"):
        found = hierarchies.dates(low, low + dt.timedelta(days=days), output=output)
        assert not found.flaw
        assert len(found) == days + 1
    for day, groups in hierarchies.dates(low, low).items():
        for group in groups:
            first, last = map(dt.date.fromisoformat, group[1:-1].split(";"))
            assert first <= dt.date.fromisoformat(day) <= last
            assert first.day == 1
            assert (last + dt.timedelta(days=1)).day == 1


def test_dates_out_of_order_are_refused():
    day = dt.date(2020, 2, 29)
    assert hierarchies.dates(day, day, to=["month"])[str(day)] == ("[2020-02-01;2020-02-29]",)
    cases: list[dict[str, Any]] = [
        {"to": []},
        {"to": ["year", "month"]},
        {"low": dt.date(2021, 1, 1)},
    ]
    for wrong in cases:
        with pytest.raises(SchemaError, match="not in order"):
            hierarchies.dates(**{"low": day, "high": day} | wrong)


def test_the_schema_refuses_what_does_not_nest():
    with pytest.raises(SchemaError, match="'x': a group of level 1 .* is split"):
        sf.Schema({"x": sf.Column(hierarchy={"secret": ("g", "x"), "b": ("g", "y")})})
    with pytest.raises(SchemaError, match="mapping, not a path"):
        sf.Column(hierarchy="region.csv")  # type: ignore[arg-type]


PLAN = """version = 1

[columns]
region = { role = "quasi", kind = "nominal", hierarchy = "groups/region.csv" }

[[steps]]
method = "recode"
variables = ["region"]
level = 2
"""


def test_a_plan_names_a_file_and_then_holds_the_mapping_itself(tmp_path, monkeypatch):
    (tmp_path / "groups").mkdir()
    lines = "\n".join(";".join((value, *groups)) for value, groups in REGIONS.items())
    file = written(tmp_path / "groups", lines)
    where = written(tmp_path, PLAN, "plan.toml")
    plan = sf.Plan.load(where)
    assert plan.schema["region"].hierarchy == REGIONS
    monkeypatch.chdir(tmp_path)
    assert sf.Plan.parse(PLAN) == plan
    file.unlink()
    again = sf.Plan.parse(plan.text())
    assert again == plan
    assert again.digest == plan.digest
    assert sf.Plan.parse(plan.text(comments=True)) == plan
    assert "Saxony" in plan.text()


def test_a_plan_with_a_wrong_file_says_which_line(tmp_path):
    where = written(tmp_path, PLAN, "plan.toml")
    with pytest.raises(PlanError, match=r"plan.toml, line 4: There is no file 'region.csv'"):
        sf.Plan.load(where)


def test_one_level_more_keeps_what_nests():
    told = hierarchies.Hierarchy.of(REGIONS)
    both = told.with_level(lambda city: "big" if city in ("Dresden", "Leipzig") else city)
    assert both is not None
    assert both["Dresden"] == ("big", "Saxony", "east", "*")
    assert told.with_level(lambda city: REGIONS[city][1]) is told
    across = told.with_level(lambda city: "rest" if city in ("Halle", "Bonn") else city)
    assert across is not None
    assert across["Bonn"] == ("rest", "*")
    assert told.with_level(lambda city: "east") is None


def test_groups_of_groups_are_found_and_nothing_becomes_finer():
    told = hierarchies.Hierarchy.of(REGIONS)
    second = told.at(2)
    assert second["Saxony"] == second["Dresden"] == second["east"] == "east"
    assert second["*"] == "*"


DAY = dt.date(1950, 1, 1)


@pytest.mark.parametrize(
    "told",
    [
        {"low": 0, "high": 99, "breaks": [[18, 40, 65], [65]]},
        {"low": 0, "high": 1, "step": 0.1, "breaks": [[0.3]]},
        {"low": DAY, "high": dt.date(1959, 12, 31), "breaks": [[dt.date(1955, 1, 1)]]},
    ],
)
def test_ranges_between_breaks_are_written_as_their_breaks(told: dict[str, Any]):
    column = sf.Column(role="quasi", hierarchy=told)
    plan = sf.Plan(schema={"x": column})
    assert "breaks" in plan.text()
    again = hierarchies.Hierarchy.of(sf.Plan.parse(plan.text()).schema["x"].hierarchy or {})
    assert again == column.hierarchy == hierarchies.cut(**told)
    assert again.declare() == told
    # What is nested by construction is found nested.
    assert hierarchies.Hierarchy(again).flaw == ""


def test_categories_called_low_and_high_are_categories():
    told = {"low": ("few",), "high": ("many",), "breaks": ("many",)}
    assert sf.Column(hierarchy=told).hierarchy == told


@pytest.mark.parametrize(
    ("breaks", "high", "said"),
    [
        ([], 9, "one group for everybody"),
        ([[3], []], 9, "one group for everybody"),
        ([[0]], 9, "lie between"),
        ([[10]], 9, "lie between"),
        ([[5, 3]], 9, "rise"),
        ([[3], [5]], 9, "narrower level"),
        ([[3]], -1, "not in order"),
        ([[3]], 10**9, "too many"),
        ([[3]], "9", "all numbers, or all dates"),
        ([[DAY]], 9, "all numbers, or all dates"),
        ([[True]], 9, "all numbers, or all dates"),
        ([[float("nan")]], 9, "finite"),
    ],
)
def test_breaks_that_make_no_sense_are_refused(breaks, high, said):
    with pytest.raises(SchemaError, match=said):
        hierarchies.cut(0, high, breaks)
    with pytest.raises(PlanError):
        sf.Plan.parse('[columns]\nx = { hierarchy = { low = 0, high = 9, breaks = "no" } }')


@given(st.integers(-500, 500), st.integers(10, 2000), st.integers(3, 40))
def test_round_numbers_are_nested_and_hold_every_value(low, width, groups):
    found = hierarchies.round_numbers(low, low + width, groups=groups)
    assert list(found) == [str(value) for value in range(low, low + width + 1)]
    assert not hierarchies.Hierarchy(found).flaw
    # Borders are multiples of a round number, whoever is in the data.
    starts = {int(groups[0].strip("[]").split(";")[0]) for groups in found.values()} - {low}
    gaps = {b - a for a, b in zip(sorted(starts), sorted(starts)[1:], strict=False)}
    assert len(gaps) <= 1


@given(st.lists(st.integers(0, 300), min_size=5, max_size=60).filter(lambda x: len(set(x)) > 1))
def test_equal_counts_are_nested_and_hold_every_value(values):
    try:
        found = hierarchies.equal_counts(values, groups=[4, 2])
    except SchemaError:
        commonest = max(map(values.count, values))
        assert commonest > len(values) / 4
        return
    assert {str(value) for value in values} <= set(found)
    assert not hierarchies.Hierarchy(found).flaw


@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.integers(1, 50), min_size=1))
def test_rare_values_are_joined_until_each_group_has_enough(counts):
    found = hierarchies.merge_rare(counts, fewest=[5, 20])
    for level, fewest in enumerate((5, 20)):
        sizes: dict[str, int] = {}
        for value, groups in found.items():
            sizes[groups[level]] = sizes.get(groups[level], 0) + counts[value]
        assert len(sizes) == 1 or min(sizes.values()) >= fewest


def test_a_file_of_arx_comes_back_as_it_was(tmp_path):
    text = hierarchies.format_csv(REGIONS)
    assert hierarchies.read(written(tmp_path, text)) == REGIONS


def test_a_name_with_two_meanings_is_named_if_it_is_a_group_and_not_if_it_is_a_value(tmp_path):
    twice = written(tmp_path, "a;north;all\nb;south;north\nc;south;north\n")
    with pytest.raises(SchemaError, match="the name 'north'"):
        hierarchies.read(twice)
    with pytest.raises(SchemaError) as raised:
        hierarchies.read(written(tmp_path, "secret;x;secret\nb;x;secret\n"))
    assert "secret" not in str(raised.value)


def test_decades():
    born = hierarchies.dates(
        dt.date(1958, 1, 1), dt.date(1961, 12, 31), to=["year", "decade"], output="label"
    )
    assert born["1958-05-17"] == ("1958", "1950s")
    ranges = hierarchies.dates(dt.date(1958, 1, 1), dt.date(1961, 12, 31), to=["decade"])
    assert ranges["1961-12-31"] == ("[1960-01-01;1969-12-31]",)
