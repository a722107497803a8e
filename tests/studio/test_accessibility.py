"""Everybody can use it: axe finds nothing serious, and nothing sticks out on a phone."""

from __future__ import annotations

import time
from importlib.resources import files
from typing import Any

import pytest
from tests.studio.visitor import RunningStudio

AXE = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
PAGES = ("data", "roles", "risk", "protect", "compare", "release", "outputs", "analyse")
SERIOUS = ("serious", "critical")


def settle(page: Any) -> None:
    """Until nothing on the page is being worked on."""
    page.wait_for_selector("[data-await], main[aria-busy]", state="detached", timeout=120_000)


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
    while "data-await=" in studio.get(path).text:
        time.sleep(0.2)


def test_the_first_page_can_be_used_by_everybody(tab):
    assert find_violations(tab) == []


@pytest.mark.parametrize("name", PAGES)
def test_every_page_can_be_used_by_everybody(tab, begun, name):
    tab.goto(f"{begun}/{name}")
    settle(tab)
    assert find_violations(tab) == []
    for width in (390, 1280):
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
        # A person without a mouse reaches every control, and sees where they are.
    assert tab.locator("h1").count() == 1
    assert tab.title()
