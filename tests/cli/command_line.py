"""A whole command within this process: its streams, its exit codes, its width."""

from __future__ import annotations

import atexit
import io
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from unittest import mock

WIDE = 160
TERMINAL = 80
"""The width of the terminal that the docs show."""


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


def sfumato(
    *words: object, cwd: Path | None = None, width: int = WIDE, joined: bool = False
) -> Done:
    """Run `sfumato`."""
    from sfumato.cli import app

    argv = ["sfumato", *map(str, words)]
    return run_command(app.run, argv, cwd=cwd, width=width, joined=joined)


def run_command(
    command: Callable[[], None],
    argv: list[str],
    *,
    cwd: Path | None = None,
    width: int = WIDE,
    joined: bool = False,
) -> Done:
    """Run a command as a process would, without the time that a process takes to start.

    `joined`: both streams in `stdout`, in the order in which a terminal shows them.
    """
    from sfumato.cli import console

    out = io.StringIO()
    err = out if joined else io.StringIO()
    consoles = [(one, one._width, one._height) for one in (console.out, console.err)]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        for one, _, _ in consoles:
            one._width, one._height = width, 25
        with (
            chdir(cwd or Path.cwd()),
            mock.patch.object(sys, "argv", argv),
            mock.patch.dict(os.environ, {"NO_COLOR": "1"}),
            redirect_stdout(out),
            redirect_stderr(err),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("always")
            command()
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 0 if left.code is None else 1
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for one, old_width, height in consoles:
            one._width, one._height = old_width, height
    return Done(code, out.getvalue(), "" if joined else err.getvalue())


@cache
def run_demo() -> tuple[Path, Done]:
    """The demo's folder and what it printed: run once, since it takes half a minute."""
    folder = Path(mkdtemp(prefix="sfumato-demo-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder / "demo", sfumato(
        "demo", "--out", "demo", cwd=folder, width=TERMINAL, joined=True
    )


def copy_demo(target: Path) -> Done:
    """As if the demo had just been run here."""
    folder, done = run_demo()
    if done.returncode == 0:
        shutil.copytree(folder, target)
    return done
