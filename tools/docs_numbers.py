"""Run the slow commands behind the numbers of the docs again, and compare.

    make docs-numbers                                    # all of them: hours
    .venv/bin/python -m tools.docs_numbers --list        # what there is, with day and commit
    .venv/bin/python -m tools.docs_numbers --only bench_national --stamp

Every passage with a comment `measured:` or `timed:` (the rule is in `tests/docs/numbers.py`) names
its command. A command runs once, however many passages rest on it. Numbers of a measured passage
that the output no longer contains are listed, and the exit code is 1. `--stamp` writes the day and
the commit of this run into the comments of the passages whose numbers are all there.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.docs.blocks import PAGES, ROOT, blocks
from tests.docs.numbers import Passage, files_named, passages, stamp, unsupported


def slow_passages() -> dict[str, list[tuple[Path, Passage, str, bool]]]:
    """By command: page, passage, comment, and whether its numbers are compared."""
    by_command: dict[str, list[tuple[Path, Passage, str, bool]]] = defaultdict(list)
    for page in PAGES:
        for passage in passages(page):
            for kind in ("measured", "timed"):
                for note in passage.evidence_of(kind):
                    comment = f"<!-- {kind}: {note} -->"
                    by_command[stamp(note)[2]].append((page, passage, comment, kind == "measured"))
    return dict(by_command)


def run(command: str) -> str:
    """What a command prints."""
    words = shlex.split(os.path.expandvars(command))
    if words[0] == "python":
        words[0] = sys.executable
    elif words[0] in ("pytest", "sfumato"):
        words[0] = str(Path(sys.executable).parent / words[0])
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(f"{command} left with {done.returncode}\n{done.stderr}")
    return done.stdout


def renew_stamp(page: Path, comment: str) -> None:
    """Write today and this commit into a comment."""
    git = ["git", "rev-parse", "--short=7", "HEAD"]
    commit = subprocess.check_output(git, cwd=ROOT, text=True).strip()  # noqa: S603
    today = dt.datetime.now(tz=dt.UTC).date()
    kind, _, rest = comment.removeprefix("<!-- ").partition(": ")
    day, old, _ = stamp(rest.removesuffix(" -->"))
    fresh = f"<!-- {kind}: {rest.replace(f'{day} {old}', f'{today} {commit}', 1)}"
    page.write_text(page.read_text("utf-8").replace(comment, fresh), "utf-8")


def main() -> None:
    """Run, compare, report."""
    parser = argparse.ArgumentParser(description="Check the slow numbers of the docs.")
    parser.add_argument("--only", default="", help="commands that contain this")
    parser.add_argument("--list", action="store_true", help="run nothing")
    parser.add_argument("--stamp", action="store_true", help="write day and commit into the pages")
    given = parser.parse_args()
    stale = False
    for command, rows in sorted(slow_passages().items()):
        if given.only not in command:
            continue
        print(f"$ {command}", flush=True)
        printed = "" if given.list else run(command)
        if printed:
            print(printed, flush=True)
        for page, passage, comment, is_compared in rows:
            where = f"{page.relative_to(ROOT)}:{passage.line}"
            if given.list:
                print(f"  {where} {comment}")
                continue
            shown = [block.text for block in blocks(page)]
            gone = unsupported(passage, [printed, *shown, *files_named(passage)])
            print(f"  {where}: {f'not printed: {gone}' if gone else 'all printed'}", flush=True)
            is_published = bool(passage.evidence_of("published"))
            if is_compared and gone and not is_published:
                stale = True
            elif given.stamp:
                renew_stamp(page, comment)
    sys.exit(int(stale))


if __name__ == "__main__":
    main()
