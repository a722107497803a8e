"""How many persons are nearer to a target than the one an attacker takes for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Mask
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.parameters import ParameterError, parameters
from sfumato.risk.attacks.adjustments import expected, rescaled
from sfumato.risk.attacks.distances import Space, space
from sfumato.risk.attacks.knowledge import Knowledge, knowledge
from sfumato.risk.attacks.likelihood import BY_LIKELIHOOD, estimate_noise, weigh_by_noise
from sfumato.risk.attacks.outcomes import (
    choose_worst,
    mean_of,
    summarise_means,
    tabulate_distribution,
    tabulate_groups,
    tabulate_records,
)
from sfumato.risk.attacks.owners import choose_targets, keep_best_rows, rank_units
from sfumato.risk.attacks.targets import Groups, at_quantiles, order_values, tenths

if TYPE_CHECKING:
    from sfumato.kernels.trees.ranks import Ranks

Quantile = Annotated[float, Field(ge=0, le=1)]
Variance = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_TAIL = 0.05
"""The share of records, farthest from the centre, that count as the tail."""
_EXPOSED = 0.1
"""A share of the tail that is worth a warning, if it is twice that of everybody."""
_UNITS = 1.5
"""How much more is found after rescaling before it is worth a warning."""
_PLAIN, _RESCALED = "plain distance", "gives the release the original's means and SDs"
_EVERYBODY = "Each record is the attacker's target in turn."
_AT = "The attacker's targets are the records at the quantiles named."
_DISTANCES = {
    "mahalanobis": "The distance is Mahalanobis', by the covariance of the original.",
    "standardised": "Distances are Euclidean, in standard deviations of the original.",
    "euclidean": "Distances are Euclidean, in the units of the variables.",
}
_NOISE = {
    "unknown": "The attacker compares with the released values as they are.",
    "reliability": "The attacker knows how reliable each variable is, and draws it to its mean.",
    "matrix": "The attacker knows the noise, and compares with the expected original values.",
}
_JUDGED = (
    "A target is checked against the best attacker: one knows the size of the noise, as a manifest "
    "tells it, and weighs each variable by it."
)
_TIES = "Of several released records that are equally near, the attacker takes any by chance."


@parameters
class HIndex(Measure):
    """Share of records for which an attacker comes within p persons of the target.

    Question: when somebody who knows a person takes the nearest released record for them, how
    many other persons are nearer to that person than the one they found? That number is h.
    Assumes: the attacker knows that the person is in the release, knows the variables named
    exactly, and nothing of other persons. h = 0 means found (or somebody with equal values); the
    value is Pr(h < p). h counts persons strictly nearer; of several nearest released records the
    attacker takes any by chance, so a record's h is the mean over them. Equally near is meant in
    exact arithmetic: neither the unit nor the order of the variables matters. Records that the
    release removed are neither targets nor counted. The baseline is a pick by chance: p of n.

    Beside it: `pr_h_0`; `mean_h`, where more is better; the worst group of the table for either
    (`h_index_worst_group`, `mean_h_worst_group`); `h_index_tail`, the share among the 5 % of
    records that are farthest from the centre; `h_index_rescaled`, the share for an attacker
    who first gives the release the means and standard deviations of the original; and
    `h_index_by_noise`, for one who knows the size of the noise in each variable, as a manifest
    tells it, and weighs by 1 / variance, which for normal noise is the likelihood: what was left
    exact, or nearly, must then fit. A target on any of these numbers must hold for the best of
    these attackers, and for one who weighs by the median change where that differs.
    `best_attacker` names who did best. The value itself is that of the paper's attacker, who weighs
    all variables alike.

    Where persons have several rows, h counts persons, and each person is looked for by the row
    that is found best; groups, `at` and `by` order rows. Every row of a target is compared with
    all others: of more than about 30,000 rows only some persons are looked for, and no target can
    be held against that.

    One release holds one draw of the noise. For the mean over draws, see
    `sfumato.attackers.redrawn`.

    Parameters
    ----------
    variables : the numbers that the attacker knows. Default: all numbers whose role is "quasi";
        if there are none, all whose role is "sensitive".
    standardise : distances in standard deviations of the original; otherwise in the units of the
        variables.
    distance : kind of distance: "euclidean", or "mahalanobis" by the covariance of the original.
    p : fewest persons nearer than the one found that are enough.
    noise : what the attacker makes of the noise: "unknown" takes the released values as they
        are; "reliability" draws each variable to its mean by var(y)/var(z); "matrix" takes the
        expected values under both covariances.
    noise_variances : published variance of the noise, by variable. Default: the attacker knows the
        covariance of the original itself.
    by : order of the people looked for: "sum" of the variables, "distance" from the centre, or a
        variable.
    at : look only at these quantiles of that order; a target cannot rest on them. Default:
        everybody, told by tenths.
    cap : stop counting at so many, which is faster; the mean of h is then not known.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> schema = sf.Schema({"age": "quasi"})
    >>> original = sf.Dataset(pl.DataFrame({"age": [30.0, 40.0, 60.0, 61.0]}), schema)
    >>> released = sf.Dataset(pl.DataFrame({"age": [32.0, 62.0, 38.0, 59.0]}), schema)
    >>> found = HIndex(p=1).measure(original, released)
    >>> found.value, found.records["h"].to_list(), found.details["mean_h"]
    (0.25, [0.0, 2.0, 1.0, 2.0], 1.25)

    References: Goldstein & Shlomo (2020), A probabilistic procedure for anonymisation, for
    assessing the risk of disclosure and for the analysis of perturbed data sets, section 2.
    """

    name = "h_index"
    picture = "landing"
    examples = (
        {},
        {
            "variables": ["height", "weight_kg", "glucose"],
            "distance": "mahalanobis",
            "noise": "matrix",
            "at": [0.1, 0.5, 0.9],
            "by": "distance",
        },
        {"variables": ["height", "systolic"], "noise": "reliability", "p": 2, "cap": 5},
    )
    of = "pair"
    counts_persons = True
    numbers = (
        Number.share("h_index", usual=True),
        Number.distance(
            "mean_h",
            meaning="Persons who lie nearer to the target than the one an attacker finds, on "
            "average.",
        ),
        Number.share("pr_h_0"),
        Number.share("h_index_rescaled"),
        Number.share("h_index_by_noise"),
        Number.share("h_index_tail"),
        Number.share("h_index_worst_group"),
        Number.distance("mean_h_worst_group"),
    )
    variables: list[str] | None = None
    standardise: bool = True
    distance: Literal["euclidean", "mahalanobis"] = "euclidean"
    p: Annotated[int, Field(ge=1)] = 3
    noise: Literal["unknown", "reliability", "matrix"] = "unknown"
    noise_variances: dict[str, Variance] | None = None
    by: str = "sum"
    at: list[Quantile] | None = None
    cap: Annotated[int, Field(ge=1, le=2**30)] | None = None

    def __post_init__(self) -> None:
        wrong = []
        if self.cap is not None and self.cap < self.p:
            wrong.append(("cap", f"must be at least p, which is {self.p}."))
        if self.noise_variances is not None and self.noise == "unknown":
            wrong.append(("noise_variances", 'needs noise = "reliability" or "matrix".'))
        if self.at is not None and (not self.at or len(set(self.at)) < len(self.at)):
            wrong.append(("at", "must name some quantiles, each once."))
        if wrong:
            raise ParameterError(type(self).__name__, wrong)

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Attack every target, and count who is nearer than the one found."""
        del engine  # all records are in memory
        known, where, groups, ranks_of_targets = self._attack(original, released)
        table = tabulate_groups(ranks_of_targets, groups, p=self.p, share=self.name)
        numbers = self._numbers(where, ranks_of_targets, table)
        others = {}
        for words, space_of_attacker in self._list_attackers(known, where).items():
            again = self._rank(space_of_attacker, self._mark_targets(where, groups), known)
            table_of_attacker = tabulate_groups(again, groups, p=self.p, share=self.name)
            others[words] = self._numbers(where, again, table_of_attacker)
        value = numbers.pop(self.name)
        best = max(others, key=lambda words: others[words][self.name])
        return Evidence(
            name=self.name,
            subject="pair",
            value=value,
            direction=self.direction,
            baseline=min(self.p / known.units.count, 1.0),
            sampled=(
                (table["targets"][0], known.units.count)
                if self._choose_persons(known, None) is not None
                else None
            ),
            records=original.like(self._records(known, ranks_of_targets)),
            table=original.like(table),
            details={
                **numbers,
                "h_index_rescaled": others[_RESCALED][self.name],
                "h_index_by_noise": others[BY_LIKELIHOOD][self.name],
                **self._choose_worst(
                    {self.name: value, **numbers}, others, self._explain_unseen_values(known)
                ),
                "best_attacker": best if others[best][self.name] > value else _PLAIN,
                "p": self.p,
                "targets": table["targets"][0],
                "targets_with_ties": int((ranks_of_targets.ties > 1).sum()),
                "comparable_records": len(known.original),
                "records": len(known.complete),
                **known.units.details(),
                "by": self.by,
                "variables": tuple(where.names),
            },
            assumptions=(
                *known.units.describe(),
                *self._assumptions(where),
            ),
            warnings=(
                *known.warnings,
                *where.warnings,
                *self._warn_of_tail(numbers["h_index_tail"], value),
                *_warn_of_rescaling(others[_RESCALED][self.name], value),
                *_warn_of_noise(others[BY_LIKELIHOOD][self.name], value),
            ),
        )

    def distribution(self, original: Dataset, released: Dataset, *, most: int = 20) -> Any:
        """The distribution of h by group of targets: Pr(h = x) and Pr(h <= x) for x up to `most`.

        The first group is everybody; the others are as in the table.
        """
        if most < 0 or (self.cap is not None and self.cap <= most):
            wrong = "must be at least 0, and below the cap."
            raise ParameterError("HIndex.distribution", [("most", wrong)])
        _, _, groups, ranks_of_targets = self._attack(original, released)
        return original.like(tabulate_distribution(ranks_of_targets, groups, most=most))

    def _attack(
        self, original: Dataset, released: Dataset
    ) -> tuple[Knowledge, Space, Groups, Ranks]:
        known = knowledge(original, released, self.variables, owner=self.name)
        where = self._space(known, self._adjust(known))
        values = order_values(where, self.by, standardise=self._is_standard(), owner=self.name)
        groups = tenths(values) if self.at is None else at_quantiles(values, self.at)
        return known, where, groups, self._rank(where, self._mark_targets(where, groups), known)

    def _choose_persons(self, known: Knowledge, among: Mask | None) -> Mask | None:
        """The rows that are looked for where persons have several: of all persons, or of some."""
        some = choose_targets(known.units)
        if some is None or among is None:
            return among if some is None else some
        return among & some if (among & some).any() else among

    def _mark_targets(self, where: Space, groups: Groups) -> Mask | None:
        """Only the targets are ranked, among all records; None: all are."""
        if self.at is None:
            return None
        among = np.zeros(len(where.original), bool)
        among[np.concatenate(groups.rows)] = True
        return among

    def _list_attackers(self, known: Knowledge, where: Space) -> dict[str, Space]:
        """Those who give the release the original's means and SDs, or know the noise."""
        noise = estimate_noise(known, where, known.released)
        return {
            _RESCALED: self._space(known, rescaled(known, self._adjust(known))),
            **weigh_by_noise(where, noise),
        }

    def _explain_unseen_values(self, known: Knowledge) -> str:
        """Why no target can be held against this: some were not compared, or not looked for."""
        if self.at is not None:
            return (
                "only the records at some quantiles were looked for; for a target leave `at` out."
            )
        if self._choose_persons(known, None) is not None:
            return "only some of the persons were looked for, since there are very many rows."
        return known.unseen

    def _choose_worst(
        self, numbers: dict[str, Any], others: dict[str, dict[str, Any]], unseen: str
    ) -> dict[str, Any]:
        """What targets are checked against: on whomever they are set, the best attacker counts."""
        shares = ("h_index_rescaled", "h_index_by_noise")
        attackers = [
            {**attacker, **dict.fromkeys(shares, attacker[self.name])}
            for attacker in (numbers, *others.values())
        ]
        return choose_worst(attackers[0], attackers[1:], unseen)

    def _numbers(self, where: Space, h: Ranks, table: pl.DataFrame) -> dict[str, Any]:
        """What a target may be set on, and the reason where it is not known."""
        return {
            self.name: table[self.name][0],
            **summarise_means(table),
            "pr_h_0": table["pr_h_0"][0],
            "h_index_worst_group": max(table[self.name][1:]),
            **self._tail(where, h),
        }

    def _adjust(self, known: Knowledge) -> Floats:
        return expected(known, self.noise, self.noise_variances, owner=self.name)

    def _space(self, known: Knowledge, compared: Floats) -> Space:
        how: Any = {"standardise": self.standardise, "distance": self.distance}
        return space(known, compared, **how, owner=self.name)

    def _rank(self, where: Space, among: Mask | None, known: Knowledge) -> Ranks:
        looked = self._choose_persons(known, among)
        try:
            ranked = rank_units(
                where.original,
                where.released,
                where.scale,
                known.units,
                cap=self.cap,
                among=looked,
                sizes=where.sizes,
            )
        except ValueError as error:
            raise MeasureError(
                f"'{self.name}' cannot be computed: {error}",
                hint="look for fewer targets, at = [0.1, 0.5, 0.9], or at values in another unit.",
            ) from None
        return keep_best_rows(ranked, known.units, self.p, looked)

    def _is_standard(self) -> bool:
        return self.standardise or self.distance == "mahalanobis"

    def _tail(self, where: Space, h: Ranks) -> dict[str, Any]:
        """Pr(h < p) for those farthest from the centre: the same noise hides them less."""
        if self.at is not None:
            why = "only some quantiles were looked at."
            return {"h_index_tail": math.nan, "h_index_tail_reason": why}
        distance_from_centre = order_values(where, "distance", standardise=True, owner=self.name)
        farthest = (
            distance_from_centre
            >= np.sort(distance_from_centre)[-max(1, int(_TAIL * len(distance_from_centre) + 1e-9))]
        )
        farthest &= h.ties > 0
        if not farthest.any():
            why = "of the records farthest from the centre none is what its person is found by."
            return {"h_index_tail": math.nan, "h_index_tail_reason": why}
        return {"h_index_tail": mean_of(h.share_below(self.p)[farthest])}

    def _warn_of_tail(self, share: float, overall: float) -> tuple[str, ...]:
        """Warn where the tail stays exposed; not where it is not known."""
        if not share > max(2 * overall, _EXPOSED):
            return ()
        warning = (
            f"Of the records farthest from the centre, a share of {share:.2f} is found within "
            f"{self.p} persons, of all {overall:.2f}: what hides the others does not hide them. "
            "Top-code them, or let the noise grow with the value."
        )
        return (warning,)

    def _assumptions(self, where: Space) -> tuple[str, ...]:
        metric = "standardised" if self.standardise else "euclidean"
        names = ", ".join(where.names)
        return (
            f"The attacker knows that the person is in the release, and knows exactly: {names}.",
            _EVERYBODY if self.at is None else _AT,
            _DISTANCES["mahalanobis" if self.distance == "mahalanobis" else metric],
            _NOISE[self.noise],
            _TIES,
            _JUDGED,
        )

    def _records(self, known: Knowledge, h: Ranks) -> pl.DataFrame:
        columns = {
            "h": h.mean(),
            "pr_h_0": h.share_below(1),
            "pr_h_below_p": h.share_below(self.p),
        }
        return tabulate_records(known.complete, columns)


def _warn_of_rescaling(again: float, value: float) -> tuple[str, ...]:
    """Warn where the protection is little but a change of units."""
    if again <= max(_UNITS * value, _EXPOSED):
        return ()
    warning = (
        f"With the means and standard deviations of the original, a share of {again:.2f} is found, "
        f"not {value:.2f}: the release has moved or scaled everybody alike, which hides nobody."
    )
    return (warning,)


def _warn_of_noise(share: float, value: float) -> tuple[str, ...]:
    """Warn where some variables have so little noise that they find people by themselves."""
    if share <= max(_UNITS * value, _EXPOSED):
        return ()
    warning = (
        f"An attacker who weighs variables by their noise finds a share of {share:.2f}, not "
        f"{value:.2f}: some variables have too little noise for that of the others to help."
    )
    return (warning,)
