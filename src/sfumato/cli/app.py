"""The application: its commands, its exit codes, and what happens when something goes wrong.

Exit codes: 0 done, 1 a bug in Sfumato, 2 the input or the plan cannot be used, 3 a target was
missed or a house rule broken and nothing is released, 4 a release is not what it says or cannot
be written, 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sfumato import __version__
from sfumato.cli.console import out, say, show_error, show_warnings
from sfumato.errors import DataError, SfumatoError

# Which module of this folder holds a command. It is imported when the command is run, or its
# help is shown: `sfumato --version` need not wait for the libraries of all the others.
COMMANDS = {
    "inspect": "look",
    "assess": "look",
    "recommend": "recommend",
    "calibrate": "calibrate",
    "tune": "tune",
    "protect": "release",
    "evaluate": "release",
    "verify": "release",
    "keygen": "sign",
    "sign": "sign",
    "ledger": "ledger",
    "report": "report",
    "explore": "explore",
    "fit": "fit",
    "sweep": "sweep",
    "compare": "compare",
    "plot": "plot",
    "gallery": "gallery",
    "table": "table",
    "outputs": "outputs",
    "site": "sites",
    "combine": "sites",
    "methods": "catalogue",
    "measures": "catalogue",
    "replicate": "replicate",
    "demo": "demo",
}


class LazyCommands(TyperGroup):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, in the order of a first use."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; None where there is none."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        if cmd_name not in self.commands:
            module = typer.Typer(callback=lambda: None)
            import_module(f"sfumato.cli.{COMMANDS[cmd_name]}").register(module)
            group = typer.main.get_group(module)
            self.commands.update(group.commands)
        return self.commands[cmd_name]


app = typer.Typer(
    name="sfumato",
    cls=LazyCommands,
    help="Share sensitive microdata without giving anyone away: blur the person, keep the picture.",
    epilog="Start here: sfumato inspect FILE --plan plan.toml",
    no_args_is_help=True,
    # A traceback with local variables would print cells of the data.
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        out.print(f"sfumato {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Share sensitive microdata without giving anyone away: blur the person, keep the picture."""
    del version


def run() -> None:
    """Run the command line and leave with a stable exit code."""
    as_json = "--json" in sys.argv
    for stop_signal in (signal.SIGTERM, signal.SIGHUP):
        # As with Ctrl-C, what is half done is cleaned up.
        signal.signal(stop_signal, signal.default_int_handler)
    try:
        with show_warnings():
            app()
    except SfumatoError as error:
        show_error(error, as_json=as_json)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        say("Interrupted. No file was left half-written.")
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away, as `| head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        if os.environ.get("SFUMATO_DEBUG"):
            raise
        # The system's word for it quotes no cell, and no name of a file.
        refused = DataError(
            f"A file could not be read or written: {error.strerror or 'the disk failed'}. "
            "None was left half-written.",
            hint="is there enough space, and are you allowed to read and write there?",
        )
        show_error(refused, as_json=as_json)
        sys.exit(refused.exit_code)
    except Exception as error:
        if os.environ.get("SFUMATO_DEBUG"):
            raise
        # The text of a foreign error may quote the data, so only its type is shown.
        say(f"Error: something unexpected happened ({type(error).__name__}). Nothing was written.")
        say("Hint: set SFUMATO_DEBUG=1 to see where. Note that this may show values of the data.")
        sys.exit(1)
