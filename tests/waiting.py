"""Waiting for what happens in another process, with one limit for all tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")
PATIENCE = 300.0
"""Seconds that anything is waited for: a busy machine keeps them, and what hangs still ends."""
_IMPATIENCE = 20.0
_hung: list[str] = []


def get_patience() -> float:
    """How long to wait from now on: where one test has waited in vain, all others would too."""
    return _IMPATIENCE if _hung else PATIENCE


def lose_patience(why: str) -> None:
    """A wait has run out, so a hundred tests that hang must not take a hundred times as long."""
    _hung.append(why)


def wait_until(happened: Callable[[], T], what: str, *, every: float = 0.1) -> T:
    """What a function returns once that is something; the test fails with what was waited for."""
    patience = get_patience()
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if result := happened():
            return result
        time.sleep(every)
    lose_patience(what)
    pytest.fail(f"waited {patience:.0f} s for: {what}")
