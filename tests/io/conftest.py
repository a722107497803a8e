"""A PostgreSQL server of our own, for the tests that need one."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sfumato.io import SourceTable, read_table


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., SourceTable]:
    """Read a text table given by its content."""

    def reading(content: str | bytes, name: str = "data.csv", **options: Any) -> SourceTable:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_table(path, **options)

    return reading


def _tool(name: str) -> str | None:
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    path = os.pathsep.join([*map(str, homes), os.environ.get("PATH", "")])
    return shutil.which(name, path=path)


def _unavailable(reason: str) -> None:
    if os.environ.get("SFUMATO_NOTHING_SKIPPED"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a fresh server that listens on a socket in a private folder only."""
    initdb, control = _tool("initdb"), _tool("pg_ctl")
    if not initdb or not control:
        _unavailable("no PostgreSQL server is installed")
        return
    folder = Path(tempfile.mkdtemp(prefix="sfumato-pg-"))
    # The server refuses to run as root
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if as_user:
        shutil.chown(folder, "postgres")
    data, log = folder / "data", folder / "log"
    settings = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
    base = [*as_user, control, "-D", str(data), "-l", str(log), "-w"]
    try:
        create = [*as_user, initdb, "-D", str(data), "-U", "tester", "-A", "trust", "-E", "UTF8"]
        made = subprocess.run([*create, "--locale=C"], check=False, capture_output=True, cwd="/")
        if made.returncode == 0:
            # No pipes: the server would inherit them and keep the test waiting
            begun = subprocess.run(
                [*base, "-o", settings, "start"],
                check=False,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
            )
        if made.returncode or begun.returncode:
            _unavailable("the PostgreSQL server does not start")
            return
        yield f"postgresql://tester:s3cret@/postgres?host={folder}"
        subprocess.run(
            [*base, "-m", "immediate", "stop"], check=False, capture_output=True, cwd="/"
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
