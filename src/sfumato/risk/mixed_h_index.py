"""How far off an attacker lands who knows numbers, categories and ordered levels of a person."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Integers, Mask, Positions
from sfumato.kernels.exact_sums import exact_sum
from sfumato.measure import AT_WORST, Measure
from sfumato.numbers import Number
from sfumato.parameters import format_value, parameters
from sfumato.risk.attacks.attacker_view import (
    ROUNDING,
    VariableView,
    compute_costs,
    is_within,
    sample_units,
    view_release,
)
from sfumato.risk.attacks.imperfect_knowledge import blur_knowledge, draw_present
from sfumato.risk.attacks.outcomes import bound_share, mean_of
from sfumato.risk.known import known_variables, require_records
from sfumato.units import Units

Share = Annotated[float, Field(ge=0, le=1)]
_UP_TO = (0, 1, 2, 3, 5, 10, 20, 50, 100)
_ASSUMPTIONS = (
    "Distances: numbers and ranks count in standard deviations of the original.",
    "A different category is as far as one of them; a range or set counts by its values' mean.",
    "h counts the persons whose true values are nearer to the target's than the found one's are.",
    "Of several released records that are equally near, the attacker takes any by chance.",
    (
        "A target is checked against the better attacker; one knows how often and how far values "
        "moved."
    ),
)


@parameters
class MixedHIndex(Measure):
    """Share of persons whom an attacker comes within p persons of, by numbers and categories.

    Question: when somebody takes the nearest released record for a person they know by age, sex
    and occupation, how many others are nearer to that person than the one they found? That is h.
    Assumes: as `h_index`, whose value this is where all that is known are numbers without gaps.
    Beyond it, categories count: a different one is as far as one standard deviation of a number
    (Gower's distance, squared), ordered levels count by their ranks, and a released range, set or
    group by the mean over its values. `mixed_h_index_by_noise` is for an attacker who knows how
    values were changed, as a manifest tells it, and takes the likeliest record: numbers are weighed
    by 1 / variance of the noise, categories by how often a level became another, which is the
    likelihood of misclassification and of noise on codes. A target on any number must hold for the
    better of both, and, where only some persons were looked for, at the bad end of the interval.

    With `errors` and `sampling_fraction` the attacker knows less, as in `mixed_linkage`: for a
    person who is not in the file somebody else is found.

    Where persons have several rows, h is the number of persons one of whose rows is nearer to the
    target's than the one behind the row that was taken, and 0 where that is the person's own,
    whichever. The row by which a person is found best counts. The value is a share of persons.

    Parameters
    ----------
    known : the variables the attacker knows. Default: all whose role is "quasi".
    p : fewest persons nearer than the one found that are enough.
    individuals : most persons looked for: picked without pattern, among all records.
    errors : how wrong the attacker's knowledge is: for all variables or by variable. 0.1: a number
        is off by a normal error of 0.1 standard deviations, and a tenth of the categories is
        somebody else's.
    sampling_fraction : share of the persons looked for who are in the file.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": [30.0, 31.0, 60.0, 61.0], "sex": ["f", "m", "f", "m"]})
    >>> schema = sf.Schema({"age": "quasi", "sex": "quasi"})
    >>> original = sf.Dataset(frame, schema)
    >>> shown = pl.DataFrame({"age": [32.0, 29.0, 58.0, 62.0], "sex": ["f", "m", "f", "m"]})
    >>> found = MixedHIndex(p=1).measure(original, sf.Dataset(shown, schema))
    >>> found.value, found.details["mixed_mean_h"]
    (1.0, 0.0)

    References: Goldstein & Shlomo (2020), A probabilistic procedure for anonymisation, for
    assessing the risk of disclosure and for the analysis of perturbed data sets, section 2; Gower
    (1971), Biometrics 27:857.
    """

    name = "mixed_h_index"
    odd = {"one row": 1}
    examples = (
        {},
        {"known": ["sex", "region", "height", "birth_date"], "p": 1, "individuals": 60},
        {"known": ["sex", "height", "glucose"], "errors": 0.2, "sampling_fraction": 0.6},
    )
    of = "pair"
    counts_persons = True
    by_default = False
    numbers = (
        Number.share("mixed_h_index"),
        Number.distance("mixed_mean_h"),
        Number.share("mixed_h_0"),
        Number.share("mixed_h_index_by_noise"),
    )
    known: list[str] | None = None
    p: Annotated[int, Field(ge=1)] = 3
    individuals: Annotated[int, Field(ge=1)] = 1000
    errors: Share | dict[str, Share] = 0.0
    sampling_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Look for each person among all released records, and count who is nearer."""
        del engine  # all records are in memory
        require_records(len(original))
        known = known_variables(self.known, original, "original")
        views, warnings = view_release(original, released, known, owner=self.name)
        true_views = _view_persons(original, [view.name for view in views])
        units, total = original.units, original.units.count
        rows = sample_units(views, units, self.individuals)
        present = draw_present(views, self.sampling_fraction, units)
        blurred = blur_knowledge(views, self.errors)
        of_rows, of_rows_by_noise = (
            self._rank(blurred, true_views, rows, present, units, by_noise=by_noise)
            for by_noise in (False, True)
        )
        targets = units.take(rows)
        by_distance, weighed = (ranks.take_best(targets) for ranks in (of_rows, of_rows_by_noise))
        count = len(by_distance.mean)
        sampled = count < total
        shares = [mean_of(ranks.below) for ranks in (by_distance, weighed)]
        intervals = [
            bound_share(exact_sum(ranks.below), count, total) for ranks in (by_distance, weighed)
        ]
        worst = max(ends[1] for ends in intervals) if sampled else max(shares)
        return Evidence(
            name=self.name,
            subject="pair",
            value=shares[0],
            interval=intervals[0],
            direction=self.direction,
            baseline=min(self.p / total, 1.0),
            sampled=(count, total) if sampled else None,
            records=original.like(_records(len(original), rows, of_rows)),
            table=original.like(_tabulate(by_distance, weighed)),
            details={
                **self._list_numbers(by_distance, weighed, shares, worst, sampled=sampled),
                "targets": count,
                "records": len(original),
                **units.details(),
                "p": self.p,
                "variables": tuple(view.name for view in views),
            },
            assumptions=(
                self._describe_knowledge([view.name for view in views]),
                *units.describe(),
                *_ASSUMPTIONS,
            ),
            warnings=warnings,
        )

    def _list_numbers(
        self,
        by_distance: _Ranks,
        weighed: _Ranks,
        shares: list[float],
        worst: float,
        *,
        sampled: bool,
    ) -> dict[str, Any]:
        """What a target may be set on, and what it is checked against."""
        means = [mean_of(ranks.mean) for ranks in (by_distance, weighed)]
        zero = [mean_of(ranks.zero) for ranks in (by_distance, weighed)]
        details: dict[str, Any] = {
            "mixed_mean_h": means[0],
            "mixed_h_0": zero[0],
            "mixed_h_index_by_noise": shares[1],
            f"{self.name}{AT_WORST}": worst,
            f"mixed_h_index_by_noise{AT_WORST}": worst,
        }
        if not sampled:
            return details | {
                f"mixed_mean_h{AT_WORST}": min(means),
                f"mixed_h_0{AT_WORST}": max(zero),
            }
        # A mean over some persons has no bound that would hold for all.
        why = "only some of the persons were looked for; give a larger `individuals`."
        return details | {
            f"mixed_mean_h{AT_WORST}": math.nan,
            f"mixed_mean_h{AT_WORST}_reason": why,
            f"mixed_h_0{AT_WORST}": math.nan,
            f"mixed_h_0{AT_WORST}_reason": why,
        }

    def _describe_knowledge(self, names: list[str]) -> str:
        wrong = any(self.errors.values()) if isinstance(self.errors, dict) else bool(self.errors)
        how = f"with errors ({format_value(self.errors)})" if wrong else "exactly"
        fraction = self.sampling_fraction
        where = "everybody" if fraction == 1 else f"a share of {fraction:g} of them"
        return (
            f"The attacker knows {how}, of each person looked for: {', '.join(names)}; {where} is "
            "in the release."
        )

    def _rank(
        self,
        views: Sequence[VariableView],
        true_views: Sequence[VariableView],
        rows: Positions,
        present: Mask | None,
        units: Units,
        *,
        by_noise: bool,
    ) -> _Ranks:
        """The h of each row looked for: the mean over the nearest released records."""
        what = "counting nearer persons"
        attack = compute_costs(
            views, [view.persons for view in views], rows, what=what, by_noise=by_noise
        )
        truth = compute_costs(true_views, [view.persons for view in true_views], rows, what=what)
        mean, zero, below = [], [], []
        for (batch, cost), (_, distance) in zip(attack, truth, strict=True):
            shown = cost if present is None else np.where(present, cost, np.inf)
            nearest = is_within(shown, shown.min(axis=1, keepdims=True))
            for row, is_nearest, apart in zip(batch, nearest, distance, strict=True):
                h = _count_nearer(apart, is_nearest, row, units)
                mean.append(h.mean())
                zero.append((h == 0).mean())
                below.append((h < self.p).mean())
        return _Ranks(np.array(mean), np.array(zero), np.array(below))


def _count_nearer(apart: Floats, is_nearest: Mask, row: int, units: Units) -> Integers:
    """The h of each record that was found: who is strictly nearer to a target, but for rounding.

    Parameters
    ----------
    apart : how far each record truly is from the target.
    is_nearest : which of them an attacker takes for the target.
    row : the target.
    units : whom each record is about.
    """
    limits = apart[is_nearest] / ROUNDING
    # Of each unit the nearest row.
    h = np.searchsorted(np.sort(units.reduce(np.fmin, apart)), limits, side="left")
    if units.one_row_each:
        return h
    # Whoever finds any row of the person has found the person.
    return np.where(units.numbers[is_nearest] == units.numbers[row], 0, h)


@dataclass(frozen=True, eq=False)
class _Ranks:
    """Of each target the mean of h, Pr(h = 0) and Pr(h < p) over the nearest records."""

    mean: Floats
    zero: Floats
    below: Floats

    def take_best(self, units: Units) -> _Ranks:
        """One row of each unit, by which it is found best; `units` says whom each is about."""
        best = units.choose_rows(-self.below, -self.zero, self.mean)
        return _Ranks(self.mean[best], self.zero[best], self.below[best])


def _view_persons(original: Dataset, names: Sequence[str]) -> list[VariableView]:
    """The persons as they truly are: all others can be at some distance, nobody is ruled out."""
    views, _ = view_release(original, original, names, owner=MixedHIndex.name)
    return [replace(view, truthful=False) for view in views]


def _tabulate(by_distance: _Ranks, weighed: _Ranks) -> pl.DataFrame:
    """The share of persons with a mean h up to some numbers, for either attacker."""
    return pl.DataFrame(
        {
            "up_to": list(_UP_TO),
            "plain_distance": [float((by_distance.mean <= most).mean()) for most in _UP_TO],
            "by_noise": [float((weighed.mean <= most).mean()) for most in _UP_TO],
        }
    )


def _records(count: int, rows: Positions, ranks: _Ranks) -> pl.DataFrame:
    """Null for who was not looked for: not known is not safe."""
    columns = {"h": ranks.mean, "pr_h_0": ranks.zero, "pr_h_below_p": ranks.below}
    frame = {}
    for name, values in columns.items():
        column = np.full(count, np.nan)
        column[rows] = values
        frame[name] = pl.Series(column).fill_nan(None)
    return pl.DataFrame(frame)
