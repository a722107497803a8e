"""Attackers of simulated data: how many others lie nearer than the right record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Floats
from sfumato.risk._attacks import Knowledge, expected

PAPER = 1000
"""Draws of the paper, and of ours where they cost little."""
DECILES = tuple(at / 10 for at in range(1, 10))
_NAMES = tuple("abcde")
_CAP = 6
"""Beyond this h is not counted where only "above 5" is asked."""


def drawn(
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
    return original, original + np.sqrt(noise) * random.normal(size=(records, columns))


def landed(
    original: Floats, released: Floats, quantiles: Sequence[float], cap: int | None = None
) -> Any:
    """How many lie nearer, for the records at some quantiles of the sum of the variables."""
    from sfumato.kernels.trees.ranks import ranks

    places = [round(one * len(original)) - 1 for one in quantiles]
    at = np.argsort(original.sum(axis=1))[places]
    among = np.zeros(len(original), bool)
    among[at] = True
    found = ranks(original, released, np.ones(original.shape[1]), among=among, cap=cap)
    return found.ranks[found.starts[found.of[at]]]  # normal noise makes no ties


def cumulative() -> Any:
    """Table 1: the share of attackers with h at most 0, 1, … 19, by decile."""
    random = np.random.default_rng(1)
    h = np.array([landed(*drawn(random), DECILES) for _ in range(PAPER)])
    return [(h <= limit).mean(axis=0) for limit in range(20)]


def lowest(
    records: int, covariance: float, noise: float, *, draws: int, columns: int = 5
) -> npt.NDArray[np.int64]:
    """Table 2: h at the lowest decile, over draws."""
    random = np.random.default_rng([2, records, round(100 * covariance), round(100 * noise)])
    how: dict[str, Any] = {"covariance": covariance, "noise": noise, "columns": columns}
    return np.array(
        [landed(*drawn(random, records=records, **how), [0.1], _CAP)[0] for _ in range(draws)]
    )


def informed(draws: int) -> Any:
    """Table 3: as Table 1 for five deciles, when the attacker knows the noise."""
    random, found = np.random.default_rng(3), []
    for _ in range(draws):
        original, released = drawn(random)
        pair = Knowledge(_NAMES, original, released, np.ones(len(original), bool))
        seen = expected(pair, "matrix", None, owner="h_index")
        found.append(landed(original, seen, DECILES[:5]))
    h = np.array(found)
    return [(h <= limit).mean(axis=0) for limit in range(6)]
