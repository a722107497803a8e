"""A PostgreSQL server of our own, for the tests that need one."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _find_tool(name: str) -> str | None:
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    path = os.pathsep.join([*map(str, homes), os.environ.get("PATH", "")])
    return shutil.which(name, path=path)


def _skip(reason: str) -> None:
    if os.environ.get("SFUMATO_NOTHING_SKIPPED"):
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def start_postgres(password: str = "") -> Iterator[str]:
    """The address of a fresh server that listens on a socket in a private folder only.

    With a password the server asks for it, and the address does not have it.
    """
    initdb, control = _find_tool("initdb"), _find_tool("pg_ctl")
    if not initdb or not control:
        _skip("no PostgreSQL server is installed")
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
        (folder / "password").write_text(password)
        check = ["-A", "scram-sha-256", f"--pwfile={folder / 'password'}"] if password else [
            "-A", "trust"]  # fmt: skip
        create = [*as_user, initdb, "-D", str(data), "-U", "tester", *check, "-E", "UTF8"]
        created = subprocess.run([*create, "--locale=C"], check=False, capture_output=True, cwd="/")
        if created.returncode == 0:
            # No pipes: the server would inherit them and keep the test waiting
            started = subprocess.run(
                [*base, "-o", settings, "start"],
                check=False,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
            )
        if created.returncode or started.returncode:
            _skip("the PostgreSQL server does not start")
            return
        login = "tester" if password else "tester:s3cret"
        yield f"postgresql://{login}@/postgres?host={folder}"
        subprocess.run(
            [*base, "-m", "immediate", "stop"], check=False, capture_output=True, cwd="/"
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
