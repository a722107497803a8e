"""Groups drawn by hand: nested by construction, measured as the library measures them."""

from __future__ import annotations

from decimal import Decimal

import polars as pl
import pytest
from tests.studio.test_accessibility import find_violations
from tests.studio.test_data import work_on
from tests.studio.test_roles import settle

import sfumato as sf
from sfumato.errors import SchemaError
from sfumato.schema import Role
from sfumato.studio.grouping import cut_numbers, find_borders, suggest_borders, unite_values
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
    hierarchy = cut_numbers(Decimal(18), Decimal(60), Decimal(1), borders)
    assert hierarchy["24"] == ("[18;24]", "[18;39]")
    assert hierarchy["40"] == ("[40;60]", "[40;60]")
    assert find_borders(hierarchy) == borders
    assert not hierarchy.flaw


@pytest.mark.parametrize(
    ("low", "high", "step"), [("0", "1", "0.1"), ("18", "97", "1"), ("3", "4", "1")]
)
def test_the_first_borders_lie_between_the_ends(low, high, step):
    ends = Decimal(low), Decimal(high), Decimal(step)
    borders = suggest_borders(*ends)
    assert 1 <= len(borders) <= 10
    assert not cut_numbers(*ends, borders).flaw


def test_groups_that_would_tell_nothing_are_refused():
    with pytest.raises(SchemaError, match="No two categories"):
        unite_values(["a", "b"], [["", ""]])
    with pytest.raises(SchemaError, match="reads as"):
        unite_values(["a", "b"], [["[1;2]", "[1;2]"]])
    with pytest.raises(SchemaError, match="split"):
        unite_values(["a", "b", "c"], [["x", "x", ""], ["y", "z", ""]])


def test_the_risk_is_that_of_the_library(people):
    hierarchy = cut_numbers(Decimal(20), Decimal(43), Decimal(1), [(Decimal(30), 1)])
    found = try_groups(people, name="age", hierarchy={v: list(g) for v, g in hierarchy.items()})
    data = sf.read(people.source.where, schema=ROLES)
    grouped = data.with_schema(data.schema.changed(["age"], hierarchy=hierarchy))
    recoded = sf.methods.Recode(variables=["age"], level=1).apply(grouped)
    for line, records in zip(found["levels"], (data, recoded), strict=True):
        expected = sf.risk.Uniqueness().measure(records)
        assert (line["unique"], line["k"]) == (expected.value, expected.details["k"])
    assert found["levels"][1]["unique"] == pytest.approx(1 / 6)


def test_values_are_shown_as_their_kind_asks(people):
    assert show_values(people, name="age")["bars"][0] == 1
    assert show_values(people, name="sex")["values"] == [["m", 4], ["f", 2]]


def test_borders_and_categories_move_by_keyboard(tab):
    tab.get_by_text("Try it").first.click()
    tab.wait_for_selector("table.preview", timeout=60_000)
    base = tab.url.rpartition("/")[0]
    tab.goto(f"{base}/groups?name=household_size")
    tab.wait_for_selector(".handle", timeout=60_000)
    tab.wait_for_selector("[data-verdict] table", timeout=60_000)
    before = tab.locator("input[name=border]").first.input_value()
    tab.locator(".handle").first.press("ArrowRight")
    assert int(tab.locator("input[name=border]").first.input_value()) == int(before) + 1
    assert find_violations(tab) == []
    tab.get_by_role("button", name="Save these groups").click()
    tab.wait_for_selector("text=are in the plan")
    tab.goto(f"{base}/groups?name=sex")
    tab.wait_for_selector(".boxes .chip", timeout=60_000)
    tab.get_by_role("button", name="+ New group").click()
    for _ in range(2):
        tab.locator(".boxes .group").first.locator(".chip").first.press("ArrowRight")
    assert tab.locator(".boxes .group").nth(1).locator(".chip").count() == 2
    tab.get_by_label("Name of the group").first.fill("any")
    tab.keyboard.press("Tab")
    tab.get_by_role("button", name="Save these groups").click()
    tab.wait_for_selector("text=are in the plan")
    settle(tab)
