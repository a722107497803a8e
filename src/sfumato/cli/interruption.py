"""Ctrl-C: the command stops within a second, leaves nothing half-written and says what it kept.

Python raises `KeyboardInterrupt` between two of its own instructions, and a compiled kernel or a
large write may take minutes. So a thread hears of the signal at once. If the command has not
stopped by itself soon after, the thread removes what is half-written and ends the process.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread, current_thread, main_thread

from sfumato.cli.console import err, say
from sfumato.io.atomic import FileLog

INTERRUPTED = 130
_PATIENCE_SECONDS = 0.5


class Interrupted(BaseException):
    """A command was interrupted. typer, which knows Ctrl-C only, lets this pass."""


@contextmanager
def stop_promptly(log: FileLog) -> Iterator[None]:
    """End the process if it does not stop by itself soon after a signal.

    Parameters
    ----------
    log : what is being written, to be removed, and what is complete.
    """
    if current_thread() is not main_thread():  # only the main thread hears of signals
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    stopped = Event()
    watch = Thread(target=_wait_for_signal, args=(reader, stopped, log), daemon=True)
    watch.start()
    try:
        yield
    finally:
        stopped.set()
        signal.set_wakeup_fd(before)
        os.write(writer, b"\0")  # ends the thread, if no signal came
        watch.join()
        os.close(writer)
        os.close(reader)


def _wait_for_signal(reader: int, stopped: Event, log: FileLog) -> None:
    if os.read(reader, 1) != b"\0" and not stopped.wait(_PATIENCE_SECONDS):
        log.remove_incomplete()
        err.show_cursor(show=True)  # the progress bar hides it
        say(describe_interruption(log))
        os._exit(INTERRUPTED)


def describe_interruption(log: FileLog) -> str:
    """What is there now that a command was interrupted.

    Examples
    --------
    >>> describe_interruption(FileLog())
    'Interrupted. Nothing was written.'
    """
    kept = log.list_complete()
    if not kept:
        return "Interrupted. Nothing was written."
    paths = ", ".join(f"'{path}'" for path in kept)
    return f"Interrupted. Complete, and kept: {paths}. Nothing was left half-written."
