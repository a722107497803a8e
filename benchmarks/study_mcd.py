"""How small a determinant the MCD finds, against ten seeds of Rousseeuw & Van Driessen's search.

Their nested search as R's `robustbase::covMcd` runs it, written anew in numpy: 500 starts in five
groups of 300 records, the ten best of each group taken to 1500 records, the ten best of those to
all. Flat data, where it ends in one of many local minima, and others. `python -m benchmarks
study_mcd` prints a line per data set; ours must never be above the best of ten seeds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.kernels.mcd import half_size, robust_covariance

Values = npt.NDArray[np.float64]

SEEDS = 10
SAME = 1e-9
"""Log determinants this close are equal but for rounding."""
DATA_SETS = (
    ("cube", 1600, 2), ("cube", 2000, 3), ("cube", 3000, 4), ("cube", 2500, 6), ("cube", 8000, 3),
    ("ball", 1800, 2), ("ball", 2500, 3), ("ball", 4000, 5), ("ball", 3000, 6), ("ball", 6000, 4),
    ("sphere", 2000, 3), ("sphere", 1600, 2), ("skewed", 2000, 3), ("skewed", 3000, 5),
    ("two groups", 2000, 3), ("two groups", 4000, 4), ("scores", 2600, 5), ("normal", 2000, 4),
    ("at the ends", 2000, 2), ("at the ends", 3000, 4),
)  # fmt: skip


def draw_values(kind: str, records: int, variables: int, seed: int) -> Values:
    """A data set, a row per variable."""
    random = np.random.default_rng(seed)
    shape = (variables, records)
    values = random.normal(size=shape)
    if kind in ("ball", "sphere"):
        values /= np.sqrt((values**2).sum(axis=0))
    if kind == "ball":
        values *= random.random(records) ** (1 / variables)
    elif kind == "two groups":
        values[0] += 4 * random.integers(0, 2, records)
    elif kind == "cube":
        values = random.random(shape)
    elif kind == "skewed":
        values = random.exponential(size=shape)
    elif kind == "scores":
        values = random.integers(0, 7, shape) + random.random(shape)
    elif kind == "at the ends":
        values = random.beta(0.5, 0.5, shape)
    return values


def search_nested(values: Values, seed: int) -> float:
    """The least log determinant that one seed of the nested search finds."""
    variables, records = values.shape
    values = values[:, np.random.default_rng(seed).permutation(records)]
    share = half_size(records, variables) / records
    random = np.random.default_rng(seed + 1000)
    merged = []
    for group in range(5):
        part = values[:, group * 300 : (group + 1) * 300]
        starts = [part[:, random.choice(300, variables + 1, replace=False)] for _ in range(100)]
        halves = [_step(part, start, int(300 * share), 2) for start in starts]
        merged += sorted(halves, key=_log_determinant)[:10]
    sample = values[:, :1500]
    merged = [_step(sample, half, int(1500 * share), 2) for half in merged]
    best = sorted(merged, key=_log_determinant)[:10]
    size = half_size(records, variables)
    return min(_log_determinant(_step(values, half, size, 100)) for half in best)


def _step(values: Values, half: Values, size: int, most: int) -> Values:
    """Take the nearest records, again and again; the records of the last half."""
    last = np.inf
    for _ in range(most):
        gaps = values - half.mean(axis=1, keepdims=True)
        covariance = np.cov(half) + 1e-14 * np.eye(len(values))
        distance = (gaps * np.linalg.solve(covariance, gaps)).sum(axis=0)
        half = values[:, np.argpartition(distance, size - 1)[:size]]
        now = _log_determinant(half)
        if now >= last - 1e-12:
            break
        last = now
    return half


def _log_determinant(half: Values) -> float:
    return float(np.linalg.slogdet(np.cov(half))[1])


def compare(kind: str, records: int, variables: int, seed: int, seeds: int = SEEDS) -> list[float]:
    """Our log determinant, and those of the seeds."""
    values = draw_values(kind, records, variables, seed)
    ours = robust_covariance(values).log_determinant
    return [ours, *(search_nested(values, number) for number in range(seeds))]


def main() -> None:
    """Print a line per data set, and how often ours is above the best of the seeds."""
    print(f"{'data':>12} {'records':>8} {'vars':>5} {'ours':>10} {'best of 10':>11} {'median':>10}")
    above = 0
    for number, (kind, records, variables) in enumerate(DATA_SETS):
        ours, *theirs = compare(kind, records, variables, number)
        above += ours > min(theirs) + SAME
        print(
            f"{kind:>12} {records:>8,} {variables:>5} {ours:>10.5f} {min(theirs):>11.5f} "
            f"{np.median(theirs):>10.5f}",
            flush=True,
        )
    print(f"ours above the best of {SEEDS} seeds: {above} of {len(DATA_SETS)}")


if __name__ == "__main__":
    main()
