"""Noise of known distribution: how far off attackers land.

Tables 1 to 3 of Goldstein & Shlomo (2020) simulate attackers; `noise_models` has Tables 4 and 5,
`sugar_farms` Tables 6 and 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from replication import noise_models, sugar_farms
from replication.comparison import (
    ERRORS,
    Bound,
    Row,
    bound_by_chance,
    bound_by_range,
    read_table,
    share_error,
)
from replication.sources import Sources
from sfumato.kernels.arrays import Floats
from sfumato.noise.transitions import correct, released_shares
from sfumato.progress import current_progress
from sfumato.risk.attacks import Knowledge, expected
from sfumato.units import Units

_TABLE_1 = """
52.2 49.4 43.9 41.3 41.7 43.5 40.5 47.0 56.2
62.9 60.7 56.1 53.1 53.1 54.3 53.0 58.3 67.3
70.0 65.3 62.0 61.2 60.8 61.8 60.9 64.7 73.8
74.7 70.2 68.6 66.0 65.8 66.6 65.8 70.3 77.9
78.5 74.4 72.8 70.1 68.7 70.0 69.6 73.8 81.8
80.8 77.5 76.5 72.7 71.5 72.1 72.8 76.8 84.3
83.1 79.9 78.1 74.3 74.1 74.8 75.5 78.7 86.2
84.4 82.4 80.6 76.5 76.1 76.2 78.0 81.2 87.3
85.9 83.9 81.7 78.7 78.2 77.8 80.0 83.9 88.9
87.7 84.9 83.5 79.5 79.4 80.2 81.8 84.9 90.7
89.1 86.4 85.0 81.1 81.2 81.8 83.2 86.6 91.9
90.1 87.1 85.4 82.4 83.5 83.2 84.1 87.4 92.9
91.1 88.3 86.1 83.8 84.6 84.7 85.3 88.2 93.9
91.9 88.8 87.1 85.3 85.6 85.8 86.6 89.1 94.3
93.0 89.3 87.8 86.5 86.1 86.6 87.5 90.0 95.0
94.2 90.1 88.1 87.4 86.6 87.4 88.0 90.2 95.1
94.9 91.1 88.8 88.0 87.5 87.9 88.5 90.9 95.1
95.2 91.7 89.3 88.8 88.5 88.5 89.5 91.4 95.6
95.7 91.9 89.8 90.0 89.6 89.1 90.1 91.8 95.9
96.5 92.6 90.3 90.9 90.0 89.9 90.5 92.4 96.6
"""
_COVARIANCES = (0.1, 0.2, 0.3, 0.4, 0.5)
_NOISES = (0.1, 0.2, 0.3, 0.4)
_TABLE_2 = {
    ("h above 5", 1000): """
        0.15 0.16 0.19 0.23 0.24
        0.45 0.43 0.46 0.50 0.54
        0.58 0.63 0.63 0.65 0.70
        0.73 0.74 0.74 0.76 0.77
    """,
    ("h above 5", 5000): """
        0.41 0.48 0.48 0.50 0.55
        0.72 0.71 0.75 0.77 0.80
        0.84 0.84 0.87 0.88 0.89
        0.90 0.90 0.92 0.90 0.93
    """,
    ("h = 0", 1000): """
        0.56 0.54 0.53 0.49 0.45
        0.27 0.27 0.24 0.23 0.18
        0.16 0.13 0.15 0.12 0.09
        0.10 0.09 0.010 0.08 0.07
    """,
}
_TABLE_3 = """
54.7 48.7 44.3 41.3 45.4
67.1 61.8 54.5 55.6 57.0
73.1 68.2 62.8 64.1 63.7
78.6 72.4 66.7 69.3 68.4
81.9 75.3 70.6 73.1 72.4
84.5 79.3 73.7 75.4 74.9
"""
PAPER = 1000
"""Data sets that the paper drew for each of its numbers, with one attacker at each decile."""
SETS = {"Table 1": 400, "Table 3": 400, "ten variables": 40, 1000: 100, 5000: 25, 10_000: 25}
"""Data sets that we draw, by table, or by their number of records."""
DECILES = tuple(tenth / 10 for tenth in range(1, 10))
_WINDOW = 0.02
"""Attackers stand within so much of a decile: each data set counts for 41 or more.

At the lowest decile, where the shares bend most, this moves them by less than 0.001.
"""
_NAMES = tuple("abcde")
_REMARKS = "text, section 4"
_MISPRINT = "0.010"
_FIVE = 5
_ORDER = (
    "chance: four standard errors of both simulations. The paper attacked 1,000 records for each "
    "number, we {attacks:,}. (The text says deciles of the distance from the centre; the "
    "printed numbers are those of deciles of the sum of the variables, which is what we take.)"
)
_CHANCE = (
    "chance: four standard errors of both simulations. The paper attacked 1,000 records for each "
    "number, we {attacks:,}."
)

Guess = Callable[[Floats, Floats], Floats]
Counts = npt.NDArray[np.int64]
"""How many lie nearer: data set by quantile by attacker."""


def compare_rows(sources: Sources) -> Iterator[Row]:
    """Tables 1 to 5, section 5, and Tables 6 and 7 in kind."""
    yield from _compare_table_1()
    yield from _compare_table_2()
    yield from _compare_table_3()
    yield from _compare_remarks()
    yield from _compare_codes()
    yield from noise_models.compare_table_4()
    yield from noise_models.compare_table_5(sources)
    why = "the records of the farms cannot be had; the tables stand below in kind."
    yield Row(place="Tables 6a, 6b, 7a, 7b", what="sugar-cane farms", why=why)
    yield from sugar_farms.compare_rows()


def _compare_table_1() -> Iterator[Row]:
    h = count_nearer(DECILES, sets=SETS["Table 1"], seed=[1])
    yield from _compare_deciles("Table 1", read_table(_TABLE_1), h, _ORDER)
    why = "cumulative shares end at 100.0, whatever is simulated."
    yield Row(place="Table 1", what="h of 20 and more (9)", why=why)
    why = f"the text reads it off Table 1; {_CHANCE}"
    for decile, index, limit, printed in (("10 %", 0, 3, "0.25"), ("10 %", 0, 5, "0.19"),
                                          ("50 %", 4, 5, "0.29")):  # fmt: skip
        what = f"decile {decile}: share of h above {limit}"
        yield _compare_share(_REMARKS, what, printed, h[:, index] > limit, why)


def _compare_table_2() -> Iterator[Row]:
    cells = [(noise, covariance) for noise in _NOISES for covariance in _COVARIANCES]
    simulated = {
        (records, *cell): count_at_lowest_decile(records, cell[1], cell[0])
        for records in (1000, 5000)
        for cell in cells
    }
    for (what, records), table in _TABLE_2.items():
        differences, variances = [], []
        for (noise, covariance), printed in zip(
            cells, chain.from_iterable(read_table(table)), strict=True
        ):
            h = simulated[records, noise, covariance]
            hits = h > _FIVE if what == "h above 5" else h == 0
            label = f"{records} records, covariance {covariance}, noise {noise}: {what}"
            row = _compare_share("Table 2", label, printed, hits, _CHANCE)
            if printed == _MISPRINT:
                row = _compare_misprint(row, hits, "0.10")
            else:
                differences.append(row.difference or 0.0)
                variances.append(_sum_variances(hits))
            yield row
        error = math.sqrt(math.fsum(variances)) / len(variances)
        yield _judge_table(f"{records} records, {what}", "Table 2", differences, error)


def _compare_misprint(row: Row, hits: Any, meant: str) -> Row:
    """A row whose printed number has a wrong digit: ours must be near the one that was meant."""
    ours, reach = float(hits.mean()), ERRORS * math.sqrt(_sum_variances(hits))
    why = f"a misprint for {meant}, which the numbers beside it show; ours is within chance of it."
    bound = Bound(float(meant) - reach, float(meant) + reach, of="ours")
    return Row(place=row.place, what=row.what, printed=row.printed, ours=ours, why=why, bound=bound)


def _compare_table_3() -> Iterator[Row]:
    h = count_nearer(DECILES[:5], sets=SETS["Table 3"], seed=[3], guess=_expect_true)
    yield from _compare_deciles("Table 3", read_table(_TABLE_3), h, _ORDER)


def _compare_deciles(passage: str, table: list[list[str]], h: Counts, why: str) -> Iterator[Row]:
    """A table of cumulative percentages, cell by cell and as a whole."""
    differences = []
    for limit, line in enumerate(table):
        for index, (decile, printed) in enumerate(zip(DECILES, line)):  # noqa: B905 - five of nine
            what = f"h at most {limit}, decile {decile:.0%}, percent"
            row = _compare_share(passage, what, printed, h[:, index] <= limit, why, scale=100)
            differences.append(row.difference or 0.0)
            yield row
    # The cells of one data set hang together: what scatters is the mean of its cells.
    cells = (h[..., None] <= np.arange(len(table))).mean(axis=(1, 3)) * 100
    middle = cells.shape[1] // 2
    error = math.hypot(
        float(cells.mean(axis=1).std(ddof=1)) / math.sqrt(len(cells)),
        float(cells[:, middle].std(ddof=1)) / math.sqrt(PAPER),
    )
    yield _judge_table("all cells", passage, differences, error)


def _judge_table(which: str, passage: str, differences: list[float], error: float) -> Row:
    """The mean difference: what is too small to be seen in a cell is seen in all of them."""
    why = "the paper prints no such number; the bound is what chance does to the mean."
    return Row(
        place=passage,
        what=f"{which}: mean of {len(differences)} differences",
        ours=math.fsum(differences) / len(differences),
        why=why,
        bound=Bound(-ERRORS * error, ERRORS * error, of="ours"),
    )


def _compare_share(
    passage: str, what: str, printed: str, hits: Any, why: str, *, scale: float = 1.0
) -> Row:
    """A share of attackers, in parts of `scale`, by data set and attacker."""
    ours, error = float(hits.mean()), math.sqrt(_sum_variances(hits))
    return Row(place=passage, what=what, printed=printed, ours=scale * ours,
               why=why.format(attacks=hits.size),
               bound=bound_by_chance(scale * ours, scale * error))  # fmt: skip


def _sum_variances(hits: Any) -> float:
    """The squared standard error of our share less the paper's.

    Attackers of one data set hang together, so ours is computed from whole data sets.
    """
    by_set = hits.reshape(len(hits), -1).mean(axis=1)
    ours = float(by_set.var(ddof=1)) / len(by_set)
    return ours + share_error(float(hits.mean()), PAPER) ** 2


def _compare_remarks() -> Iterator[Row]:
    h = count_at_lowest_decile(10_000, 0.25, 0.1)
    for limit, printed in ((3, "0.60"), (5, "0.54")):
        what = f"10,000 records: share of h above {limit}"
        yield _compare_share(_REMARKS, what, printed, h > limit, _CHANCE)
    for covariance, printed in ((0.1, "0.53"), (0.5, "0.47")):
        sets, seed = SETS[1000], [6, round(100 * covariance)]
        further_out = count_nearer((0.05, 0.95), sets=sets, seed=seed, covariance=covariance)
        why = (
            f"{_CHANCE} (The text says 5th percentile; the printed number is that "
            f"of the lowest decile. At the 5th percentile it is {(further_out == 0).mean():.2f}.)"
        )
        hits = count_at_lowest_decile(1000, covariance, 0.1) == 0
        what = f"covariance {covariance}: share of h = 0"
        yield _compare_share(_REMARKS, what, printed, hits, why)
    yield from _compare_ten_variables()


def _compare_ten_variables() -> Iterator[Row]:
    """The noise with which ten variables protect like five with 0.1."""
    five = _average_shares(columns=5, noise=0.1)
    noises = (0.22, 0.26, 0.30, 0.34, 0.38)
    ten = [_average_shares(columns=10, noise=noise) for noise in noises]
    # The more noise, the smaller the share of attackers who come so near.
    alike = [
        float(np.interp(-five[limit], [-shares[limit] for shares in ten], noises))
        for limit in range(len(five))
    ]
    why = (
        "the text says that the values come out about the same, but does not print them. Ours "
        "makes the share of "
        "h = 0 the same; the bound has the noises that make the share of h at most 0, 1, … 5 so."
    )
    yield Row(place=_REMARKS, what="noise of ten variables that is like 0.1 of five",
              printed="0.34", ours=alike[0], why=why, bound=bound_by_range(alike))  # fmt: skip
    h = count_nearer((0.1, 0.9), sets=SETS[1000], seed=[8, 1], columns=10, noise=0.34)
    why = "the text says about as with five variables, for which it prints 0.19; there is more."
    yield Row(place=_REMARKS, what="ten variables, noise 0.34, decile 10 %: share of h above 5",
              ours=float((h > _FIVE).mean()), why=why)  # fmt: skip


def _average_shares(**drawn: Any) -> list[float]:
    """Over the deciles, the share of attackers with h at most 0, 1, … 5."""
    h = count_nearer(DECILES, sets=SETS["ten variables"], seed=[8], **drawn)
    return [float((h <= limit).mean()) for limit in range(_FIVE + 1)]


def _compare_codes() -> Iterator[Row]:
    """Section 5: three yes/no variables, of which a tenth of the noes become yeses."""
    shares, matrix = np.array([0.9, 0.1]), np.array([[0.9, 0.1], [0.0, 1.0]])
    joint, all_three = (
        np.kron(shares, np.kron(shares, shares)),
        np.kron(matrix, np.kron(matrix, matrix)),
    )
    released, right = released_shares(joint, all_three)[-1], correct(joint, all_three)[-1]
    for what, printed, ours in (
        ("share of ones after misclassification", "0.19", released_shares(shares, matrix)[1]),
        ("all three variables are 1, released", "0.007", released),
        ("all three variables are 1, original", "0.001", released * right),
        ("of those identified, correct", "15%", right),
    ):
        yield Row(place="text, section 5", what=what, printed=printed, ours=float(ours))


# Attackers of simulated data: how many others lie nearer than the right record


def draw_noised_data(
    random: np.random.Generator,
    *,
    records: int = 1000,
    columns: int = 5,
    covariance: float = 0.25,
    noise: float = 0.1,
) -> tuple[Floats, Floats]:
    """Normal variables of variance 1, and the same with noise."""
    wide = np.full((columns, columns), covariance) + (1 - covariance) * np.eye(columns)
    original = random.normal(size=(records, columns)) @ np.linalg.cholesky(wide).T
    return original, original + math.sqrt(noise) * random.normal(size=(records, columns))


def count_nearer(
    quantiles: Sequence[float],
    *,
    sets: int,
    seed: list[int],
    guess: Guess | None = None,
    **drawn: Any,
) -> Counts:
    """How many lie nearer, for attackers about some quantiles of the sum of the variables.

    Parameters
    ----------
    quantiles : where the attacked records stand.
    sets : how many data sets are drawn.
    seed : of the draws.
    guess : what attackers make of the released records. Default: take them as they are.
    drawn : see `draw_noised_data`.
    """
    from sfumato.kernels.trees.ranks import ranks

    random, report, counts = np.random.default_rng(seed), current_progress(), []
    for index in range(sets):
        report("simulating attackers", index, sets)
        original, released = draw_noised_data(random, **drawn)
        if guess is not None:
            released = guess(original, released)
        records = len(original)
        positions = np.rint(np.array(quantiles) * records).astype(int) - 1
        reach = round(_WINDOW * records)
        order = np.argsort(original.sum(axis=1))
        attacked = order[positions[:, None] + np.arange(-reach, reach + 1)]
        among = np.zeros(records, bool)
        among[attacked] = True
        ranking = ranks(original, released, np.ones(original.shape[1]), among=among)
        counts.append(
            ranking.ranks[ranking.starts[ranking.of[attacked]]]
        )  # normal noise makes no ties
    return np.array(counts, np.int64)


def count_at_lowest_decile(
    records: int, covariance: float, noise: float, *, columns: int = 5
) -> Counts:
    """Of the lowest decile, and of the highest, which the same law rules."""
    seed = [2, records, round(100 * covariance), round(1000 * noise), columns]
    return count_nearer((0.1, 0.9), sets=SETS[records], seed=seed, records=records,
                        covariance=covariance, noise=noise, columns=columns)  # fmt: skip


def _expect_true(original: Floats, released: Floats) -> Floats:
    """What an attacker expects the true values to be who knows the noise."""
    pair = Knowledge(_NAMES, original, released, np.ones(len(original), bool), Units(len(original)))
    return expected(pair, "matrix", None, owner="h_index")
