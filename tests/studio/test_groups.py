"""Groups drawn by hand: nested by construction, measured as the library measures them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import polars as pl
import pytest
from tests.studio.test_accessibility import find_violations
from tests.studio.test_data import work_on
from tests.studio.test_roles import settle

import sfumato as sf
from sfumato.errors import SchemaError
from sfumato.schema import Role
from sfumato.studio.grouping import (
    build_groups,
    choose_preset,
    cut_into_periods,
    cut_values,
    find_borders,
    list_presets,
    suggest_borders,
    unite_values,
)
from sfumato.studio.tasks.groups import show_values, try_groups

ROLES: dict[str, sf.Column | Role | None] = {
    "age": sf.Column(role="quasi", kind="integer"),
    "sex": "quasi",
}


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    frame = pl.DataFrame({"age": [20, 21, 22, 41, 42, 43], "sex": list("ffmmmm")})
    frame.write_csv(path)
    return work_on(path, tmp_path, plan=sf.Plan(schema=ROLES).text())


def test_borders_come_back_as_they_were_drawn():
    borders = [(Decimal(25), 1), (Decimal(40), 2)]
    hierarchy = cut_values(Decimal(18), Decimal(60), borders)
    assert hierarchy["24"] == ("[18;24]", "[18;39]")
    assert hierarchy["40"] == ("[40;60]", "[40;60]")
    assert find_borders(hierarchy) == borders
    assert find_borders(dict(hierarchy)) == borders  # as from a list of every value


DAYS = {"form": "dates", "low": "1950-01-01", "high": "1979-12-31", "step": "1"}


def test_borders_of_days_come_back_from_the_plan():
    borders = [["1960-01-01", "2"], ["1965-04-01", "1"]]
    hierarchy = build_groups({**DAYS, "borders": borders})
    assert hierarchy["1965-03-31"] == ("[1960-01-01;1965-03-31]", "[1960-01-01;1979-12-31]")
    plan = sf.Plan(schema={"born": sf.Column(role="quasi", kind="date", hierarchy=hierarchy)})
    text = plan.text()
    assert len(text) < 500  # the borders, and not ten thousand days
    again = sf.Plan.parse(text)
    assert again.digest == plan.digest
    expected = [(dt.date(1960, 1, 1), 2), (dt.date(1965, 4, 1), 1)]
    assert find_borders(again.schema["born"].hierarchy or {}, days=True) == expected
    assert find_borders(dict(hierarchy), days=True) == expected


@pytest.mark.parametrize(
    ("borders", "told"),
    [
        ([["1960-13-01", "1"]], "not a date"),
        ([["1960-01-01", "many"]], "up to a level"),
        ([["1990-01-01", "1"]], "no border between"),
    ],
)
def test_borders_of_days_that_make_no_sense_are_refused(borders, told):
    with pytest.raises(SchemaError, match=told):
        build_groups({**DAYS, "borders": borders})


def test_too_many_days_are_refused():
    with pytest.raises(SchemaError, match="too many"):
        build_groups({**DAYS, "low": "1700-01-01", "borders": [["1960-01-01", "1"]]})


def test_presets_begin_where_periods_do():
    low, high = dt.date(1923, 5, 17), dt.date(2008, 2, 1)
    assert list(list_presets(low, high)) == ["year", "five_years", "decade", "fifty_years"]
    assert choose_preset(low, high) == "decade"
    assert choose_preset(dt.date(2020, 1, 5), dt.date(2020, 1, 30)) == ""
    years = cut_into_periods(low, high, "year")
    assert years[0] == (dt.date(1924, 1, 1), 1)
    assert dict(years)[dt.date(1930, 1, 1)] == 3
    quarters = cut_into_periods(dt.date(2019, 11, 1), dt.date(2020, 12, 31), "quarter")
    assert [day.month for day, _ in quarters] == [1, 4, 7, 10]


@pytest.mark.parametrize(
    ("low", "high", "step"), [("0", "1", "0.1"), ("18", "97", "1"), ("3", "4", "1")]
)
def test_the_first_borders_lie_between_the_ends(low, high, step):
    ends = Decimal(low), Decimal(high), Decimal(step)
    borders = suggest_borders(*ends)
    assert 1 <= len(borders) <= 10
    hierarchy = cut_values(ends[0], ends[1], borders, ends[2])
    assert not sf.schema.hierarchies.Hierarchy(hierarchy).flaw


def test_groups_that_would_tell_nothing_are_refused():
    with pytest.raises(SchemaError, match="No two categories"):
        unite_values(["a", "b"], [["", ""]])
    with pytest.raises(SchemaError, match="reads as"):
        unite_values(["a", "b"], [["[1;2]", "[1;2]"]])
    with pytest.raises(SchemaError, match="split"):
        unite_values(["a", "b", "c"], [["x", "x", ""], ["y", "z", ""]])


def test_the_risk_is_that_of_the_library(people):
    drawing = {"form": "numbers", "low": "20", "high": "43", "step": "1", "borders": [["30", "1"]]}
    hierarchy = build_groups(drawing)
    found = try_groups(people, name="age", drawing=drawing)
    data = sf.read(people.source.where, schema=ROLES)
    grouped = data.with_schema(data.schema.changed(["age"], hierarchy=hierarchy))
    recoded = sf.methods.Recode(variables=["age"], level=1).apply(grouped)
    for line, records in zip(found["levels"], (data, recoded), strict=True):
        expected = sf.risk.Uniqueness().measure(records)
        assert (line["unique"], line["k"]) == (expected.value, expected.details["k"])
    assert found["levels"][1]["unique"] == pytest.approx(1 / 6)


@pytest.mark.parametrize("moment", [False, True])
def test_the_risk_of_days_is_that_of_the_library(tmp_path, moment):
    born = [dt.date(1951, 3, 2), dt.date(1951, 3, 3), dt.date(1958, 7, 1), dt.date(1963, 1, 1)]
    frame = pl.DataFrame({"born": born, "sex": list("ffff")})
    frame = frame.with_columns(pl.col("born").cast(pl.Datetime)) if moment else frame
    frame.write_parquet(tmp_path / "born.parquet")
    roles: dict[str, sf.Column | Role | None] = {
        "born": sf.Column(role="quasi", kind="date"), "sex": "quasi"}  # fmt: skip
    work = work_on(tmp_path / "born.parquet", tmp_path, plan=sf.Plan(schema=roles).text())
    shown = show_values(work, name="born")
    # The least and the greatest day are two people's own.
    assert (shown["form"], shown["ends"]) == ("dates", ["1950-01-01", "1963-12-31"])
    assert sum(shown["bars"]) == 4
    drawing = {"form": "dates", "low": "1950-01-01", "high": "1963-12-31", "step": "1",
               "borders": [["1955-01-01", "1"], ["1960-01-01", "2"]]}  # fmt: skip
    found = try_groups(work, name="born", drawing=drawing)
    data = sf.Dataset(frame, sf.Schema(roles))
    grouped = data.with_schema(data.schema.changed(["born"], hierarchy=build_groups(drawing)))
    for level, line in enumerate(found["levels"]):
        recoded = data if level == 0 else sf.methods.Recode(
            variables=["born"], level=level).apply(grouped)  # fmt: skip
        expected = sf.risk.Uniqueness().measure(recoded)
        assert (line["unique"], line["k"]) == (expected.value, expected.details["k"])
    assert [line["groups"] for line in found["levels"]] == [4, 3, 2]


def test_values_with_a_time_of_day_are_no_days(tmp_path):
    frame = pl.DataFrame({"seen": ["2020-01-01 10:30", "2020-01-02 00:00"]})
    frame = frame.with_columns(pl.col("seen").str.to_datetime())
    frame.write_parquet(tmp_path / "seen.parquet")
    roles: dict[str, sf.Column | Role | None] = {"seen": sf.Column(role="quasi", kind="date")}
    work = work_on(tmp_path / "seen.parquet", tmp_path, plan=sf.Plan(schema=roles).text())
    assert show_values(work, name="seen") == {"form": "moments"}


def test_the_ends_of_numbers_are_nobodys_own(tmp_path):
    pl.DataFrame({"age": [17, 30, 31, 93]}).write_csv(tmp_path / "ages.csv")
    roles: dict[str, sf.Column | Role | None] = {"age": sf.Column(role="quasi", kind="integer")}
    work = work_on(tmp_path / "ages.csv", tmp_path, plan=sf.Plan(schema=roles).text())
    low, high = show_values(work, name="age")["ends"]
    assert low < 17
    assert high > 93


def test_values_are_shown_as_their_kind_asks(people):
    assert show_values(people, name="age")["bars"][0] == 1
    assert show_values(people, name="sex")["values"] == [["m", 4], ["f", 2]]


def test_borders_and_categories_move_by_keyboard(tab):
    tab.get_by_text("Try it").first.click()
    tab.wait_for_selector("table.preview")
    base = tab.url.rpartition("/")[0]
    tab.goto(f"{base}/groups?name=household_size")
    tab.wait_for_selector(".handle")
    tab.wait_for_selector("[data-verdict] table")
    before = tab.locator("input[name=border]").first.input_value()
    tab.locator(".handle").first.press("ArrowRight")
    assert int(tab.locator("input[name=border]").first.input_value()) == int(before) + 1
    assert find_violations(tab) == []
    tab.get_by_role("button", name="Save these groups").click()
    tab.wait_for_selector("text=are in the plan")
    tab.goto(f"{base}/groups?name=birth_date")
    tab.wait_for_selector("[data-verdict] table")
    tab.get_by_role("link", name="Decades").click()
    settle(tab)
    first = tab.locator("input[name=border]").first
    assert first.input_value() == "1960-01-01"
    tab.locator(".handle").first.press("ArrowLeft")
    assert first.input_value() == "1959-12-01"
    tab.locator(".handle").first.press("Shift+ArrowRight")
    assert first.input_value() == "1960-10-01"
    tab.get_by_role("button", name="Save these groups").click()
    tab.wait_for_selector("text=are in the plan")
    tab.goto(f"{base}/groups?name=birth_date")
    tab.wait_for_selector(".handle")
    assert tab.locator("input[name=border]").first.input_value() == "1960-10-01"
    tab.goto(f"{base}/groups?name=sex")
    tab.wait_for_selector(".boxes .chip")
    tab.get_by_role("button", name="+ New group").click()
    for _ in range(2):
        tab.locator(".boxes .group").first.locator(".chip").first.press("ArrowRight")
    assert tab.locator(".boxes .group").nth(1).locator(".chip").count() == 2
    tab.get_by_label("Name of the group").first.fill("any")
    tab.keyboard.press("Tab")
    tab.get_by_role("button", name="Save these groups").click()
    tab.wait_for_selector("text=are in the plan")
    settle(tab)
