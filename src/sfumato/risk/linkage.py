"""How many released records could be linked to the right person by nearness alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Positions
from sfumato.measure import AttackWording, Measure
from sfumato.numbers import Number
from sfumato.parameters import ParameterError, parameters
from sfumato.risk.attacks.adjustments import expected, rescaled
from sfumato.risk.attacks.assignment import count_correct_links, sample_pairs
from sfumato.risk.attacks.distances import Space, space
from sfumato.risk.attacks.knowledge import Knowledge, knowledge
from sfumato.risk.attacks.likelihood import (
    BY_LIKELIHOOD,
    NoiseModel,
    estimate_noise,
    link_by_absolute_distance,
    select_variables,
    weigh_by_noise,
)
from sfumato.risk.attacks.outcomes import choose_worst, mean_of, tabulate_records, wilson
from sfumato.risk.attacks.owners import count_near, share_nearest
from sfumato.units import Units

Variance = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_AT_ONCE = 1000
"""Records up to which all are assigned without being asked: a fraction of a second."""
_MOST = 5000
"""Records that one assignment takes at most: its time grows with their cube."""
_FEW_ENOUGH = 20_000
"""Records up to which the attacker tries parts of the variables too, one by one and nested."""
_WIDEST = 12
"""Variables up to which the noisiest are left out one after the other."""
_BACKWARDS, _RESCALED = "release to person", "gives the release the original's means and SDs"
_PLAIN = "person to release"
_ABSOLUTE = "weighs absolute distances by the noise"
_SHARES = ("linkage_rescaled", "linkage_by_noise")
"""What certain attackers link."""
_ROUNDING = 1 + 1e-9
_EXPOSED, _MORE = 0.02, 1.5
"""A share from which, and a factor by which, a better attacker is worth a warning."""
_ASSUMPTIONS = (
    "A link counts as correct if it names the very person.",
    "Of several that are equally near the attacker takes any by chance: each counts by its share.",
    "Standard deviations and covariances are those of the original.",
    "A target is checked against the best attacker: one knows the noise, one uses fewer variables.",
)


@parameters
class Linkage(Measure):
    """Share of records that an attacker links to the right person by nearness.

    Question: with a register of exact values, how many of the released records can be named?
    Assumes: the attacker knows the variables named exactly, for everybody in the release, and
    that everybody is in it. The value is the share of persons whose nearest released record is
    their own. Its interval (Wilson, 95 %) says how far chance alone could move it, if records
    were linked independently. The baseline is a guess: 1 of n.

    Beside it: `linked_backwards`, the share of released records whose nearest person is the
    right one; `assigned`, the share that is right when all are linked at once, one to one, at
    the least total of squared distances, as somebody would who holds the whole register (of
    several such assignments the one that links the most);
    `linkage_rescaled`, for an attacker who first gives the release the means and standard
    deviations of the original; and `linkage_by_noise`, for one who knows the size of the noise in
    each variable, as a manifest tells it, and weighs by 1 / variance, which for normal noise is the
    likelihood. A variable that was left exact, or nearly, must then fit, while in the plain
    distance it drowns in the noise of the others.

    A target on any of these numbers must hold for the best attacker: those above; one who weighs by
    the median change, where most values stayed and few moved far; one who weighs absolute
    distances, where the noise has heavy tails (Laplace); and, up to 20,000 records, those who use
    one variable alone, or leave out the noisiest ones. `best_attacker` names who did best. Records
    that the release removed are in none of these numbers.

    Where persons have several rows, a person is found if any of their rows leads to any row of
    theirs, and the best row counts. `assigned` is not measured then.

    Parameters
    ----------
    variables : the numbers that the attacker knows. Default: all numbers whose role is "quasi";
        if there are none, all whose role is "sensitive".
    standardise : distances in standard deviations of the original; otherwise in the units of the
        variables.
    distance : kind of distance: "euclidean", or "mahalanobis" by the covariance of the original.
    noise : what the attacker makes of the noise: "unknown", "reliability" or "matrix", as in
        `h_index`.
    noise_variances : published variance of the noise, by variable. Default: the attacker knows the
        covariance of the original itself.
    individuals : most records that are assigned: picked without pattern, at most 5000. Fewer are
        easier to tell apart, so the share among them is the higher. Default: all if there are at
        most 1000, otherwise none.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> schema = sf.Schema({"age": "quasi"})
    >>> original = sf.Dataset(pl.DataFrame({"age": [30.0, 40.0, 60.0]}), schema)
    >>> released = sf.Dataset(pl.DataFrame({"age": [39.0, 42.0, 58.0]}), schema)
    >>> found = Linkage().measure(original, released)
    >>> round(found.value, 3), found.details["assigned"]
    (0.667, 1.0)

    References: Domingo-Ferrer & Torra (2001), Disclosure control methods and information loss
    for microdata; Winkler (1998), Re-identification methods for evaluating the confidentiality
    of analytically valid microdata.
    """

    name = "linkage"
    attack = AttackWording(
        title="Linking by numbers",
        control="a blind guess",
        sentence="Somebody with a register of everybody's exact numbers picks the right record for "
        "{success} of the people. A blind guess would be right for {control}.",
    )
    examples = (
        {},
        {"variables": ["height", "glucose"], "distance": "mahalanobis", "noise": "matrix"},
        {"variables": ["height", "systolic"], "standardise": False, "individuals": 50},
    )
    of = "pair"
    counts_persons = True
    numbers = (
        Number.share("linkage"),
        Number.share("linked_backwards"),
        Number.share("linkage_rescaled"),
        Number.share("linkage_by_noise"),
        Number.share("assigned"),
    )
    variables: list[str] | None = None
    standardise: bool = True
    distance: Literal["euclidean", "mahalanobis"] = "euclidean"
    noise: Literal["unknown", "reliability", "matrix"] = "unknown"
    noise_variances: dict[str, Variance] | None = None
    individuals: Annotated[int, Field(ge=2, le=_MOST)] | None = None

    def __post_init__(self) -> None:
        if self.noise_variances is not None and self.noise == "unknown":
            wrong = 'needs noise = "reliability" or "matrix".'
            raise ParameterError(type(self).__name__, [("noise_variances", wrong)])

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Link everybody by nearness, in either direction and all at once."""
        del engine  # all records are in memory
        known = knowledge(original, released, self.variables, owner=self.name)
        units = known.units
        compared = expected(known, self.noise, self.noise_variances, owner=self.name)
        where, again = (
            self._space(known, values) for values in (compared, rescaled(known, compared))
        )
        links = [self._link(where, units, back=back) for back in (False, True)]
        forwards, backwards = (units.reduce(np.fmax, chances) for chances in links)
        assignment = self._assign(where, units)
        numbers = _numbers(forwards, backwards, assignment)
        noise = estimate_noise(known, where, known.released)
        others = {_RESCALED: self._attack(again, units)}
        for words, weighed in weigh_by_noise(where, noise).items():
            others[words] = self._attack(weighed, units)
        others |= self._try_parts(where, noise, units)
        worst = _choose_worst(numbers, others, known.unseen)
        value, count = numbers[self.name], len(forwards)
        best = max(others, key=lambda words: others[words][self.name])
        return Evidence(
            name=self.name,
            subject="pair",
            value=value,
            interval=wilson(value, count),
            direction=self.direction,
            baseline=1 / count,
            records=original.like(
                tabulate_records(known.complete, {"linked": links[0], "linked_backwards": links[1]})
            ),
            table=original.like(_table(forwards, backwards, others)),
            details={
                "linked_backwards": numbers["linked_backwards"],
                "linkage_rescaled": others[_RESCALED][self.name],
                "linkage_by_noise": others[BY_LIKELIHOOD][self.name],
                **assignment,
                **worst,
                "best_attacker": best if others[best][self.name] > value else _PLAIN,
                "best_share": max(others[best][self.name], value),
                "comparable_records": int(known.complete.sum()),
                "records": len(known.complete),
                **units.details(),
                "variables": tuple(where.names),
            },
            assumptions=(
                *units.describe(),
                f"The attacker knows exactly, of everybody: {', '.join(where.names)}.",
                *_ASSUMPTIONS,
            ),
            warnings=(
                *known.warnings,
                *where.warnings,
                *_warn_of_better(best, others[best][self.name], value),
            ),
        )

    def _attack(self, where: Space, units: Units) -> dict[str, Any]:
        """The numbers of one more attacker."""
        forwards, backwards = (
            units.reduce(np.fmax, self._link(where, units, back=back)) for back in (False, True)
        )
        return _numbers(forwards, backwards, self._assign(where, units))

    def _try_parts(
        self, where: Space, noise: NoiseModel, units: Units
    ) -> dict[str, dict[str, Any]]:
        """Attackers who link persons to the release by parts of what is known, or otherwise."""
        shares: dict[str, dict[str, Any]] = {}
        width = len(where.names)
        if noise.heavy_tails.any():
            chances = link_by_absolute_distance(noise, units)
            shares[_ABSOLUTE] = {self.name: mean_of(units.reduce(np.fmax, chances))}
        if width == 1 or len(where.original) > _FEW_ENOUGH:
            return shares
        # As they stand, not on a fitted line: a variable most of whose values did not change.
        unfitted = replace(
            where,
            original=where.plain,
            released=noise.released,
            scale=1 / where.deviations,
            sizes=None,
        )
        parts = {
            f"uses '{name}' alone": select_variables(unfitted, [column])
            for column, name in enumerate(where.names)
        }
        if width <= _WIDEST:
            weighed = replace(unfitted, original=noise.fitted, scale=1 / noise.deviations)
            order = sorted(range(width), key=lambda column: (noise.relative[column], column))
            for size in range(2, width):
                words = f"leaves out the noisiest {width - size}"
                parts[words] = select_variables(weighed, sorted(order[:size]))
        for words, part in parts.items():
            chances = self._link(part, units, back=False)
            shares[words] = {self.name: mean_of(units.reduce(np.fmax, chances))}
        return shares

    def _space(self, known: Knowledge, compared: Floats) -> Space:
        how: Any = {"standardise": self.standardise, "distance": self.distance}
        return space(known, compared, **how, owner=self.name)

    def _link(self, where: Space, units: Units, *, back: bool) -> Floats:
        """Each record's chance of being linked correctly, from the person or from the release."""
        from sfumato.kernels.trees.ranks import nearest

        sides = (where.released, where.original) if back else (where.original, where.released)
        try:
            links = nearest(*sides, where.scale, sizes=where.sizes)
        except ValueError as error:
            raise MeasureError(
                f"'{self.name}' cannot be computed: {error}", hint="give values in another unit."
            ) from None
        if units.one_row_each:
            return np.where(links.is_pair, 1 / np.maximum(links.ties, 1), 0.0)
        targets, points = (side * where.scale for side in sides)

        def measure(mine: Positions, theirs: Positions) -> Floats:
            gaps: Floats = ((targets[mine] - points[theirs]) ** 2).sum(axis=1)
            return gaps

        own_rows = count_near(units, measure, links.squared * _ROUNDING)
        return share_nearest(np.maximum(own_rows, links.is_pair), links.ties)

    def _assign(self, where: Space, units: Units) -> dict[str, Any]:
        if not units.one_row_each:
            why = "it is not measured for persons with several rows."
            return {"assigned": math.nan, "assigned_reason": why, "assigned_records": 0}
        count = len(where.original)
        size = count if self.individuals is None else min(count, self.individuals)
        if self.individuals is None and count > _AT_ONCE:
            why = (
                f"{count} records take long to assign all at once; say how many to pick: "
                f"individuals = {_AT_ONCE}."
            )
            return {"assigned": math.nan, "assigned_reason": why, "assigned_records": 0}
        original, released = where.original, where.released
        # A sample is drawn by content: the same records whatever their order.
        if size < count:
            rows = sample_pairs(original, released, size)
            original, released = original[rows], released[rows]
        share = count_correct_links(original, released, where.scale) / size
        low, high = wilson(share, size)
        return {
            "assigned": share,
            "assigned_low": low,
            "assigned_high": high,
            "assigned_records": size,
            "assigned_by_chance": 1 / size,
        }


def _numbers(forwards: Floats, backwards: Floats, assignment: dict[str, Any]) -> dict[str, float]:
    """What a target may be set on; where a sample was assigned, the bad end of its interval."""
    is_sample = 0 < assignment["assigned_records"] < len(forwards)
    return {
        Linkage.name: mean_of(forwards),
        "linked_backwards": mean_of(backwards),
        "assigned": assignment["assigned_high" if is_sample else "assigned"],
    }


def _choose_worst(
    numbers: dict[str, Any], others: dict[str, dict[str, Any]], unseen: str
) -> dict[str, Any]:
    """What targets are checked against: on whomever they are set, the best attacker counts."""
    linked = {
        words: {**shares, **dict.fromkeys(_SHARES, shares[Linkage.name])}
        for words, shares in others.items()
    }
    by_distance = {**numbers, **dict.fromkeys(_SHARES, numbers[Linkage.name])}
    return choose_worst(by_distance, linked.values(), unseen)


def _table(forwards: Floats, backwards: Floats, others: dict[str, dict[str, Any]]) -> pl.DataFrame:
    """The share either way and for each other attacker, its interval, and how many are certain."""
    rows: list[tuple[Any, ...]] = []
    for way, chances in ((_PLAIN, forwards), (_BACKWARDS, backwards)):
        share = mean_of(chances)
        rows.append((way, share, *wilson(share, len(chances)), int((chances == 1.0).sum())))
    for words, numbers in others.items():
        share = numbers[Linkage.name]
        rows.append((f"{_PLAIN}; {words}", share, *wilson(share, len(forwards)), None))
    names = ["way", "linkage", "low", "high", "certain_records"]
    return pl.DataFrame(rows, schema=names, orient="row")


def _warn_of_better(words: str, share: float, value: float) -> tuple[str, ...]:
    """Warn where the plain distance is far from the best that somebody can do."""
    if share < max(_EXPOSED, _MORE * value):
        return ()
    warning = (
        f"An attacker who {words} links a share of {share:.2f}, not {value:.2f}: targets are "
        "checked against the larger one."
    )
    return (warning,)
