"""How an attacker uses what a manifest publishes of the noise: exact variables count most.

A plain distance counts every variable alike, so that one exact value drowns in the noise of the
others. Whoever knows the variances weighs each variable by 1 / variance, which for normal noise is
the likelihood: the released record that is nearest is the one most likely to be the person's. A
variable without noise must then fit exactly.

The size of the noise is taken from the pair of original and release: no manifest tells more, and
somebody who knows how people are distributed could work it out without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sfumato.kernels.arrays import Floats, Mask, Positions
from sfumato.kernels.exact_sums import exact_mean, exact_sum, standard_deviation
from sfumato.pairs.alignment import FEWEST_TO_FIT
from sfumato.risk.attacks.distances import Space, bound_sizes
from sfumato.risk.attacks.knowledge import Knowledge
from sfumato.risk.attacks.owners import count_near, share_nearest
from sfumato.units import Units

_EXACT = 1e-6
"""Noise below this share of a variable's spread counts as so much: no weight is infinite."""
_BEYOND_CHANCE = 4.0
"""Standard errors beyond which a correlation of the noise, a shift or a factor is no chance."""
_SINGULAR = 1e-10
_NORMAL = 1.4826
"""The standard deviation of a normal variable over its median absolute deviation."""
_OTHER_WEIGHTS = 1.5
"""Weights that differ by less than this factor link the same persons."""
_HEAVY_TAILS = 1.5
"""Kurtosis beyond that of a normal variable from which absolute distances are tried; Laplace's
is 3."""

BY_LIKELIHOOD = "weighs by the noise"
BY_MEDIANS = "weighs by the typical change"


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """What is known of the noise in each variable that varies: released = shift + factor * true.

    Parameters
    ----------
    fitted : what the release would show without noise, a row per record.
    released : what it shows.
    deviations : the standard deviation of the noise, at least a tiny share of the spread.
    typical : the same from the median change, which few large changes do not move.
    correlation : of the noise between variables; None where it is negligible or not regular.
    heavy_tails : which variables have noise with heavier tails than the normal.
    relative : the noise as a share of the spread: the noisiest variable has the largest.
    """

    fitted: Floats = field(repr=False)
    released: Floats = field(repr=False)
    deviations: Floats
    typical: Floats
    correlation: Floats | None = field(repr=False)
    heavy_tails: Mask
    relative: Floats


def estimate_noise(known: Knowledge, where: Space, compared: Floats) -> NoiseModel:
    """The noise of the variables of a space, from the released values that are compared."""
    columns = [known.names.index(name) for name in where.names]
    original, released = known.original[:, columns], compared[:, columns]
    fitted = np.empty_like(released)
    deviations, typical, relative = np.empty((3, len(columns)))
    heavy_tails = np.zeros(len(columns), bool)
    for index, (truth, shown) in enumerate(zip(original.T, released.T, strict=True)):
        spread = where.deviations[index]
        fitted[:, index] = _fit_line(truth, shown)
        noise = (shown - fitted[:, index]) / spread
        size = float(np.sqrt(exact_mean(noise * noise)))
        change = float(np.median(np.abs((shown - truth) / spread)))
        shown_spread = standard_deviation(shown)
        # In the smaller unit of both, so that exact values stay exact in whatever unit.
        least = _EXACT * (min(spread, shown_spread) if shown_spread > 0 else spread)
        deviations[index] = max(spread * size, least)
        typical[index] = max(spread * min(_NORMAL * change, size), least)
        relative[index] = size * spread / shown_spread if shown_spread > 0 else np.inf
        if size > _EXACT:
            fourth = exact_mean((noise / size) ** 4)
            heavy_tails[index] = fourth - 3 > _HEAVY_TAILS
    correlation = _correlate((released - fitted) / deviations)
    return NoiseModel(fitted, released, deviations, typical, correlation, heavy_tails, relative)


def weigh_by_noise(where: Space, noise: NoiseModel) -> dict[str, Space]:
    """The spaces of attackers who know the noise, by what they do; distances are likelihoods."""
    fitted, released = noise.fitted, noise.released
    scale, sizes = _invert(noise.deviations), None
    if noise.correlation is not None:
        matrix = np.linalg.inv(np.linalg.cholesky(noise.correlation))
        sizes = bound_sizes((fitted, released), scale, matrix)
        fitted, released = (_turn(values, scale, matrix) for values in (fitted, released))
        scale = np.ones(len(scale))
    spaces = {
        BY_LIKELIHOOD: replace(where, original=fitted, released=released, scale=scale, sizes=sizes)
    }
    ratio = noise.typical / noise.deviations
    # Where most values stayed and few moved far, the median tells what the variance hides.
    if ratio.max() > _OTHER_WEIGHTS * ratio.min():
        spaces[BY_MEDIANS] = replace(
            where,
            original=where.plain,
            released=noise.released,
            scale=_invert(noise.typical),
            sizes=None,
        )
    return spaces


def select_variables(where: Space, columns: Sequence[int]) -> Space:
    """The same space with some of its coordinates only."""
    index = list(columns)
    return replace(
        where,
        names=tuple(where.names[column] for column in index),
        original=np.ascontiguousarray(where.original[:, index]),
        released=np.ascontiguousarray(where.released[:, index]),
        scale=where.scale[index],
        sizes=None if where.sizes is None else where.sizes[index],
    )


def link_by_absolute_distance(noise: NoiseModel, units: Units) -> Floats:
    """Each person's chance to be linked by the sum of absolute distances over the noise.

    That is the likelihood of Laplace noise. Of a person with several rows, any of them will do.
    """
    from scipy.spatial import cKDTree

    scale = _invert(noise.typical)
    persons, records = noise.fitted * scale, noise.released * scale
    if not (np.isfinite(persons).all() and np.isfinite(records).all()):
        return np.zeros(len(persons))
    tree = cKDTree(records)
    least = np.asarray(tree.query(persons, k=1, p=1)[0])
    distances = np.abs(persons - records).sum(axis=1)
    limit = least * (1 + 1e-12)
    if not units.one_row_each:
        ties = np.asarray(tree.query_ball_point(persons, limit, p=1, return_length=True))

        def measure(mine: Positions, theirs: Positions) -> Floats:
            gaps: Floats = np.abs(persons[mine] - records[theirs]).sum(axis=1)
            return gaps

        return share_nearest(count_near(units, measure, limit), ties)
    nearest = distances <= limit
    chance = np.zeros(len(persons))
    ties = tree.query_ball_point(persons[nearest], limit[nearest], p=1, return_length=True)
    chance[nearest] = 1 / np.maximum(ties, 1)
    return chance


def _fit_line(truth: Floats, shown: Floats) -> Floats:
    """What the release would show without noise: the truth, or a line where that fits better.

    Noise that is just added leaves the truth on average, and a line would follow its draws: it is
    taken only where shift or factor are beyond what chance can do.
    """
    if len(truth) < FEWEST_TO_FIT:
        return truth
    spread = standard_deviation(truth)
    # In units of the spread, so that squares of tiny and huge values stay numbers.
    unit = (truth - exact_mean(truth)) / spread
    moved = (shown - exact_mean(shown)) / spread
    squares = exact_sum(unit * unit)
    factor = exact_sum(unit * moved) / squares
    residuals = moved - factor * unit
    size = float(np.sqrt(exact_mean(residuals * residuals)))
    shift = (exact_mean(shown) - exact_mean(truth)) / spread
    limit = _BEYOND_CHANCE * size / np.sqrt(squares)
    if abs(factor - 1) <= limit and abs(shift) <= limit:
        return truth
    line: Floats = exact_mean(shown) + factor * (truth - exact_mean(truth))
    # A line through unchanged values is the values but for rounding.
    return truth if np.array_equal(truth, shown) else line


def _correlate(noise: Floats) -> Floats | None:
    """The correlation of the noise between variables, where it is regular and not negligible."""
    records, width = noise.shape
    if width == 1 or records < FEWEST_TO_FIT:
        return None
    sizes = [float(np.sqrt(exact_mean(column * column))) for column in noise.T]
    matrix = np.eye(width)
    for i in range(width):
        for j in range(i):
            if sizes[i] > 0 and sizes[j] > 0:
                product = exact_mean(noise[:, i] * noise[:, j]) / (sizes[i] * sizes[j])
                matrix[i, j] = matrix[j, i] = product
    apart = np.abs(matrix - np.eye(width)).max()
    if not np.isfinite(matrix).all() or apart < _BEYOND_CHANCE / np.sqrt(records):
        return None
    return matrix if np.linalg.eigvalsh(matrix)[0] > _SINGULAR else None


def _invert(deviations: Floats) -> Floats:
    with np.errstate(over="ignore", divide="ignore"):  # refused where distances are taken
        scale: Floats = 1 / deviations
    return scale


def _turn(values: Floats, scale: Floats, matrix: Floats) -> Floats:
    """Coordinates whose noise is uncorrelated, each record by itself and in one order."""
    turned = np.zeros_like(values)
    for j in range(values.shape[1]):
        scaled = values[:, j] * scale[j]
        for i in range(j, values.shape[1]):
            turned[:, i] += matrix[i, j] * scaled
    return turned
