"""The examples of the docs: found in the Markdown, run in order, held against what is shown.

A page runs in one folder and one Python namespace, from top to bottom:

- ```python blocks are executed; the comment behind a statement that prints, and those in the lines
  directly below it, are what it prints;
- ```console lines that start with `$ sfumato` go through the command line, those that start with
  `$ cp` and the like through the system, and `$ make demo` is the command it stands for; in
  ```{ .console exit=3 } the last command leaves with 3;
- a ```toml block with a title is written to the file of that name.
"""

from __future__ import annotations

import ast
import io
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.command_line import TERMINAL, Demo, sfumato

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[a-z{].*)$")
_PRINT = re.compile(r"\s*print\(.*\)  # ")
_SAME = {"make demo": "sfumato demo --out demo"}
_SYSTEM = ("cat", "cp", "echo", "ls", "mkdir", "mv", "rm")
_STEPS = re.compile(
    r"(reading|looking at the variables|protecting.*|measuring.*|writing|checking.*|drawing|"
    r"sweeping|comparing|inventing a cohort|recommending.*|combinations|trying noise|"
    r"looking for the nearest|counting nearer records|fitting.*)$"
)


@dataclass(frozen=True)
class Block:
    """One fenced block: where it begins, its info string, its lines without the indent."""

    line: int
    info: str
    lines: tuple[str, ...]

    @property
    def language(self) -> str:
        return re.split(r"[\s.{]+", self.info.strip("{ ."))[0]

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    @property
    def title(self) -> str | None:
        found = re.search(r'title="([^"]+)"', self.info)
        return found[1] if found else None

    @property
    def exit_code(self) -> int:
        found = re.search(r"exit=(\d+)", self.info)
        return int(found[1]) if found else 0


@dataclass(frozen=True)
class Command:
    """One command of a console block and the output shown below it."""

    line: str
    shown: tuple[str, ...]
    exit_code: int


def blocks(page: Path) -> Iterator[Block]:
    """All fenced blocks of a page that name a language."""
    lines = page.read_text("utf-8").splitlines()
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence:
            indent, start = fence["indent"], at + 1
            at = start
            while lines[at].strip() != "```":
                at += 1
            inside = tuple(line.removeprefix(indent) for line in lines[start:at])
            yield Block(start, fence["info"], inside)
        at += 1


def downloads(page: Path) -> list[str]:
    """The public files that the page works on, which the reader downloads."""
    texts = [block.text for block in blocks(page)]
    return [name for name in ("adult.csv", "titanic.csv") if any(name in one for one in texts)]


def commands(block: Block) -> list[Command]:
    """The commands of a console block. A backslash continues a command on the next line."""
    found: list[tuple[str, list[str]]] = []
    joined = block.text.replace("\\\n", " ").splitlines()
    for line in joined:
        if line.startswith("$ "):
            found.append((_SAME.get(line[2:], line[2:]), []))
        elif found and line.strip():
            found[-1][1].append(line)
    codes = [0] * (len(found) - 1) + [block.exit_code]
    return [
        Command(line, tuple(shown), code)
        for (line, shown), code in zip(found, codes, strict=True)
        if line.split()[0] in ("sfumato", *_SYSTEM)
    ]


def announced(block: Block) -> list[str]:
    """What the comments behind `print(…)` say will be printed."""
    return [line.rpartition("  # ")[2] for line in block.lines if _PRINT.match(line)]


def shown_below(block: Block) -> list[str]:
    """What the comments behind and below the statements that print say will be printed."""
    shown: list[str] = []
    for statement in ast.parse(block.text).body:
        if "print(" not in ast.unparse(statement):
            continue
        last = statement.end_lineno or 0
        inside = block.lines[statement.lineno - 1 : last]
        shown += [line.rpartition("  # ")[2] for line in inside if "  # " in line]
        for line in block.lines[last:]:
            if not line.startswith("# "):
                break
            shown.append(line.removeprefix("# "))
    return shown


@dataclass
class Session:
    """A folder and a namespace in which the blocks of one page run."""

    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "docs"})
    take_demo: Callable[[], Demo] | None = None
    """Where the demo has been run already, which takes half a minute."""

    def python(self, block: Block, page: Path) -> str:
        """Run a block; an error names the page and the line."""
        code = "\n" * block.line + block.text
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), self.names)  # noqa: S102 - our own examples
        return printed.getvalue()

    def console(self, command: Command) -> tuple[int, str]:
        """Run a command; its exit code and all it printed."""
        words = shlex.split(command.line)
        if words[0] == "sfumato":
            if self.take_demo and words[1:] == ["demo", "--out", "demo"]:
                left = self.take_demo().copy(Path("demo"))
            else:
                left = sfumato(*words[1:], width=TERMINAL, joined=True)
            return left.returncode, left.stdout
        done = subprocess.run(  # noqa: S602 - our own examples
            command.line, shell=True, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr


def as_shown(printed: str) -> list[str]:
    """What a person sees at a terminal: without the steps, which a progress bar wipes away."""
    lines = [line.rstrip() for line in printed.splitlines()]
    return [line for line in lines if line and not _STEPS.match(line)]


def missing_lines(shown: tuple[str, ...], printed: str) -> list[str]:
    """The shown lines that were not printed, in order. `…` stands for words, `...` for lines.

    Words are compared and not lines: where a line breaks depends on the width of the terminal.
    """
    words, at = _words(printed), 0
    gone: list[str] = []
    for line in shown:
        end: int | None = at
        # What is printed may have `…` itself.
        literal = _end(_words(line), words, at)
        for part in () if literal or line.strip() == "..." else line.split("…"):
            end = None if end is None else _end(_words(part), words, end)
        end = literal or end
        if end is None:
            gone.append(line)
        else:
            at = end
    return gone


def _end(wanted: list[str], words: list[str], start: int) -> int | None:
    """Where the wanted words end that first stand together from here on."""
    size = len(wanted)
    for at in range(start, len(words) - size + 1):
        if words[at : at + size] == wanted:
            return at + size
    return None


def _words(text: str) -> list[str]:
    """The words of a text without what draws a table."""
    return re.sub(r"[┏┓┗┛┡┩┢┪└┘┌┐├┤┬┴┼╇╈┳┻━─│┃]", " ", text).split()
