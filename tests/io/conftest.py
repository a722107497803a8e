"""What the tests of reading and writing share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.postgres_server import start_postgres

from sfumato.io import SourceTable, read_table


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., SourceTable]:
    """Read a text table given by its content."""

    def reading(content: str | bytes, name: str = "data.csv", **options: Any) -> SourceTable:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_table(path, **options)

    return reading


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a fresh server that listens on a socket in a private folder only."""
    with start_postgres() as address:
        yield address
