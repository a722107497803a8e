"""Every example of every method by name, for tests on other engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from sfumato import catalogue
from sfumato.method import Method

CASES = [
    pytest.param(name, example, id=f"{name}-{position}")
    for name, method in catalogue.methods().items()
    for position, example in enumerate(method.examples)
]


def made(name: str, example: Mapping[str, Any]) -> Method:
    return catalogue.methods()[name](**example)
