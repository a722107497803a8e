"""Waiting for what happens in another process, with one limit for all tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")
PATIENCE = 600.0
"""Seconds that anything is waited for: a busy machine keeps them, and what hangs still ends."""


def wait_until(happened: Callable[[], T], what: str, *, every: float = 0.1) -> T:
    """What a function returns once that is something; the test fails with what was waited for."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if result := happened():
            return result
        time.sleep(every)
    pytest.fail(f"waited {PATIENCE:.0f} s for: {what}")
