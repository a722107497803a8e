"""Paper 002 on discharges: cost against one argsort of as many floats, and information loss.

`python -m benchmarks.bench_discharges --records 3985166` is the size of the paper; the variable
SFUMATO_RECORDS does the same. Fewer by default, so that all benchmarks together stay short.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.bench_fitting import fitting
from benchmarks.bench_mondrian import clustering, sorting
from benchmarks.cost import Cost
from benchmarks.discharges import coded, discharges
from sfumato.kernels.arrays import Integers
from sfumato.kernels.clustering.closeness import ClosenessRule, achieved_t
from sfumato.kernels.clustering.clusters import bound_t, find_ranges, origin_order, spread_order
from sfumato.kernels.clustering.mondrian import mondrian

RECORDS = 1_000_000
MONDRIAN = 1_000_000
CLUSTERINGS = {"S2": ("s2", 2.0), "S4": ("s4", 4.0)}
FITTING = {
    "fitting, 32 intervals": ("coarsened({records}, 32)", 1.5),
    "fitting, masked (S3)": ("masked({records})", 12.0),
    "fitting, S2 in half": ("clustered({records}, 3, 0.5)", 25.0),
    "fitting, 5 % ranges": ("ranged({records}, 0.05)", 25.0),
}
LOSSES = {2: 0.5, 3: 0.5, 5: 0.5, 10: 0.9}
"""What a t-close Mondrian may lose at most of what S4 loses."""


def main(records: int | None = None) -> None:
    """Print the costs and the losses beside what is promised."""
    records = records or int(os.environ.get("SFUMATO_RECORDS", RECORDS))
    costs(records)
    losses(records)


def costs(records: int) -> None:
    """CPU and memory of the clusterings and of fitting."""
    base = sorting(records)
    print(f"{records:,} records; one argsort takes {base.cpu:.3f} s of CPU")
    print(f"{'work':>22} {'CPU s':>6} {'argsorts':>8} {'at most':>8} {'peak MB':>8}")
    for name, (work, most) in CLUSTERINGS.items():
        _line(name, clustering(work, records, 5), base, most)
    for name, (made, most) in FITTING.items():
        _line(name, fitting(made, records), base, most)
    fewer = min(records, MONDRIAN)
    base = sorting(fewer)
    _line(f"Mondrian, {fewer:,}", clustering("plain", fewer, 5), base, 25.0)


def _line(name: str, found: Cost, base: Cost, most: float) -> None:
    ratio = found.cpu / base.cpu
    print(f"{name:>22} {found.cpu:>6.2f} {ratio:>8.1f} {most:>8g} {found.peak:>8.0f}")


@dataclass(frozen=True)
class _Data:
    """The records as codes and as values, and the spread of each variable."""

    codes: npt.NDArray[np.int32]
    worth: list[npt.NDArray[np.int32]]
    values: npt.NDArray[np.int32]
    charge: npt.NDArray[np.int32]

    def loss(self, order: Integers, starts: Integers) -> float:
        """Eq. 3: the mean standardised distance to the farther end of the ranges."""
        low, high = find_ranges(self.values, order, starts)
        sizes = np.diff(starts)
        squares = np.zeros(len(order))
        for at, column in enumerate(self.values.T):
            own = column[order]
            ends = np.repeat(low[:, at], sizes), np.repeat(high[:, at], sizes)
            squares += (np.maximum(own - ends[0], ends[1] - own) / column.std()) ** 2
        return float(np.sqrt(squares).mean() / self.values.shape[1])

    def split(self, k: int, *rules: ClosenessRule) -> tuple[Integers, Integers]:
        return mondrian(
            self.codes,
            k,
            ordered=[True] * len(self.worth),
            values=self.worth,
            sensitive=self.charge if rules else None,
            rules=rules,
        )


def losses(records: int) -> None:
    """What Mondrian loses of the data, against S2 and S4 at the same k and t."""
    frame = discharges(records)
    codes, worth = coded(frame)
    values = np.column_stack([seen[codes[:, at]] for at, seen in enumerate(worth)])
    data = _Data(codes, worth, values, frame["charge"].to_numpy())
    print(f"information loss (Eq. 3), {records:,} records")
    heads = ("k", "S2", "Mondrian", "ratio", "at most", "S4", "t-close", "ratio", "at most")
    print("{:>3} {:>7} {:>8} {:>6} {:>7} {:>7} {:>8} {:>6} {:>7} {:>15}".format(*heads, "t (S4)"))
    for k, most in LOSSES.items():
        published, ours = data.loss(*origin_order(values, k)), data.loss(*data.split(k))
        t = bound_t(records, k)
        spread, close = (
            spread_order(values, data.charge, k),
            data.split(k, ClosenessRule("ordered", t)),
        )
        reached = [float(achieved_t(data.charge, *one).max()) for one in (close, spread)]
        theirs, kept = data.loss(*spread), data.loss(*close)
        print(
            f"{k:>3} {published:>7.3f} {ours:>8.3f} {ours / published:>6.2f} {0.2:>7} "
            f"{theirs:>7.3f} {kept:>8.3f} {kept / theirs:>6.2f} {most:>7} "
            f"{reached[0]:>6.3f} ({reached[1]:.3f})"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int)
    main(parser.parse_args().records)
