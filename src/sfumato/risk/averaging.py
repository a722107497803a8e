"""Who would be found by somebody who averages several releases under different keys."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Mask
from sfumato.kernels.exact_sums import exact_sum, standard_deviation
from sfumato.kernels.orders import order_by_content
from sfumato.measure import AttackWording, Measure, Trial
from sfumato.numbers import Number
from sfumato.parameters import ParameterError, parameters
from sfumato.risk.attacks.distances import space
from sfumato.risk.attacks.knowledge import Knowledge, knowledge
from sfumato.risk.attacks.likelihood import BY_LIKELIHOOD, estimate_noise, weigh_by_noise
from sfumato.risk.attacks.outcomes import choose_worst, mean_of, tabulate_records, wilson
from sfumato.risk.attacks.owners import choose_targets, rank_units

_ASSUMPTIONS = (
    "The differences between release and original are noise that each key draws anew.",
    "Rows of the releases can be matched, and what is systematic in the noise is taken out first.",
    "Under one key there is nothing to average: the noise is the same each time.",
    "Other keys draw other noise, so a target is checked against the upper end of the interval.",
    "It is checked against the better of two attackers: one weighs each variable by its noise.",
)
_PLAIN = "plain distance"
Found = dict[str, tuple[Floats, Floats]]
"""By attacker: for each record Pr(h < p) and Pr(h = 0)."""
_LEAST = 0.01
"""A release that follows the original less than this shows next to nothing of it."""


@parameters
class Averaging(Measure):
    """Share of persons found within p persons after several releases under different keys.

    Question: how much protection would be left if these data were released again, with other
    noise?
    Assumes: the differences between release and original are noise, drawn anew under each key;
    the method `deterministic` and all recoding have none, and gain the attacker nothing. The mean
    of m draws deviates as one draw over the root of m: each record's own deviation is made so much
    smaller, and h (see `h_index`) is counted again. Nothing is drawn for this. What is systematic
    (a factor below 1, a shift) the attacker knows from the manifest, and takes out first. The value
    is Pr(h < p) at the largest number of releases; the baseline is Pr(h < p) for one release, which
    is also what any number of releases under one and the same key would give. The interval is
    Wilson's, 95 %. To draw releases and average them, see `sfumato.attackers.several`.

    Beside it: `averaging_by_noise`, for an attacker who weighs each variable by what is left of its
    noise (see `h_index`). What one key has drawn says only about how often another will do, so a
    target is checked against the upper end of the interval of the better attacker: a new key is no
    second chance.

    Where persons have several rows, h counts other persons, and the best row of a person counts.
    Every row is compared with all others: of more than about 30,000 rows only some persons are
    looked for, and the interval is wider. Where each has one row, as many as `individuals` says.

    Parameters
    ----------
    variables : the numbers that have noise; the attacker knows their exact values.
    releases : releases under different keys that are averaged.
    p : fewest persons nearer than the one found that are enough.
    individuals : most persons looked for, among all.
    tiers : other tiers that the attacker has under each key: each as its noise variance over that
        of this one. Tiers are nested, so only the best of them counts, once.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(500), sf.datasets.cohort_schema())
    >>> noise = sf.methods.Noise(variables=["systolic"], variance_share=0.2)
    >>> found = Averaging(variables=["systolic"]).measure(data, noise.apply(data, key=bytes(32)))
    >>> found.value > 1.5 * found.baseline
    True

    References: Goldstein & Shlomo (2020), A probabilistic procedure for anonymisation, for
    assessing the risk of disclosure and for the analysis of perturbed data sets.
    """

    name = "averaging"
    attack = AttackWording(
        title="Averaging releases",
        control="one key",
        sentence="After {releases} releases under different keys, {success} of the people would be "
        "found within {p} others. Under one key it stays at {control}, however often the "
        "data "
        "are released.",
        verdict="if other keys are used",
        against_release=True,
        hypothetical=True,
    )
    # It needs other keys, which the ledger watches over: said, but no verdict on this release.
    trial = Trial(exploits=("repeated readings",), acceptable=None, seconds=1.0)
    examples = (
        {"variables": ["height", "systolic"]},
        {"variables": ["glucose"], "releases": [3], "p": 1},
    )
    of = "pair"
    counts_persons = True
    numbers = (
        Number.share("averaging"),
        Number.share("averaging_by_noise"),
        Number.share("averaging_pr_h_0"),
    )
    variables: Annotated[list[str], Field(min_length=1)]
    releases: list[Annotated[int, Field(ge=2)]] = Field(default_factory=lambda: [2, 4, 10])
    p: Annotated[int, Field(ge=1)] = 3
    individuals: Annotated[int, Field(ge=1)] = 20_000
    tiers: list[Annotated[float, Field(gt=0, allow_inf_nan=False)]] | None = None

    def __post_init__(self) -> None:
        if not self.releases or sorted(set(self.releases)) != self.releases:
            wrong = "must be some numbers of releases, in rising order."
            raise ParameterError(type(self).__name__, [("releases", wrong)])

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Make the noise smaller, and count again who is found."""
        del engine  # all records are in memory
        known = knowledge(original, released, self.variables, owner=self.name)
        # Of nested tiers the best tells all that the others do: no further draw is averaged.
        noise = _estimate_noise(known) * math.sqrt(min(1.0, *(self.tiers or [1.0])))
        units = known.units
        of_rows = {many: self._attack(known, noise, many) for many in (1, *self.releases)}
        below = {many: shares[_PLAIN][0] for many, shares in of_rows.items()}
        by_releases: dict[int, Found] = {
            many: {
                words: (
                    _drop_missing_shares(units.reduce(np.fmax, close)),
                    _drop_missing_shares(units.reduce(np.fmax, zero)),
                )
                for words, (close, zero) in by_attacker.items()
            }
            for many, by_attacker in of_rows.items()
        }
        most, last = self.releases[-1], by_releases[self.releases[-1]]
        value, alone = (mean_of(by_releases[many][_PLAIN][0]) for many in (most, 1))
        count = len(last[_PLAIN][0])
        return Evidence(
            name=self.name,
            subject="pair",
            value=value,
            interval=wilson(value, count),
            sampled=None if count == units.count else (count, units.count),
            direction=self.direction,
            baseline=alone,
            records=original.like(
                tabulate_records(
                    known.complete, {"one_release": below[1], f"{most}_releases": below[most]}
                )
            ),
            table=original.like(self._table(known, noise, by_releases)),
            details={
                "averaging_by_noise": mean_of(last[BY_LIKELIHOOD][0]),
                "averaging_pr_h_0": mean_of(last[_PLAIN][1]),
                **_choose_worst(last, count, known.unseen),
                "by_chance": min(self.p / count, 1.0),
                "releases": most,
                "p": self.p,
                "comparable_records": len(known.original),
                "records": len(known.complete),
                **units.details(),
                "variables": tuple(known.names),
            },
            assumptions=(*units.describe(), *_ASSUMPTIONS),
            warnings=(*known.warnings, *_list_warnings(noise, known)),
        )

    def _attack(self, known: Knowledge, noise: Floats, releases: int) -> Found:
        """For each record Pr(h < p) and Pr(h = 0) after so many releases, by attacker."""
        # The mean of n independent draws has noise of 1 / sqrt(n) of the size.
        averaged = known.original + noise / math.sqrt(releases)
        where = space(known, averaged, standardise=True, distance="euclidean", owner=self.name)
        among = _draw(known, self.individuals)
        weighed = weigh_by_noise(where, estimate_noise(known, where, averaged))
        by_attacker: Found = {}
        for words, attacker in {_PLAIN: where, **weighed}.items():
            try:
                h = rank_units(
                    attacker.original,
                    attacker.released,
                    attacker.scale,
                    known.units,
                    among=among,
                    cap=self.p,
                    sizes=attacker.sizes,
                )
            except ValueError as error:
                raise MeasureError(
                    f"'{self.name}' cannot be computed: {error}",
                    hint="give values in another unit.",
                ) from None
            by_attacker[words] = h.share_below(self.p), h.share_below(1)
        return by_attacker

    def _table(
        self, known: Knowledge, noise: Floats, by_releases: dict[int, Found]
    ) -> pl.DataFrame:
        """What is left of the noise, and who is found, by the number of releases."""
        remaining = max(
            _share(part, truth) for part, truth in zip(noise.T, known.original.T, strict=True)
        )
        rows: list[dict[str, Any]] = []
        for releases, by_attacker in by_releases.items():
            below, zero = by_attacker[_PLAIN]
            rate = mean_of(below)
            low, high = wilson(rate, len(below))
            rows.append(
                {
                    "releases": releases,
                    "noise_sd_share_left": remaining / math.sqrt(releases),
                    self.name: rate,
                    "low": low,
                    "high": high,
                    "pr_h_0": mean_of(zero),
                    "by_noise": mean_of(by_attacker[BY_LIKELIHOOD][0]),
                }
            )
        return pl.DataFrame(rows)


def _draw(known: Knowledge, most: int) -> Mask | None:
    """The rows that are looked for, whatever the order of the records; None: all."""
    if not known.units.one_row_each:
        return choose_targets(known.units)
    if len(known.original) <= most:
        return None
    drawn = np.zeros(len(known.original), bool)
    drawn[order_by_content(known.original.T)[:most]] = True
    return drawn


def _drop_missing_shares(shares: Floats) -> Floats:
    """Without the persons who were not looked for."""
    return shares[~np.isnan(shares)]


def _choose_worst(by_attacker: Found, count: int, unseen: str) -> dict[str, Any]:
    """What targets are checked against: the best attacker, at the upper end of the interval."""
    ends = [
        {
            **dict.fromkeys(("averaging", "averaging_by_noise"), wilson(mean_of(below), count)[1]),
            "averaging_pr_h_0": wilson(mean_of(zero), count)[1],
        }
        for below, zero in by_attacker.values()
    ]
    return choose_worst(ends[0], ends[1:], unseen)


def _estimate_noise(known: Knowledge) -> Floats:
    """What chance has added to each value, on the scale of the original.

    By least squares, released = shift + factor * original + noise. For noise that is just added
    the factor is 1 but for chance; noise that keeps the spread has one below 1.
    """
    noise = np.zeros_like(known.original)
    for index, (truth, shown) in enumerate(zip(known.original.T, known.released.T, strict=True)):
        # What did not change, or does not vary, has no noise to average.
        spread = standard_deviation(truth)
        if not spread > 0 or np.array_equal(truth, shown):
            continue
        centred, moved = truth - mean_of(truth), shown - mean_of(shown)
        # The least-squares slope; the residual is the noise.
        factor = exact_sum(centred * moved) / exact_sum(centred * centred)
        noise[:, index] = (moved - factor * centred) / max(factor, _LEAST)
    return noise


def _share(noise: Floats, truth: Floats) -> float:
    """The standard deviation of the noise as a share of that of the variable."""
    spread = standard_deviation(truth)
    return standard_deviation(noise) / spread if spread > 0 else 0.0


def _list_warnings(noise: Floats, known: Knowledge) -> tuple[str, ...]:
    still = [name for name, part in zip(known.names, noise.T, strict=True) if not part.any()]
    if not still:
        return ()
    return (f"There is no noise to average, since nothing but units changed: {', '.join(still)}.",)
