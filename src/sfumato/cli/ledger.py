"""The ledger of releases: list it, look at one, or say that one does not count."""

from __future__ import annotations

from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.cli.console import format_number, say, show_json, show_table
from sfumato.storage.ledger import Ledger

Number = Annotated[int, typer.Argument(help="The number of the release in the ledger.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help="List the releases that were written from here.",
    )
    group.command("list", epilog="Example: sfumato ledger list")(list_entries)
    group.command("show", epilog="Example: sfumato ledger show 1")(show_entry)
    group.command("forget", epilog='Example: sfumato ledger forget 1 --reason "never passed on"')(
        forget_entry
    )
    app.add_typer(group, name="ledger")


def list_entries(ledger: options.LedgerFolder = None, json: options.Json = False) -> None:
    """List every release, and whether it counts together with the next one."""
    book = Ledger(ledger)
    entries = book.read()
    if json:
        show_json({"ledger": str(book.folder), "releases": [entry.summary() for entry in entries]})
        return
    if not entries:
        say(f"There is no release in the ledger '{book.folder}'.")
        return
    show_table(
        f"Releases in the ledger {book.folder}",
        ["no.", "written", "folder", "steps", ""],
        [
            (
                entry.number,
                entry.created.partition("T")[0],
                entry.folder,
                ", ".join(str(step["method"]) for step in entry.methods),
                entry.state,
            )
            for entry in entries
        ],
    )


def show_entry(
    number: Number, ledger: options.LedgerFolder = None, json: options.Json = False
) -> None:
    """Show what the ledger knows about one release."""
    entry = Ledger(ledger).get(number)
    if json:
        show_json(entry.summary())
        return
    rows = [(name, format_number(value)) for name, value in entry.summary().items()]
    show_table(f"Release {number} of the ledger", ["", ""], rows)


def forget_entry(
    number: Number,
    reason: Annotated[str, typer.Option(help="Why it does not count, such as 'never passed on'.")],
    ledger: options.LedgerFolder = None,
    json: options.Json = False,
) -> None:
    """Stop counting a release, for a reason. Only do this if nobody has received it."""
    book = Ledger(ledger)
    with book.lock():
        entry = book.forget(number, reason)
    if json:
        show_json(entry.summary())
    else:
        say(f"Release {number} no longer counts: {entry.folder}")
