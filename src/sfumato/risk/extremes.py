"""Whether whoever is far out stays far out under noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats
from sfumato.kernels.exact_sums import standard_deviation
from sfumato.measure import AttackWording, Measure, Trial
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.risk.attacks.knowledge import knowledge
from sfumato.risk.attacks.noise_scale import ScaleName, put_on_scale

_ASSUMPTIONS = (
    (
        "The attacker knows who has the largest, or the smallest, value of all, and takes the "
        "record that shows it."
    ),
    (
        "How often that is right is worked out over all draws that the noise could have had, not "
        "only this one; its size is that of the noise of the values near the end."
    ),
)
_NEAR = 500
"""Values next to the end that may overtake it."""
_DRAWS = 400
_FEWEST = 2
_NORMAL = 1.4826
"""The standard deviation of a normal variable over its median absolute deviation."""
_QUARTILES = 1.349
"""The interquartile range of a normal variable over its standard deviation."""
_TINY = 1e-300
_MOVED = 8.0
"""Standard deviations of the noise beyond which something else has moved a value: a top code."""


@dataclass(frozen=True)
class _End:
    """One end of one variable."""

    variable: str
    end: str
    chance: float
    apart: float
    shared_by: int


@parameters
class Extremes(Measure):
    """Chance that the most extreme value under noise is still that of the most extreme person.

    Question: everybody knows who earns the most. Is their record the one with the largest salary?
    Assumes: whoever lies `apart` spreads or more beyond the next is known for that, and the
    attacker takes the record that shows the largest value for theirs; the same for the smallest.
    The noise of values is what lies between original and release; the value is the chance, over all
    draws of such noise, that the end stays the end, for the worst end of the worst variable at
    which somebody is so far out; 0 where nobody is. Where several records show the released end,
    such as a top-coded one, the attacker takes any of them. The baseline is a guess: 1 of n.

    It refuses nothing, since the chance is high for the end of almost any variable with a long
    tail, and asks for a second look where it is nearly certain. The table has all ends, and how far
    out they are.

    Parameters
    ----------
    variables : the numbers that have noise.
    scale : scale on which the noise was added, as in the method; published.
    shift : constant added before "log" or "square_root" was taken; published.
    apart : how far beyond the next value somebody is known for: in standard deviations, or what
        the middle half has for one if that is less.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> pay = np.append(np.random.default_rng(1).normal(30, 5, 200), 95.0)
    >>> data = sf.Dataset(pl.DataFrame({"pay": pay}), sf.Schema({"pay": "sensitive"}))
    >>> noise = sf.methods.Noise(variables=["pay"], sd_share=0.3)
    >>> found = Extremes(variables=["pay"]).measure(data, noise.apply(data, key=bytes(32)))
    >>> found.value > 0.99, found.details["worst_end"]
    (True, 'largest')

    References: Hundepool et al. (2012), Statistical Disclosure Control, section 3.6 (rank and
    record linkage after noise, top-coding of outliers).
    """

    name = "extremes"
    attack = AttackWording(
        title="Finding whoever is farthest out",
        control="a blind guess",
        sentence="The record with the {worst_end} released {worst_variable} is that of the person "
        "who has it with a chance of {success}. A blind guess would be right for {control}.",
        remedy="Top-code or bottom-code the variable first (`topcode`), so that several share its "
        "end.",
    )
    trial = Trial(
        exploits=("extremes", "order"),
        acceptable=1.0,
        unremarkable=0.95,
        seconds=0.2,
        in_sample="as it is",
    )
    examples = ({"variables": ["systolic", "glucose"]},)
    of = "pair"
    counts_persons = True  # it counts values
    as_written = True
    numbers = (Number.share("extremes"),)
    variables: Annotated[list[str], Field(min_length=1)]
    scale: ScaleName | dict[str, ScaleName] | None = None
    shift: float | dict[str, float] | None = None
    apart: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Work out for each end of each variable how surely it stays the end."""
        del engine  # all records are in memory
        ends: list[_End] = []
        fewest = len(original)
        for name in self.variables:
            known = knowledge(original, released, [name], owner=self.name)
            # Sums of floats depend on their order, which is not to matter.
            rows = np.lexsort((known.released[:, 0], known.original[:, 0]))
            truth, shown = known.original[rows, 0], known.released[rows, 0]
            if len(truth) < _FEWEST:
                raise MeasureError(
                    f"'{self.name}' compares values, and '{name}' has one only.",
                    hint="leave it out of `variables`.",
                )
            fewest = min(fewest, len(truth))
            spread = _measure_spread(truth)
            order = np.sort(truth)
            gaps = (order[-1] - order[-2]) / spread, (order[1] - order[0]) / spread
            _, (truth, shown) = put_on_scale(name, self.scale, self.shift, (truth, shown))
            ends += [
                replace(_look_at_end(name, label, sign * truth, sign * shown), apart=float(gap))
                for label, sign, gap in zip(("largest", "smallest"), (1, -1), gaps, strict=True)
            ]
        worst = max(ends, key=lambda end: (end.chance * (end.apart >= self.apart), end.chance))
        return Evidence(
            name=self.name,
            subject="pair",
            value=worst.chance if worst.apart >= self.apart else 0.0,
            direction=self.direction,
            baseline=1 / fewest,
            table=original.like(
                pl.DataFrame(
                    [(end.variable, end.end, end.chance, end.apart, end.shared_by) for end in ends],
                    schema=["variable", "end", self.name, "apart", "shared_by"],
                    orient="row",
                )
            ),
            details={
                "worst_variable": worst.variable,
                "worst_end": worst.end,
                "variables": tuple(self.variables),
            },
            assumptions=_ASSUMPTIONS,
        )


def _measure_spread(values: Floats) -> float:
    """The standard deviation, or that which the middle half has if that is less; never 0."""
    low, high = np.quantile(values, (0.25, 0.75))
    middle, spread = float(high - low) / _QUARTILES, standard_deviation(values)
    return min(middle, spread) if middle > 0 else max(spread, _TINY)


def _look_at_end(name: str, label: str, truth: Floats, shown: Floats) -> _End:
    """How surely the largest true value is the largest released one."""
    change = shown - truth
    size = _NORMAL * float(np.median(np.abs(change)))
    by_noise = np.abs(change) <= _MOVED * size if size > 0 else np.ones(len(change), bool)
    # What a top code has moved counts as the release shows it.
    truth = np.where(by_noise, truth, shown)
    order = np.argsort(-truth, kind="stable")[:_NEAR]
    near, noise = truth[order], np.sort(change[order][by_noise[order]])
    shared_by = int((shown == shown.max()).sum())
    ties = int((near == near[0]).sum())
    if ties > 1 or not len(noise) or noise[0] == noise[-1]:
        # Without noise an order stays; who shares the end is one of several already.
        return _End(name, label, 1 / max(ties, shared_by), 0.0, shared_by)
    draws = np.quantile(noise, (np.arange(_DRAWS) + 0.5) / _DRAWS)
    # Pr(nobody overtakes) = E[prod over others of F(largest + noise - other)].
    below = np.searchsorted(noise, near[0] + draws[:, None] - near[1:], side="right") / len(noise)
    chance = float(below.prod(axis=1).mean()) / shared_by
    return _End(name, label, chance, 0.0, shared_by)
