"""A studio, and a browser, for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.studio.visitor import RunningStudio, start_studio, stop_studio
from tests.waiting import get_patience, lose_patience


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Once the browser has waited in vain, later tests wait less."""
    report = yield
    if call.excinfo is not None and "Timeout" in call.excinfo.typename:
        lose_patience(item.name)
    return report


@pytest.fixture(scope="module")
def studio(tmp_path_factory) -> Iterator[RunningStudio]:
    """One studio for the tests of a file; its visitor has entered."""
    root = tmp_path_factory.mktemp("root")
    running = start_studio(tmp_path_factory.mktemp("sessions"), root)
    running.enter()
    yield running
    stop_studio(running)


@pytest.fixture
def tab(browser, studio) -> Iterator[Any]:
    """A browser's page at the start of the studio. Whatever the console says fails the test."""
    from playwright.sync_api import expect

    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(get_patience() * 1000)
    expect.set_options(timeout=get_patience() * 1000)
    page = context.new_page()
    heard: list[str] = []
    page.on("console", lambda message: heard.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))
    ours = (f"http://{studio.host}/", "data:")
    page.on(
        "request",
        lambda request: heard.extend(
            [] if request.url.startswith(ours) else [f"request: {request.url}"]
        ),
    )
    page.goto(studio.new_address())
    yield page
    context.close()
    assert heard == []
