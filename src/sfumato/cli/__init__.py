"""The command line: thin readers of the same few types. Data to stdout, messages to stderr."""

from __future__ import annotations


def main() -> None:
    """Run `sfumato`."""
    from sfumato.cli.app import run

    run()
