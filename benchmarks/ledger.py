"""The ledger of speed: what each row cost beside its baseline, run after run.

`ledger.toml` is only ever added to. `docs/evidence/speed.md` is made from it:
`python -m benchmarks.ledger`.
"""

from __future__ import annotations

import datetime as dt
import subprocess
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import tomlkit

from benchmarks.rows import Comparison, Row, run

LEDGER = Path(__file__).with_name("ledger.toml")
PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "speed.md"
WORSE = 1.3
"""A row fails when its ratio is so many times the best that the ledger knows."""
TRIES = 3
"""On a busy machine a single run says little, so a row that seems slower is run again."""
_GROUPS = {
    "journey": "Whole journeys",
    "start": "From the command to the first answer",
    "kernel": "Methods, measures and figures",
}
_HEAD = """<!-- in: benchmarks/ledger.toml benchmarks/ledger.py -->

# How fast it is, and whether it got slower

Each row does one piece of work twice in the same run: with Sfumato, and with a named **baseline**
that people know, such as polars reading and writing the same file. What counts is the **ratio** of
their processor seconds: it depends far less on the machine than seconds do. A small ratio is good.
*Goal* is the ratio that we want at most. *Peak* is the memory that ours took on top of what was
there before, in MB.

```text
make bench          # all rows: hours
make bench-check    # the quick rows, against the best that the ledger knows
```

`make bench-check` fails when a quick row is more than 1.3 times slower than its best. This page is
made from `benchmarks/ledger.toml`, which also holds every earlier run.
"""


@dataclass(frozen=True)
class Entry:
    """One run of one row."""

    row: str
    group: str
    baseline: str
    ratio: float
    ours: float
    theirs: float
    peak: float
    commit: str
    date: str
    goal: float | None = None


def read(path: Path = LEDGER) -> list[Entry]:
    """All entries, the oldest first."""
    if not path.exists():
        return []
    return [Entry(**one) for one in tomllib.loads(path.read_text())["run"]]


def add(comparisons: Iterable[tuple[str, Comparison]], path: Path = LEDGER) -> None:
    """Write what was measured just now at the end."""
    head = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    with path.open("a") as file:
        for group, one in comparisons:
            entry = Entry(
                row=one.row.name,
                group=group,
                baseline=one.row.baseline,
                ratio=_round(one.ratio),
                ours=_round(one.ours.cpu),
                theirs=_round(one.theirs.cpu),
                peak=round(one.ours.peak),
                commit=commit,
                date=today,
                goal=one.row.goal,
            )
            told = {key: value for key, value in asdict(entry).items() if value is not None}
            file.write(f"[[run]]\n{tomlkit.dumps(told)}\n")


def _round(number: float) -> float:
    return float(f"{number:.3g}")


def find_best(entries: Sequence[Entry]) -> dict[str, float]:
    """The smallest ratio of each row."""
    best: dict[str, float] = {}
    for entry in entries:
        best[entry.row] = min(entry.ratio, best.get(entry.row, entry.ratio))
    return best


def check(row: Row, best: float | None) -> str | None:
    """What is wrong with a row: slower than its best by too much, or unknown to the ledger."""
    if best is None:
        return f"{row.name}: not in the ledger; make bench adds it"
    ratios = []
    for _ in range(TRIES):
        ratios.append(run(row).ratio)
        if min(ratios) <= WORSE * best:
            print(f"{row.name:<62} {min(ratios):>8.3g}  best {best:g}", flush=True)
            return None
    return f"{row.name}: {min(ratios):.3g} times the baseline; the best was {best:g}"


def write_page(entries: Sequence[Entry]) -> str:
    """The page of the docs: the last run of every row beside its first and its best."""
    lines = [_HEAD]
    best = find_best(entries)
    for group, title in _GROUPS.items():
        of_group = [entry for entry in entries if entry.group == group]
        if not of_group:
            continue
        lines += [
            f"## {title}\n",
            "| Row | Baseline | First | Best | Last | Goal | CPU s | Peak | Run |",
            "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
        ]
        for name in dict.fromkeys(entry.row for entry in of_group):
            runs = [entry for entry in of_group if entry.row == name]
            first, last = runs[0], runs[-1]
            goal = "" if last.goal is None else f"{last.goal:g}"
            lines.append(
                f"| {name} | {last.baseline} | {first.ratio:g} | {best[name]:g} | {last.ratio:g} "
                f"| {goal} | {last.ours:g} | {last.peak:g} | {last.date} {last.commit} |"
            )
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(write_page(read()))
