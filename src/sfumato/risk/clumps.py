"""What noise gives back where true values pile up: pay scales, doses, counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Mask
from sfumato.kernels.exact_sums import exact_mean, standard_deviation
from sfumato.measure import AttackWording, Measure, Trial
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.risk.attacks.deconvolution import NoiseSize, find_points
from sfumato.risk.attacks.knowledge import knowledge
from sfumato.risk.attacks.noise_scale import ScaleName, put_on_scale
from sfumato.risk.attacks.outcomes import wilson

_ASSUMPTIONS = (
    (
        "The attacker knows the size and the form of the noise from the manifest, and the released "
        "values; nothing of any person."
    ),
    "They estimate where true values pile up, and take the likeliest point or the mean for each.",
    (
        "The control is the better of two who do not: one believes what is shown, the other says "
        "of everybody what fits most."
    ),
)
_FEWEST = 20
_QUARTER = 0.25
"""The part of the noise that a hit may be off, at most: what is shown comes so near for 20 %."""
_BINS, _IN_BIN = 10, 50
"""Parts of the values in which the noise is sized by itself, and the fewest values of a part."""
_GROWS = 2.5
"""How much larger the noise must be in one part than in another; fewer is chance."""
_LAPLACE = 1.5
"""Kurtosis beyond the normal one from which noise counts as Laplace's, which has 3."""
_TINY = 1e-9
_BEYOND_CHANCE, _LEAST = 4.0, 0.01
"""Standard errors beyond which a factor is no chance, and the least that shows anything."""


@dataclass(frozen=True)
class _Outcome:
    """What an attacker achieves on one variable."""

    variable: str
    hit: float
    control: float
    points: int
    values: int
    hits: Mask = field(repr=False)
    complete: Mask = field(repr=False)

    @property
    def gain(self) -> float:
        """Of the values that nobody hits without the attack, the share that it hits."""
        beyond = self.hit - self.control
        return max(0.0, beyond / (1 - self.control)) if self.control < 1 else 0.0


@parameters
class Clumps(Measure):
    """Share of values with noise that come back, since true values pile up around a few points.

    Question: noise hides a value among its neighbours. Where are there none, since salaries follow
    pay scales, doses come in tablets and children in whole numbers?
    Assumes: the attacker has the released file and its manifest, which says what noise there is.
    They estimate the distribution of the true values without any form given to it (nonparametric
    maximum likelihood), unite points that cannot be told apart, and take for each released value
    the likeliest point, or the mean of what it may be. The better of the two counts. A value comes
    back if it is hit to `within` standard deviations of the original and to a quarter of the noise;
    a whole number also if it is hit exactly.

    The value is the share of values that come back beyond the control, for the worst variable: (hit
    - control) / (1 - control). The control, `clumps_control`, is the better of two who make no such
    effort: who takes released values for the truth, and who says of everybody the value that fits
    most. `clumps_hit` is the plain share of hits. Smooth values, normal or skewed, give next to
    nothing back.

    Values count each, whoever's they are: rows of one person too.

    Parameters
    ----------
    variables : the numbers that have noise.
    scale : scale on which the noise was added, as in the method; published.
    shift : constant added before "log" or "square_root" was taken; published.
    within : how near counts as a hit: in standard deviations of the original.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> random = np.random.default_rng(1)
    >>> grade = random.choice([3100.0, 3900.0, 5200.0], 600)
    >>> data = sf.Dataset(pl.DataFrame({"pay": grade + random.normal(0, 10, 600)}),
    ...                   sf.Schema({"pay": "sensitive"}))
    >>> noise = sf.methods.Noise(variables=["pay"], sd_share=0.2)
    >>> found = Clumps(variables=["pay"]).measure(data, noise.apply(data, key=bytes(32)))
    >>> found.value > 0.8, found.details["worst_variable"]
    (True, 'pay')

    References: Wang (2007), On fast computation of the non-parametric maximum likelihood estimate
    of a mixing distribution, JRSS B 69:185; Efron (2016), Empirical Bayes deconvolution estimates,
    Biometrika 103:1.
    """

    name = "clumps"
    attack = AttackWording(
        title="Undoing noise on clumped values",
        control="no effort",
        sentence="From the released values and the published noise, somebody works out "
        "{clumps_hit_percent} of the values of {worst_variable}; without the effort "
        "{clumps_control_percent}. Of the values that stay hidden otherwise, {success} come back.",
        remedy="Spread each clump by more than it is apart from the next (a larger `sd_share`), "
        "release ranges (`coarsen`, `k_anonymity`), or leave the variable out.",
    )
    # As much as `undoing` may take back of other blur.
    trial = Trial(exploits=("support points",), acceptable=0.2, seconds=1.0, in_sample="as it is")
    examples = (
        {"variables": ["systolic", "glucose"]},
        {"variables": ["income"], "scale": "log", "shift": 1.0, "within": 0.1},
    )
    of = "pair"
    counts_persons = True  # it counts values
    as_written = True
    numbers = (
        Number.share("clumps"),
        Number.share("clumps_hit"),
    )
    variables: Annotated[list[str], Field(min_length=1)]
    scale: ScaleName | dict[str, ScaleName] | None = None
    shift: float | dict[str, float] | None = None
    within: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.05

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Estimate where the values of each variable pile up, and take each to its point."""
        del engine  # all records are in memory
        outcomes = [self._attack(original, released, name) for name in self.variables]
        worst = max(outcomes, key=lambda outcome: outcome.gain)
        hits = np.zeros(len(original), bool)
        for outcome in outcomes:
            hits[np.flatnonzero(outcome.complete)[outcome.hits]] = True
        interval = [
            max(0.0, (end - worst.control) / (1 - worst.control)) if worst.control < 1 else 0.0
            for end in wilson(worst.hit, worst.values)
        ]
        table = pl.DataFrame(
            [(o.variable, o.gain, o.hit, o.control, o.points) for o in outcomes],
            schema=["variable", self.name, "hit", "control", "points"],
            orient="row",
        )
        return Evidence(
            name=self.name,
            subject="pair",
            value=worst.gain,
            interval=(interval[0], interval[1]),
            direction=self.direction,
            baseline=0.0,
            records=original.like(pl.DataFrame({"hit": hits})),
            table=original.like(table),
            details={
                "clumps_hit": worst.hit,
                "clumps_control": worst.control,
                "worst_variable": worst.variable,
                "points": worst.points,
                "comparable_records": worst.values,
                "variables": tuple(self.variables),
            },
            assumptions=_ASSUMPTIONS,
        )

    def _attack(self, original: Dataset, released: Dataset, name: str) -> _Outcome:
        known = knowledge(original, released, [name], owner=self.name)
        # Sums of floats depend on their order, which is not to matter.
        rows = np.lexsort((known.released[:, 0], known.original[:, 0]))
        truth, shown = known.original[rows, 0], known.released[rows, 0]
        if len(truth) < _FEWEST:
            raise MeasureError(
                f"'{self.name}' needs {_FEWEST} values of '{name}' to see where they pile up.",
                hint="leave the variable out of `variables`.",
            )
        scale, on_scale = put_on_scale(name, self.scale, self.shift, (truth, shown))
        back = scale.back if scale else np.array
        moved = _take_line_out(*on_scale)
        noise = _size_noise(moved - on_scale[0], on_scale[0])
        spread = standard_deviation(truth)
        if noise is None or not spread > 0:
            share = float((truth == shown).mean())
            same = known.original[:, 0] == known.released[:, 0]
            return _Outcome(name, share, share, 0, len(truth), same, known.complete)
        estimated, united = find_points(moved, noise)
        guesses = [shown] + [
            back(guess)
            for points in (estimated, united)
            for guess in (points.average(moved), points.choose(moved))
        ]
        noise_moves = float(np.sqrt(exact_mean(np.square(shown - truth))))
        reach = min(self.within * spread, _QUARTER * noise_moves)
        found = [_mark_hits(guess, truth, reach) for guess in guesses]
        best = np.empty(len(rows), bool)
        best[rows] = max(found, key=lambda hits: int(hits.sum()))
        # Who believes what is shown does not round it.
        plain = float((np.abs(shown - truth) <= reach).mean())
        control = max(plain, _find_commonest(truth, reach))
        hit = float(best.mean())
        return _Outcome(name, hit, control, len(united.values), len(truth), best, known.complete)


def _take_line_out(truth: Floats, shown: Floats) -> Floats:
    """Released values on the scale of the original: released = shift + factor * true + noise."""
    centred = truth - exact_mean(truth)
    squares = exact_mean(centred * centred)
    if not squares > 0:
        return shown
    moved = shown - exact_mean(shown)
    factor = exact_mean(centred * moved) / squares
    # What noise alone is added to has a factor of 1, but for chance, which would only blur it.
    error = np.sqrt(exact_mean(np.square(moved - factor * centred)) / squares / len(truth))
    if abs(factor - 1) <= _BEYOND_CHANCE * error or not factor > _LEAST:
        return shown
    straight: Floats = exact_mean(truth) + moved / factor
    return straight


def _size_noise(noise: Floats, truth: Floats) -> NoiseSize | None:
    """How large the noise is, everywhere or in each part of the values; None: there is none."""
    size = float(np.sqrt(exact_mean(noise * noise)))
    if not size > _TINY * max(standard_deviation(truth), _TINY):
        return None
    at, sizes = np.array([exact_mean(truth)]), np.array([size])
    # Equal values are in one part: cut by their noise, they would seem to differ in its size.
    cuts = np.unique(np.quantile(truth, np.arange(1, _BINS) / _BINS))
    part = np.searchsorted(cuts, truth, side="left")
    counts = np.bincount(part)
    large = counts >= _IN_BIN
    if large.sum() > 1:
        counts = counts[large]
        by_part = np.sqrt(np.bincount(part, noise * noise)[large] / counts)
        if by_part.min() > 0 and by_part.max() > _GROWS * by_part.min():
            at, sizes = np.bincount(part, truth)[large] / counts, by_part
    deviations = np.interp(truth, at, sizes)
    kurtosis = exact_mean((noise / deviations) ** 4) - 3
    return NoiseSize(at, sizes, laplace=kurtosis > _LAPLACE)


def _mark_hits(guess: Floats, truth: Floats, reach: float) -> Mask:
    """Which values are hit: to so much, or a whole number exactly."""
    hits: Mask = np.abs(guess - truth) <= reach
    if bool((truth == np.rint(truth)).all()):
        hits |= np.rint(guess) == truth
    return hits


def _find_commonest(truth: Floats, reach: float) -> float:
    """The share of values that one guess for everybody hits, at best."""
    ordered = np.sort(truth)
    last = np.searchsorted(ordered, ordered + 2 * reach, side="right")
    return float((last - np.arange(len(ordered))).max()) / len(ordered)
