"""The application: its commands, its exit codes, and what happens when something goes wrong.

Exit codes: 0 done, 1 a bug in Sfumato, 2 the input or the plan cannot be used, 3 a target was
missed or a house rule broken and nothing is released, 4 a release is not what it says or cannot
be written, 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sfumato import __version__
from sfumato.cli.console import out, say, show_error, show_warnings
from sfumato.cli.interruption import (
    INTERRUPTED,
    Interrupted,
    describe_interruption,
    stop_promptly,
)
from sfumato.errors import DataError, PlanError, SfumatoError, did_you_mean
from sfumato.io.atomic import FileLog, log_files

# By what one wants to do, each command with the module of this folder that holds it, and a line
# about it. A module is imported when its command is run, or its help is shown: `sfumato --help`
# need not wait for the libraries of all of them.
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Look": {
        "demo": ("demo", "Do the whole job once, with invented data."),
        "studio": ("studio", "Do the whole job in a browser on this machine."),
        "inspect": ("look", "Suggest roles and kinds of variables, write a first plan."),
        "assess": ("look", "Say who could be singled out in the unprotected data."),
        "who": ("who", "List each record's risk, and its cause. Do not pass it on."),
        "recommend": ("recommend", "Show which variables give secrets away, and what helps."),
        "hierarchy": ("hierarchy", "Make the groups of a variable, or check them."),
        "profiles": ("profiles", "List the rules that a release can meet, or explain one."),
        "methods": ("catalogue", "List the methods that protect, or explain one of them."),
        "measures": ("catalogue", "List the measures of risk and utility, or explain one."),
    },
    "Protect": {
        "protect": ("release", "Carry out a plan and write the release if it is safe."),
        "release": ("release", "Make a draft final, and enter it into the ledger."),
        "tune": ("tune", "Search for the plan that meets the targets and loses least."),
        "calibrate": ("calibrate", "Find the least noise that misleads an attacker enough."),
        "compare": ("compare", "Show what several plans protect and cost, side by side."),
        "sweep": ("sweep", "Run a plan over values of its parameters."),
    },
    "Check": {
        "evaluate": ("release", "Measure a release, and compare it with the original."),
        "verify": ("release", "Check the files of a release, measure its targets again."),
        "report": ("report", "Write the report of a release again."),
        "ledger": ("ledger", "List the releases that were written from here."),
    },
    "Analyse": {
        "explore": ("explore", "Look at noised data with the noise taken out."),
        "fit": ("fit", "Fit a model to noised data, with the noise taken out."),
        "site": ("sites", "Answer a request of several sites."),
        "combine": ("sites", "Combine the answers of several sites."),
    },
    "Publish": {
        "plot": ("plot", "Draw a figure that may be released."),
        "table": ("table", "Make a table that may be released."),
        "gallery": ("gallery", "Draw every plot in every protection, to choose from."),
        "outputs": ("outputs", "List every figure and table that was made."),
        "keygen": ("sign", "Make a pair of keys to sign releases with."),
        "sign": ("sign", "Sign a release, or countersign it."),
    },
}
MODULES = {name: module for commands in GROUPS.values() for name, (module, _) in commands.items()}


class LazyCommands(TyperGroup):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, in the order of the groups."""
        del ctx
        return list(MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; None where there is none."""
        if cmd_name not in MODULES:
            return super().get_command(ctx, cmd_name)
        if cmd_name not in self.commands:
            # Plain help is half as long as typer's boxes, and breaks no word at 80 columns.
            module = typer.Typer(callback=lambda: None, rich_markup_mode=None)
            import_module(f"sfumato.cli.{MODULES[cmd_name]}").register(module)
            for name, command in typer.main.get_group(module).commands.items():
                _name_values(command)
                self.commands[name] = command
        return self.commands[cmd_name]

    def invoke(self, ctx: Any) -> Any:
        """Run the command; typer would end quietly on Ctrl-C, without a word on what was kept."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise Interrupted from error

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was typed; a mistyped one is answered with the nearest name."""
        name = args[0]
        if name not in MODULES and not name.startswith("-") and not ctx.resilient_parsing:
            raise PlanError(f"There is no command '{name}'.", hint=did_you_mean(name, MODULES))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands by what one wants to do; none of them is imported for it."""
        del ctx
        for group, commands in GROUPS.items():
            with formatter.section(group):
                width = max(map(len, MODULES))
                rows = [(name.ljust(width), line) for name, (_, line) in commands.items()]
                formatter.write_dl(rows)


def _name_values(command: Any) -> None:
    """Call arguments what the help texts call them, and what may be repeated a value."""
    for parameter in command.params:
        if parameter.metavar is not None:
            continue
        if parameter.param_type_name == "argument":
            parameter.metavar = parameter.name.upper()
        elif parameter.multiple:
            parameter.metavar = "<value>"
    for subcommand in getattr(command, "commands", {}).values():
        _name_values(subcommand)


app = typer.Typer(
    name="sfumato",
    cls=LazyCommands,
    help="Share sensitive microdata without giving anyone away: blur the person, keep the picture.",
    epilog="Start here: sfumato inspect FILE --plan plan.toml",
    no_args_is_help=True,
    # A traceback with local variables would print cells of the data.
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
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


def run(command: Callable[[], object] = app) -> None:
    """Run a command, else the whole command line, and leave with a stable exit code."""
    as_json = "--json" in sys.argv
    for stop_signal in (signal.SIGTERM, signal.SIGHUP):
        # As with Ctrl-C, what is half done is cleaned up.
        signal.signal(stop_signal, signal.default_int_handler)
    log = FileLog()
    try:
        with show_warnings(), log_files(log), stop_promptly(log):
            command()
    except SfumatoError as error:
        show_error(error, as_json=as_json)
        sys.exit(error.exit_code)
    except (Interrupted, KeyboardInterrupt):
        say(describe_interruption(log))
        sys.exit(INTERRUPTED)
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
