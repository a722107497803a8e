"""Everybody can use it: axe finds nothing serious, and nothing sticks out on a phone."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
from tests.studio.test_analyse import write_release
from tests.studio.test_protect import make_plan, open_session
from tests.studio.visitor import RunningStudio
from tests.waiting import wait_until

import sfumato as sf

AXE = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
PAGES = ("data", "roles", "risk", "protect", "compare", "release", "outputs", "analyse")
SERIOUS = ("serious", "critical")


def settle(page: Any) -> None:
    """Until nothing on the page is being worked on."""
    page.wait_for_selector("[data-await], main[aria-busy]", state="detached")


def find_violations(page: Any) -> list[str]:
    """What axe finds that keeps somebody from using the page, in both colour schemes."""
    found = []
    for scheme in ("light", "dark"):
        # A colour that is still on its way to the other scheme has no contrast of its own.
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.evaluate(AXE)
        report = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found += [
            f"{scheme}: {violation['id']}: {node['target']}"
            for violation in report["violations"]
            if violation["impact"] in SERIOUS
            for node in violation["nodes"][:3]
        ]
    return found


@pytest.fixture(scope="module")
def begun(studio) -> str:
    """A session with roles, a first plan and a try, so that every page has something to show."""
    session = studio.begin("demo")
    for page, action in (("roles", "accept_all"), ("roles", "build"), ("roles", "use"),
                         ("protect", "try")):  # fmt: skip
        wait(studio, f"{session}/{page}")
        assert studio.post(f"{session}/{page}/{action}").status == 303
    wait(studio, f"{session}/protect")
    return f"http://{studio.host}{studio.prefix}{session}"


def wait(studio: RunningStudio, path: str) -> None:
    """Until nothing on the page is being worked on."""
    wait_until(lambda: "data-await=" not in studio.get(path).text, f"the work of {path}")


def test_the_first_page_can_be_used_by_everybody(tab):
    assert find_violations(tab) == []


@pytest.mark.parametrize("name", PAGES)
def test_every_page_can_be_used_by_everybody(tab, begun, name):
    tab.goto(f"{begun}/{name}")
    settle(tab)
    require_usable(tab)
    assert tab.locator("h1").count() == 1
    assert tab.title()


@pytest.fixture(scope="module")
def worked(studio) -> str:
    """A small session with a search, a figure, a table, and a release to analyse."""
    file = studio.root / "small.csv"
    sf.datasets.cohort(300).write_csv(file)
    write_release(studio.root / "received")
    session = open_session(studio, file, make_plan().text())
    for action, fields in (
        ("protect/tune", {"runs": "3", "minutes": "1"}),
        ("outputs/make", {"kind": "histogram", "x": "systolic"}),
        ("outputs/make", {"kind": "crosstab", "rows": ["sex", "region"]}),
        ("analyse/open", {"folder": str(studio.root / "received")}),
        ("analyse/fit", {"formula": "systolic ~ height", "as-method": "moments"}),
        ("analyse/look", {}),
    ):
        assert studio.post(f"{session}/{action}", fields).status == 303
        wait(studio, f"{session}/{action.partition('/')[0]}?tab=search")
    return f"http://{studio.host}{studio.prefix}{session}"


# What must be there before axe looks, so that it never looks at an empty page.
CONTENT = {
    "groups?name=household_size": ".handle",
    "groups?name=birth_date": ".handle",
    "groups?name=sex": ".boxes .chip",
    "protect?tab=search": "svg.map g.point",
    "outputs": "article figure img, article table",
    "analyse": "section.card table",
}


@pytest.mark.parametrize("address", CONTENT)
def test_pages_with_content_can_be_used_by_everybody(tab, worked, address):
    tab.goto(f"{worked}/{address}")
    tab.locator(CONTENT[address]).first.wait_for()
    settle(tab)
    if address.startswith("groups"):
        tab.locator("[data-verdict] :is(table, .flash)").wait_for()
    if address == "outputs":
        assert tab.locator("article").count() == 2
    require_usable(tab)


# Where a dialog is opened, and by what.
DIALOGS = {
    "roles": "[data-fetch*='/roles/variable?name=birth_date']",
    "protect": "[data-fetch*='/protect/methods']",
    "protect?": "[data-fetch*='/protect/step']",
    "protect?again": "[data-fetch*='/protect/target']",
    "risk?look=people": "[data-fetch*='/risk/record']",
    "release": "[data-fetch*='want=key'], [data-fetch*='want=folder']",
}


@pytest.mark.parametrize("address", DIALOGS)
def test_open_dialogs_can_be_used_by_everybody(tab, worked, address):
    tab.goto(f"{worked}/{address}")
    tab.locator(DIALOGS[address]).first.wait_for()
    settle(tab)
    tab.locator(DIALOGS[address]).first.click()
    tab.locator("dialog[open] :is(h2, h3)").first.wait_for()
    require_usable(tab)
    # Whoever leaves it by keyboard is where they were.
    tab.keyboard.press("Escape")
    assert tab.locator("dialog[open]").count() == 0
    assert tab.evaluate("document.activeElement.dataset.fetch") is not None


def test_linked_tables_can_be_used_by_everybody(tab, studio):
    session = studio.begin("hospital")
    wait(studio, f"{session}/roles")
    address = f"http://{studio.host}{studio.prefix}{session}"
    tab.goto(f"{address}/roles")
    settle(tab)
    require_usable(tab)  # the keys that are suggested
    tab.locator("main form[action$='/roles/keys'] button:not([type=button])").first.click()
    tab.locator("table.roles").wait_for()
    for page, content in (("data", ".drawing svg"), ("roles", "table.roles")):
        tab.goto(f"{address}/{page}")
        tab.locator(content).first.wait_for()
        settle(tab)
        require_usable(tab)


def require_usable(page: Any) -> None:
    """Nothing that axe calls serious, and nothing that sticks out on a phone."""
    assert find_violations(page) == []
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, width


def test_the_steps_are_one_line_on_a_phone(tab, begun):
    tab.set_viewport_size({"width": 390, "height": 800})
    for name in ("data", "compare", "outputs"):
        tab.goto(f"{begun}/{name}")
        links = tab.locator(".steps ol a")
        boxes = links.evaluate_all(
            "all => all.map((link) => link.getBoundingClientRect().toJSON())"
        )
        assert len(boxes) == 6
        assert len({box["top"] for box in boxes}) == 1
        assert all(box["left"] >= 0 and box["right"] <= 390 for box in boxes)
        assert all(box["width"] >= 24 and box["height"] >= 24 for box in boxes)
        # Whoever hears the page hears every name, and whoever sees it the one they are in.
        for step in ("Data", "Roles", "Risk", "Protect", "Compare", "Release"):
            assert tab.get_by_role("link", name=step, exact=True).count() == 1
        if name == "compare":
            assert tab.locator(".steps ol a[aria-current] .name").bounding_box()["width"] > 50
