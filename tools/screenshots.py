"""Take the pictures of the studio for the docs: every step, with the invented cohort.

    .venv/bin/python -m tools.screenshots [folder]

Needs Chromium. The studio runs in a process and a folder of its own, and is gone afterwards.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.browser import launch_browser
from tests.studio.visitor import start_studio, stop_studio

FOLDER = Path(__file__).parent.parent / "docs" / "assets" / "studio"
WIDTH, HEIGHT = 1280, 900
STEPS = ("data", "roles", "risk", "protect", "compare", "release")


def main(folder: Path = FOLDER) -> None:
    """Walk through the steps, and take a picture of each."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, launch_browser() as browser:
        place = Path(name)
        studio = start_studio(place / "sessions", place)
        try:
            page = browser.new_page(
                viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce"
            )
            page.goto(studio.address)
            _take(page, folder / "start.png")
            _walk(page, folder)
        finally:
            stop_studio(studio)


def _walk(page: Any, folder: Path) -> None:
    page.locator("form[action$='/begin/demo'] button").click()
    page.wait_for_url("**/data")
    for step in STEPS:
        _go(page, step)
        if step == "roles":
            _take(page, folder / "roles.png")
            for action in ("accept_all", "build", "use"):
                _press(page, f"/roles/{action}")
            continue
        if step == "protect":
            _press(page, "/protect/try")
        _take(page, folder / f"{step}.png")


def _go(page: Any, step: str) -> None:
    page.locator(f".steps a[href$='/{step}']").click()
    page.wait_for_url(f"**/{step}")
    _settle(page)


def _press(page: Any, action: str) -> None:
    page.locator(f"main form[action$='{action}'] button:not([type=button])").first.click()
    _settle(page)


def _settle(page: Any) -> None:
    page.wait_for_selector("[data-await], main[aria-busy]", state="detached", timeout=600_000)


def _take(page: Any, path: Path) -> None:
    _settle(page)
    page.evaluate("window.scrollTo(0, 0)")
    page.screenshot(path=path)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
