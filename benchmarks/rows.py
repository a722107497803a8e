"""Comparisons: what ours costs beside a named baseline, measured in the same run.

Every benchmark that has a baseline lists its comparisons as `ROWS`. `make bench` runs all of them
and writes their ratios into the ledger; `make bench-check` runs the quick ones and compares them
with the best ratio that the ledger knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from benchmarks.cost import Cost, cost

HEADS = f"{'':<62} {'theirs s':>9} {'ours s':>9} {'ratio':>8} {'goal':>6} {'peak MB':>8}"


@dataclass(frozen=True)
class Row:
    """One comparison.

    Parameters
    ----------
    name : what is done, and how many records; the ledger knows the row by it.
    ours, theirs : the two pieces of work.
    baseline : what theirs is, in words.
    setup : what comes before and does not count.
    their_setup : the same for theirs, where it differs.
    goal : the ratio of CPU seconds that we want at most.
    repeats : how often each is run; the cheapest counts.
    quick : whether `make bench-check` runs it too.
    """

    name: str
    ours: str
    theirs: str
    baseline: str
    setup: str = ""
    their_setup: str | None = None
    goal: float | None = None
    repeats: int = 1
    quick: bool = False


@dataclass(frozen=True)
class Comparison:
    """What came out of a row."""

    row: Row
    ours: Cost
    theirs: Cost

    @property
    def ratio(self) -> float:
        """CPU seconds of ours for one of theirs."""
        return self.ours.cpu / self.theirs.cpu

    def __str__(self) -> str:
        goal = f"{self.row.goal:g}" if self.row.goal is not None else ""
        return (
            f"{self.row.name:<62} {self.theirs.cpu:>9.3f} {self.ours.cpu:>9.3f} {self.ratio:>8.3g} "
            f"{goal:>6} {self.ours.peak:>8.0f}"
        )


def run(row: Row) -> Comparison:
    """Both, one after the other."""
    their_setup = row.setup if row.their_setup is None else row.their_setup
    theirs = cost(row.theirs, setup=their_setup, repeats=row.repeats)
    return Comparison(row, cost(row.ours, setup=row.setup, repeats=row.repeats), theirs)


def compare(rows: Iterable[Row]) -> Iterator[Comparison]:
    """Run rows and print them, under the baseline of each."""
    baseline = None
    for row in rows:
        if row.baseline != baseline:
            baseline = row.baseline
            print(f"{'beside ' + baseline:<62}\n{HEADS}")
        comparison = run(row)
        print(comparison, flush=True)
        yield comparison
