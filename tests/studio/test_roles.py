"""Roles: suggested with reasons, set by nobody but a person, and made into a first plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.studio.test_data import work_on

import sfumato as sf
from sfumato.studio.pages.roles import drop_profile, read_suggestions
from sfumato.studio.tasks.roles import build_first_plan, suggest_roles
from sfumato.suggestion.first_plan import first_plan, suggest_schema


@pytest.fixture
def cohort(tmp_path: Path) -> Path:
    path = tmp_path / "cohort.csv"
    sf.datasets.cohort(400).write_csv(path)
    return path


def test_suggestions_are_those_of_the_library(cohort, tmp_path):
    found = suggest_roles(work_on(cohort, tmp_path))
    expected = suggest_schema(sf.read(cohort))
    assert read_suggestions(found) == expected
    assert found["variables"]["sex"]["reason"] == expected["sex"].reason


def test_the_first_plan_is_that_of_the_library(cohort, tmp_path):
    data = sf.read(cohort)
    schema = suggest_schema(data)
    work = work_on(cohort, tmp_path, plan=sf.Plan(schema=schema).text())
    built = build_first_plan(work, profile="ema-0070")
    assert built["plan"] == first_plan(data, schema, profile="ema-0070").text()
    assert "k at least 12" in built["targets"]


def test_a_profile_leaves_with_what_it_asked_for():
    plan = sf.Plan(profile="ema-0070", targets={"stayed.max": 0.2})
    assert [target.name for target in drop_profile(plan).targets] == ["stayed"]


def settle(tab) -> None:
    tab.wait_for_selector("[data-await], main[aria-busy]", state="detached")


def test_a_person_decides_and_builds_a_plan(tab):
    tab.get_by_text("Try it").first.click()
    tab.wait_for_selector("table.preview")
    settle(tab)
    tab.get_by_role("link", name="Continue to Roles").click()
    tab.wait_for_selector("table.roles")
    # Nothing is set before somebody has decided.
    open_ones = tab.locator("select.undecided").count()
    assert open_ones == 25
    assert tab.get_by_role("button", name="Build a first plan").is_disabled()
    tab.get_by_label("Role of sex").select_option("sensitive")
    tab.wait_for_selector("tr:has(b:text-is('sex')) .tag:has-text('suggested: quasi')")
    assert tab.locator("select.undecided").count() == open_ones - 1
    tab.get_by_role("button", name="Accept all suggestions").click()
    tab.wait_for_selector("text=Every variable has a role")
    assert tab.get_by_label("Role of sex").input_value() == "sensitive"
    tab.get_by_role("button", name="Details of income").click()
    tab.get_by_label("Unit").fill("GBP")
    tab.get_by_role("button", name="Save").click()
    settle(tab)
    tab.get_by_role("button", name="Build a first plan").click()
    tab.wait_for_selector("text=Nothing is changed until you use it")
    tab.get_by_role("button", name="Use this plan").click()
    tab.wait_for_url("**/protect")
    assert "The first plan is in place" in tab.locator(".flash").first.inner_text()


FETCH_ITSELF = """async (when) => {
  const source = document.querySelector('script[type=module][src$="studio.js"]').src;
  const { refresh } = await import(source);
  const again = () => [0, 20, 100].forEach((wait) => setTimeout(refresh, wait));
  if (when) document.addEventListener(when, again, { once: true }); else await refresh();
}"""
"""What a page does when a job ends: at once, or while the answer to a click is on its way."""


def test_a_page_that_fetches_itself_overtakes_no_click_and_loses_no_message(tab):
    tab.get_by_text("Try it").first.click()
    tab.wait_for_selector("table.preview")
    settle(tab)
    tab.get_by_role("link", name="Continue to Roles").click()
    tab.wait_for_selector("table.roles")
    settle(tab)
    tab.evaluate(FETCH_ITSELF, "submit")
    tab.get_by_role("button", name="Accept all suggestions").click()
    message = tab.locator("main > .flash", has_text="Suggestions accepted:")
    message.wait_for()
    settle(tab)
    # What was said stays when the page fetches itself once more, and goes with the next click.
    tab.evaluate(FETCH_ITSELF, "")
    settle(tab)
    assert message.count() == 1
    tab.get_by_role("link", name="Continue to Risk").or_(
        tab.get_by_role("link", name="Risk", exact=True)
    ).first.click()
    message.wait_for(state="detached")


def test_keys_come_before_the_roles_of_several_tables(tab):
    tab.get_by_text("Try it").nth(1).click()
    tab.wait_for_selector("svg .box")
    settle(tab)
    tab.get_by_role("link", name="Continue to Roles").click()
    tab.get_by_role("button", name="Accept these keys").click()
    tab.wait_for_selector("table.roles")
    assert tab.locator("text=key: released as a pseudonym").count() == 2
    tab.get_by_role("button", name="Accept all suggestions").click()
    tab.wait_for_selector("text=Without a suggestion")
    assert tab.locator("select.undecided").count() == 1
