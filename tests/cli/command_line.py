"""A whole command within this process: its streams, its exit codes, its width."""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
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


@dataclass(frozen=True)
class Demo:
    """A demo that was run: its folder, and what it printed at a terminal."""

    folder: Path
    done: Done

    def copy(self, target: Path) -> Done:
        """As if it had just been run here."""
        shutil.copytree(self.folder, target)
        return self.done


def run_demo(place: Path) -> Demo:
    """Run the demo in this place, or take what another process has left of it there."""
    place.mkdir(exist_ok=True)
    told = place / "told.json"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.exists():
            done = sfumato("demo", "--out", "demo", cwd=place, width=TERMINAL, joined=True)
            assert done.returncode == 0, done.stdout
            told.write_text(json.dumps(asdict(done)), "utf-8")
    return Demo(place / "demo", Done(**json.loads(told.read_text("utf-8"))))
