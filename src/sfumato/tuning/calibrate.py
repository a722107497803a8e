"""The least noise that keeps an attacker far enough off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.errors import MeasureError
from sfumato.kernels.canonical import order_of
from sfumato.methods.noise import Noise
from sfumato.risk._attacks.knowledge import knowledge
from sfumato.risk._attacks.spaces import space
from sfumato.tuning.exposed import OWNER, Who, groups
from sfumato.tuning.trials import Asked, Attack, Trial, sureness
from sfumato.tuning.ways import Way, Ways, brief

_FIRST, _LEAST = 0.1, 1e-4
_FEWEST = 2


@dataclass(frozen=True, eq=False, kw_only=True)
class Calibrated:
    """Noise that meets what was asked for; or the reason why none does.

    Parameters
    ----------
    step : the noise, as a step of a plan. Where nothing met what was asked for, the most that
        was tried.
    met : whether what was asked for is met, with the margin that chance may take (97.5 % sure).
    asked, goal : what was asked for, in words and as a number.
    share : the variance of the noise as a share of that of the variable, times its weight.
    achieved, error : what was reached in the worst group, and its Monte Carlo standard error.
    worst : that group.
    table : a row per size that was tried.
    groups : a row per group, at the size that was chosen.
    warnings : what was left out.
    reason : why not, where it is not met.
    offers : other noise that does meet it, tried the same way: with released values cut off at
        the tails, or with more noise there. Each is a `Calibrated` of its own.
    """

    step: Noise
    met: bool
    asked: str
    goal: float
    share: float
    achieved: float
    error: float
    worst: str
    table: Any = field(repr=False)
    groups: Any = field(repr=False)
    warnings: tuple[str, ...] = ()
    reason: str = ""
    offers: tuple[Calibrated, ...] = ()


def calibrate(  # noqa: PLR0913 - the options are the interface
    data: Dataset,
    variables: Sequence[str] | None = None,
    *,
    mean_h: float | None = None,
    below: int = 3,
    at_most: float | None = None,
    who: Who = "all",
    by: str = "sum",
    weights: Mapping[str, float] | None = None,
    known: Sequence[str] | None = None,
    draws: int = 10,
    precision: float = 0.02,
    largest: float = 1.0,
    **options: Any,
) -> Calibrated:
    """Find the least noise with which an attacker lands far enough off.

    Question: how much noise is enough, and no more?
    Assumes: the attacker knows the true values of `known` and takes the nearest released record,
    by distances in standard deviations. h says how many persons are nearer to the target than the
    one taken for them. The same draws serve every size of noise, so the search is monotone but for
    a little chance, and repeats. A release draws anew: put a target on it too.

    Parameters
    ----------
    data : the original records.
    variables : the numbers to add noise to. Default: what the attacker knows.
    mean_h : the least mean of h.
    below, at_most : the highest share of records whose h lies below a limit. Give `mean_h` or
        `at_most`.
    who : for whom it must hold: "all" together; "deciles", each tenth of the records along `by`;
        or a share such as 0.05: the records that have the fewest others around.
    by : the order of the tenths: "sum" of the variables, "distance" from the centre, a variable.
    weights : how much noise each variable gets in proportion. Less for what analysts need most.
    known : what the attacker knows. Default: the numbers whose role is "quasi", else "sensitive".
    draws : how often each size is drawn. The error falls with its root.
    precision : stop when the size is known within this share of itself.
    largest : the largest share of the variance to try.
    options : further parameters of the method `noise`, such as `scale` or `distribution`.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(300), sf.datasets.cohort_schema())
    >>> found = calibrate(data, ["height", "weight_kg"], known=["height", "weight_kg"], mean_h=3)
    >>> found.met, found.achieved >= 3
    (True, True)

    References: Goldstein & Shlomo (2020), A probabilistic procedure for anonymisation and analysis
    of perturbed datasets, Eq. 2.
    """
    asked = _asked(mean_h, below, at_most)
    _require_sense(draws, precision, largest)
    attack = _attack(data, known or variables, who, by, asked, draws)
    names = tuple(variables) if variables is not None else tuple(attack.columns)
    unseen = [name for name in names if name not in attack.columns]
    if len(unseen) == len(names):
        raise MeasureError(
            "The attacker knows none of the variables that get noise, so none is needed.",
            hint="name them in `known`.",
        )
    ways = Ways(data, names, _weights(weights, names), options)
    search = _Search(data, attack, asked, largest, precision)
    found = search.of(ways.plain)
    if found.met:
        return found
    offers = [search.of(way) for way in ways.tails()]
    return replace(
        found,
        reason=_why(found, asked, len(next(iter(attack.columns.values())))),
        offers=tuple(one for one in offers if one.met),
    )


def _why(found: Calibrated, asked: Asked, records: int) -> str:
    """Why nothing suffices."""
    by_chance = (records - 1) / 2
    if asked.mean_h is not None and asked.mean_h >= by_chance:
        return (
            f"Whoever picks one of the {records} records by chance lands {by_chance:g} persons off "
            "on average, so no noise takes them farther."
        )
    return (
        f"Noise of {found.share:g} times the variance of the variables does not suffice for "
        f"{found.worst}. Some records lie far from all others, and stay so."
    )


@dataclass(frozen=True, eq=False)
class _Search:
    """What does not change while sizes of noise are tried."""

    data: Dataset
    attack: Attack
    asked: Asked
    largest: float
    precision: float

    def of(self, way: Way) -> Calibrated:
        """The least size of one way to add noise."""
        trials = _searched(lambda share: self._tried(way(share), share), self)
        chosen = _chosen(trials)
        return Calibrated(
            step=way(chosen.share),
            met=chosen.met,
            asked=self.asked.said(),
            goal=self.asked.goal,
            share=chosen.share,
            achieved=chosen.values[chosen.worst],
            error=chosen.errors[chosen.worst],
            worst=self.attack.groups[chosen.worst].name,
            table=self.data.like(_path(trials, self.attack.draws)),
            groups=self.data.like(_by_group(chosen, self.attack)),
            warnings=self.attack.warnings,
        )

    def _tried(self, step: Noise, share: float) -> Trial:
        fitted = step.fit(self.data, engine_for(self.data.frame))
        noise = step.describes(fitted, self.data.schema)
        columns = self.attack.columns
        told = {name: one for name, one in noise.items() if name in columns}
        return self.attack.trial(told, self.asked, share)


def _asked(mean_h: float | None, below: int, at_most: float | None) -> Asked:
    if (mean_h is None) == (at_most is None):
        raise MeasureError(
            "Say what must hold: `mean_h`, or `at_most` for the share of records below a limit.",
            hint="for instance mean_h=3, or below=3, at_most=0.1.",
        )
    if mean_h is not None and not (np.isfinite(mean_h) and mean_h > 0):
        raise MeasureError("`mean_h` is a number above 0.")
    if at_most is not None and not 0 < at_most < 1:
        raise MeasureError("`at_most` is a share, above 0 and below 1.")
    if below < 1:
        raise MeasureError("`below` is 1 or more.")
    return Asked(mean_h, below, at_most)


def _require_sense(draws: int, precision: float, largest: float) -> None:
    if draws < _FEWEST:
        raise MeasureError("An error takes at least two draws.", hint="give a larger `draws`.")
    if not 0 < precision < 1 or not _LEAST < largest <= 1:
        raise MeasureError("`precision` and `largest` are shares, above 0 and at most 1.")


def _attack(
    data: Dataset, known: Sequence[str] | None, who: Who, by: str, asked: Asked, draws: int
) -> Attack:
    told = knowledge(data, data, known, owner=OWNER)
    if len(told.original) < _FEWEST:
        raise MeasureError("There is one record only; no noise hides it among others.")
    # In an order that depends on the values alone, so that the draws do too.
    order = order_of(list(told.original.T))
    told = replace(told, original=told.original[order], released=told.released[order])
    where = space(told, told.original, standardise=True, distance="euclidean", owner=OWNER)
    near = asked.below if asked.at_most is not None else max(1, int(np.ceil(asked.goal)))
    columns = {name: where.plain[:, at].copy() for at, name in enumerate(where.names)}
    return Attack(
        columns,
        where.scale,
        groups(where, who, by=by, near=near),
        draws,
        (*told.warnings, *where.warnings),
    )


def _weights(weights: Mapping[str, float] | None, names: Sequence[str]) -> dict[str, float]:
    """Weights by variable, the largest 1."""
    given = dict(weights or {})
    unknown = ", ".join(f"'{name}'" for name in given if name not in names)
    if unknown:
        raise MeasureError(f"These have a weight, but get no noise: {unknown}.")
    if not all(np.isfinite(one) and one > 0 for one in given.values()):
        raise MeasureError(
            "A weight is a number above 0.",
            hint="leave a variable without noise out of `variables`.",
        )
    told = {name: float(given.get(name, 1.0)) for name in names}
    return {name: one / max(told.values()) for name, one in told.items()}


def _searched(tried: Callable[[float], Trial], search: _Search) -> list[Trial]:
    """Sizes from small to large: first one that suffices and one that does not, then between."""
    trials = [tried(min(_FIRST, search.largest))]
    while not trials[-1].met and trials[-1].share < search.largest:
        trials.append(tried(min(trials[-1].share * 4, search.largest)))
    while trials[0].met and trials[0].share > _LEAST:
        trials.insert(0, tried(max(trials[0].share / 4, _LEAST)))
    while (pair := _between(trials)) and pair[1].share > pair[0].share * (1 + search.precision):
        middle = brief(float(np.sqrt(pair[0].share * pair[1].share)))
        if not pair[0].share < middle < pair[1].share:
            break
        trials = sorted([*trials, tried(middle)], key=lambda one: one.share)
    return trials


def _between(trials: Sequence[Trial]) -> tuple[Trial, Trial] | None:
    """The largest size that failed, and the next one, from which on all suffice."""
    failed = [at for at, one in enumerate(trials) if not one.met]
    if not failed or failed[-1] == len(trials) - 1:
        return None
    return trials[failed[-1]], trials[failed[-1] + 1]


def _chosen(trials: Sequence[Trial]) -> Trial:
    pair = _between(trials)
    if pair is not None:
        return pair[1]
    return trials[0] if trials[0].met else trials[-1]


def _path(trials: Sequence[Trial], draws: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "share": [one.share for one in trials],
            "achieved": [one.values[one.worst] for one in trials],
            "error": [one.errors[one.worst] for one in trials],
            "margin": [one.errors[one.worst] * sureness(draws) for one in trials],
            "met": [one.met for one in trials],
        }
    )


def _by_group(trial: Trial, attack: Attack) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "group": [one.name for one in attack.groups],
            "records": [int(one.among.sum()) for one in attack.groups],
            "achieved": trial.values,
            "error": trial.errors,
        }
    )
