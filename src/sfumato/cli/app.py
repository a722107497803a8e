"""The application: its commands, its exit codes, and what happens when something goes wrong.

Exit codes: 0 done, 1 a bug in Sfumato, 2 the input or the plan cannot be used, 3 a target was
missed or a house rule broken and nothing is released, 4 a release is not what it says or cannot
be written, 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated

import typer

from sfumato import __version__
from sfumato.cli import (
    calibrate,
    catalogue,
    demo,
    fit,
    look,
    outputs,
    plot,
    recommend,
    release,
    replicate,
    report,
    sweep,
    table,
    tune,
)
from sfumato.cli.console import out, say, show_error, told_warnings
from sfumato.errors import SfumatoError

app = typer.Typer(
    name="sfumato",
    help="Share sensitive microdata without giving anyone away: blur the person, keep the picture.",
    epilog="Start here: sfumato inspect FILE --plan plan.toml",
    no_args_is_help=True,
    # A traceback with local variables would print cells of the data.
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for group in (
    look, recommend, calibrate, tune, release, report, fit, sweep, plot, table, outputs,
    catalogue, replicate, demo,
):  # fmt: skip
    group.register(app)


def _version(asked: bool) -> None:
    if asked:
        out.print(f"sfumato {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Share sensitive microdata without giving anyone away: blur the person, keep the picture."""
    del version


def run() -> None:
    """Run the command line and leave with a stable exit code."""
    as_json = "--json" in sys.argv
    for told_to_stop in (signal.SIGTERM, signal.SIGHUP):
        # As with Ctrl-C, what is half done is cleaned up.
        signal.signal(told_to_stop, signal.default_int_handler)
    try:
        with told_warnings():
            app()
    except SfumatoError as error:
        show_error(error, as_json=as_json)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        say("Interrupted. Nothing was half-written.")
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away, as `| head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if os.environ.get("SFUMATO_DEBUG"):
            raise
        # The text of a foreign error may quote the data, so only its type is shown.
        say(f"Error: something unforeseen happened ({type(error).__name__}). Nothing was written.")
        say("Hint: set SFUMATO_DEBUG=1 to see where. Mind that this may show values of the data.")
        sys.exit(1)
