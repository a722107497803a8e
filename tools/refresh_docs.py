"""Run the examples of the docs again: put what they print below each command, redraw pictures.

    .venv/bin/python -m tools.refresh_docs docs/tutorial.md …

Outputs that are shortened by a line of three dots are left alone. Read the changes before you
commit them: a number that moved has a reason.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.docs.blocks import (
    Block,
    Session,
    announced,
    as_shown,
    blocks,
    commands,
    downloads,
    shown_below,
)

import sfumato as sf


def refreshed(page: Path) -> str:
    """The text of a page with fresh outputs."""
    lines = page.read_text("utf-8").splitlines()
    text = "\n".join(lines) + "\n"
    session = Session()
    for block in blocks(page):
        if block.language == "python":
            fresh = _commented(block, session.python(block, page).splitlines())
            text = text.replace("\n".join(block.lines), "\n".join(fresh))
        elif block.language == "toml" and block.title:
            Path(block.title).write_text(block.text, "utf-8")
        elif block.language == "console":
            fresh = list(block.lines)
            for command in commands(block):
                code, printed = session.console(command)
                if code != command.exit_code:
                    sys.exit(f"{page}: {command.line} left with {code}\n{printed}")
                if command.shown and "..." not in command.shown:
                    at = next(i for i, line in enumerate(fresh) if line == command.shown[0])
                    fresh[at : at + len(command.shown)] = as_shown(printed)
            text = text.replace("\n".join(block.lines), "\n".join(fresh))
    return text


def _commented(block: Block, printed: list[str]) -> list[str]:
    """The block with what its prints print in the comments behind them or below the last."""
    said = announced(block)
    if said != shown_below(block):
        return _replace_below(block, printed)
    if len(said) != len(printed):
        return list(block.lines)
    fresh = list(block.lines)
    for old, new in zip(said, printed, strict=True):
        at = next(i for i, line in enumerate(fresh) if line.endswith(f")  # {old}"))
        fresh[at] = fresh[at].removesuffix(old) + new
    return fresh


def _replace_below(block: Block, printed: list[str]) -> list[str]:
    """The block with fresh comments at its end, if all that it prints is shown there."""
    last = len(block.lines)
    while block.lines[last - 1].startswith("# "):
        last -= 1
    shown = [line.removeprefix("# ") for line in block.lines[last:]]
    if shown != shown_below(block) or not printed:
        return list(block.lines)
    return [*block.lines[:last], *(f"# {line}" for line in as_shown("\n".join(printed)))]


def main() -> None:
    """Refresh the pages named on the command line."""
    for name in sys.argv[1:]:
        page = Path(name).absolute()
        here = Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            sf.datasets.cohort(500).write_csv("cohort.csv")
            for file in downloads(page):
                shutil.copy(Path(os.environ["SFUMATO_DATA"]) / file, file)
            text = refreshed(page)
            os.chdir(here)
            for picture in (here / "docs/assets").glob("*.svg"):
                if (Path(folder) / picture.name).exists():
                    shutil.copy(Path(folder) / picture.name, picture)
        page.write_text(text, "utf-8")
        print(f"refreshed {name}")


if __name__ == "__main__":
    main()
