"""Chromium for tests, where it is installed; in CI nothing may be skipped for want of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip


@contextmanager
def launch_browser() -> Iterator[Any]:
    """A headless browser, as long as this lasts."""
    if CHROMIUM is None:
        if os.environ.get("SFUMATO_NOTHING_SKIPPED"):
            pytest.fail("Chromium is not installed, and nothing may be skipped here")
        pytest.skip("Chromium is not installed: sudo apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tool:
        running = tool.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()
