"""How many persons are linked to their released record by all that is known of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.codes import encode_rows
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Integers, Mask, Positions
from sfumato.kernels.exact_sums import exact_sum
from sfumato.measure import AT_WORST, AttackWording, Measure, Trial
from sfumato.numbers import Number
from sfumato.parameters import format_value, parameters
from sfumato.risk.attacks.assignment import assign_all
from sfumato.risk.attacks.attacker_view import (
    RecordKinds,
    VariableView,
    compute_costs,
    compute_costs_of_kinds,
    is_within,
    sample_units,
    view_release,
)
from sfumato.risk.attacks.imperfect_knowledge import (
    blur_knowledge,
    draw_present,
    list_subsets,
)
from sfumato.risk.attacks.outcomes import bound_share, mean_of, wilson
from sfumato.risk.attacks.owners import share_own
from sfumato.risk.dependencies.implied import add_implied
from sfumato.risk.known import known_variables, require_records
from sfumato.units import Units

_AT_ONCE = 1000
"""Records up to which all are assigned at once: time grows with their cube."""
_ASSUMPTIONS = (
    "Where every person fits their own released cell, one who does not fit is never linked.",
    "Else the nearest is taken: numbers in standard deviations, categories by likeness.",
    "Of several that are equally near the attacker takes any by chance: each counts by its share.",
    (
        "A target is checked against the better attacker; one knows how often and how far values "
        "moved."
    ),
)
_NOT_ASSIGNED = {
    "mixed_assigned": math.nan,
    "mixed_assigned_reason": "it is not measured for persons with several rows.",
}
_NOT_ALL_PRESENT = {
    "mixed_assigned": math.nan,
    "mixed_assigned_reason": "not everybody who is looked for is in the file.",
}
_TRUSTED = 0.1
"""The share of links, those at the least distance, that an attacker trusts most."""
Share = Annotated[float, Field(ge=0, le=1)]
_EXPOSED, _MORE = 0.02, 1.5
"""A share from which, and a factor by which, a better attacker is worth a warning."""


@parameters
class MixedLinkage(Measure):
    """Share of persons that an attacker links to their own record by numbers, categories, ranges.

    Question: with a register of exact values, how many persons can be found in the release, even
    where it holds ranges, sets, masks or `*`?
    Assumes: the attacker knows `known` exactly, knows that the person is in the release, and
    knows from its manifest which variables are truthful (recoded, not perturbed). First, who does
    not fit a truthful cell is ruled out; among the others, the nearest is taken. What follows from
    the known variables is known too, such as a total that is released (`implied` names it): sums,
    differences, products and ratios that hold for most records. The interval is Wilson's, 95 %. The
    baseline is a guess: 1 of n.

    Beside it: `mixed_linkage_by_noise`, for an attacker who knows how values were changed, as a
    manifest tells it: numbers are weighed by 1 / variance of the noise, categories by how often a
    level became another; and `mixed_assigned`, the share that is right when all persons are linked
    at once, one to one, at the least total distance (of several such assignments the one that links
    the most). It takes at most 1000 records: among a part of the persons the share would be higher
    than among all.

    A target must hold for the better of both attackers; where only some persons were looked for, at
    the upper end of the interval. So a target of 0 takes all of them.

    Where persons have several rows, a person is found if any of their rows leads to any released
    row of theirs; the best row counts. `mixed_assigned` is not measured then.

    With `errors` the attacker does not know everything exactly. With a `sampling_fraction` below 1
    so large a part of the persons looked for is in the file, and the attacker does not know who:
    the value is the share of all persons looked for that are linked rightly, `linked_if_in_file`
    that of those who are there, and `confident_links_right` the share of right links among the
    tenth of persons with the nearest records, whom an attacker trusts most. The file is then the
    population, from which so many are drawn: a real population is larger, and hides better. With
    `by_number` the table says what is linked by how many variables are known: the mean and the
    highest over subsets of each size (all of them, or 40).

    Parameters
    ----------
    known : the variables the attacker knows. Default: all whose role is "quasi".
    individuals : most persons looked for: picked without pattern, among all records.
    errors : how wrong the attacker's knowledge is: for all variables or by variable. 0.1: a number
        is off by a normal error of 0.1 standard deviations, and a tenth of the categories is
        somebody else's.
    sampling_fraction : share of the persons looked for who are in the file.
    by_number : tell what is linked by the number of known variables.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> age = sf.Column(role="quasi", kind="integer", cells="generalised")
    >>> schema = sf.Schema({"age": age, "sex": "quasi"})
    >>> frame = pl.DataFrame({"age": [31, 38, 62, 66], "sex": ["f", "f", "f", "m"]})
    >>> shown = pl.DataFrame({"age": ["[30;39]", "[30;39]", "[60;69]", "[60;69]"]})
    >>> released = sf.Dataset(shown.with_columns(frame["sex"]), schema)
    >>> MixedLinkage().measure(sf.Dataset(frame, schema), released).value
    0.75

    References: Domingo-Ferrer & Torra (2001), Disclosure control methods and information loss
    for microdata; Gower (1971), Biometrics 27:857.
    """

    name = "mixed_linkage"
    attack = AttackWording(
        title="Linking by all that is known",
        control="a blind guess",
        sentence="Somebody who knows exactly {variables_list} picks the right record for {success} "
        "of the people. A blind guess would be right for {control}.",
    )
    trial = Trial(
        exploits=("sums",),
        needs=("quasi",),
        acceptable="by k",
        seconds=8.0,
        looks_for="individuals",
    )
    odd = {"one row": 1}
    examples = (
        {},
        {"known": ["sex", "region", "height", "birth_date"], "individuals": 50},
        {
            "known": ["sex", "region", "height", "birth_date"],
            "errors": 0.1,
            "sampling_fraction": 0.5,
            "by_number": True,
        },
    )
    of = "pair"
    picture = "sweep"
    counts_persons = True
    numbers = (
        Number.share("mixed_linkage"),
        Number.share("mixed_linkage_by_noise"),
        Number.share("mixed_assigned"),
    )
    known: list[str] | None = None
    individuals: Annotated[int, Field(ge=1)] = 1000
    errors: Share | dict[str, Share] = 0.0
    sampling_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    by_number: bool = False

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Look for each person among all released records."""
        del engine  # all records are in memory
        require_records(len(original))
        known = known_variables(self.known, original, "original")
        implied = add_implied(original, released, known)
        views, warnings = view_release(
            implied.original, implied.released, (*known, *implied.names), owner=self.name
        )
        units, total = original.units, original.units.count
        rows = sample_units(views, units, self.individuals)
        # Who is in the file, and what is known of them wrongly, follows from the records.
        present = draw_present(views, self.sampling_fraction, units)
        views = blur_knowledge(views, self.errors)
        links = _link_units(views, rows, units, present)
        targets = units.take(rows)
        chance = targets.reduce(np.fmax, links.chances)
        weighed = _link_units(views, rows, units, present, by_noise=True)
        by_noise = targets.reduce(np.fmax, weighed.chances)
        value, count = mean_of(chance), len(chance)
        share_by_noise = mean_of(by_noise)
        intervals = [
            bound_share(exact_sum(chances), count, total) for chances in (chance, by_noise)
        ]
        sampled = count < total
        worst = max(ends[1] for ends in intervals) if sampled else max(value, share_by_noise)
        names = tuple(view.name for view in views if view.name not in implied.names)
        listed = ", ".join(names)
        findings = tuple(relation.describe() for relation in implied.relations)
        return Evidence(
            name=self.name,
            subject="pair",
            value=value,
            interval=intervals[0],
            direction=self.direction,
            baseline=self.sampling_fraction / max(round(self.sampling_fraction * total), 1),
            sampled=(count, total) if sampled else None,
            records=original.like(_records(len(original), rows, links.chances)),
            table=original.like(
                _tabulate_subsets(views, rows, units, present) if self.by_number else _table(chance)
            ),
            details={
                "mixed_linkage_by_noise": share_by_noise,
                "mixed_linkage_by_noise_low": intervals[1][0],
                "mixed_linkage_by_noise_high": intervals[1][1],
                f"{self.name}{AT_WORST}": worst,
                f"mixed_linkage_by_noise{AT_WORST}": worst,
                **self._assign(views, rows, units, present),
                **_describe_presence([links, weighed], rows, present, targets),
                "targets": count,
                "records": len(original),
                **units.details(),
                "truthful": tuple(view.name for view in views if view.truthful),
                "variables": names,
                "implied": tuple(
                    dict.fromkeys(n for relation in implied.relations for n in relation.shown)
                ),
                "finding": " ".join(findings),
            },
            assumptions=(
                f"The attacker knows {self._describe_errors()}, of each person: {listed}.",
                *self._describe_fraction(),
                *units.describe(),
                *_ASSUMPTIONS,
            ),
            warnings=(*warnings, *findings, *_warn_of_noise(share_by_noise, value)),
        )

    def _describe_errors(self) -> str:
        if not (any(self.errors.values()) if isinstance(self.errors, dict) else self.errors):
            return "exactly"
        return f"with errors ({format_value(self.errors)})"

    def _describe_fraction(self) -> tuple[str, ...]:
        if self.sampling_fraction == 1:
            return ()
        sentence = (
            f"A share of {self.sampling_fraction:g} of the persons looked for is in the file, and "
            "the attacker does not know who."
        )
        return (sentence,)

    def _assign(
        self,
        views: list[VariableView],
        rows: Positions,
        units: Units,
        present: Mask | None,
    ) -> dict[str, Any]:
        """The share that is right when all are linked at once, for either attacker."""
        if not units.one_row_each:
            return _NOT_ASSIGNED
        if present is not None:
            return _NOT_ALL_PRESENT
        assigned = _assign_persons(views, rows, units.count)
        if math.isnan(assigned["mixed_assigned"]):
            return assigned
        weighed = _assign_persons(views, rows, units.count, by_noise=True)["mixed_assigned"]
        return {
            **assigned,
            "mixed_assigned_by_noise": weighed,
            f"mixed_assigned{AT_WORST}": max(assigned["mixed_assigned"], weighed),
        }


@dataclass(frozen=True, eq=False)
class _Links:
    """Each row's chance of being linked to its own person, and how far the nearest record is."""

    chances: Floats
    distances: Floats


def _link_units(
    views: Sequence[VariableView],
    rows: Positions,
    units: Units,
    present: Mask | None,
    *,
    by_noise: bool = False,
) -> _Links:
    """Each row's chance of being linked to a record of the same unit."""
    chances, distances = [], []
    kinds, known = RecordKinds.find(views), [view.persons for view in views]
    there = kinds.of if present is None else kinds.of[present]
    sizes = np.bincount(there, minlength=len(kinds.first))
    for batch, cost in compute_costs_of_kinds(
        views, known, rows, kinds, what="measuring links", by_noise=by_noise
    ):
        cost[:, sizes == 0] = np.inf  # nobody of this kind is in the file
        batch_chances, nearest = _link_batch(cost, batch, units, present, kinds, sizes)
        chances.append(batch_chances)
        distances.append(nearest)
    return _Links(np.concatenate(chances), np.concatenate(distances))


def _link_batch(
    cost: Floats,
    batch: Positions,
    units: Units,
    present: Mask | None,
    kinds: RecordKinds,
    sizes: Integers,
) -> tuple[Floats, Floats]:
    """The chance of each person to be linked rightly, and the distance of the nearest record."""
    least = cost.min(axis=1, keepdims=True)
    nearest = is_within(cost, least)
    if not units.one_row_each:
        owners = units.numbers
        # Whoever's no record is in the file is nobody's.
        whose = owners if present is None else np.where(present, owners, -1)
        return share_own(nearest[:, kinds.of], owners[batch], whose), least[:, 0]
    # Among several equally near ones each is taken with the same chance.
    includes_own = nearest[np.arange(len(batch)), kinds.of[batch]]
    if present is not None:
        includes_own &= present[batch]
    return np.where(includes_own, 1 / (nearest @ sizes), 0.0), least[:, 0]


def _tabulate_subsets(
    views: Sequence[VariableView], rows: Positions, units: Units, present: Mask | None
) -> pl.DataFrame:
    """What is linked by how many variables are known, for the better attacker."""
    targets = units.take(rows)
    shares: dict[int, list[tuple[float, str]]] = {}
    for subset in list_subsets(len(views)):
        some = [views[position] for position in subset]
        share = max(
            mean_of(targets.reduce(np.fmax, links.chances))
            for links in (
                _link_units(some, rows, units, present, by_noise=n) for n in (False, True)
            )
        )
        shares.setdefault(len(subset), []).append((share, ", ".join(view.name for view in some)))
    return pl.DataFrame(
        {
            "known_variables": size,
            "subsets": len(outcomes),
            "mean": float(np.mean([share for share, _ in outcomes])),
            "highest": max(share for share, _ in outcomes),
            # The first of equals, in the order of the variables.
            "worst": max(outcomes, key=lambda pair: pair[0])[1],
        }
        for size, outcomes in shares.items()
    )


def _describe_presence(
    attackers: Sequence[_Links], rows: Positions, present: Mask | None, targets: Units
) -> dict[str, float]:
    """For those who are in the file, and for the links that an attacker trusts most."""
    if present is None:
        return {}
    there = present[rows]
    shares, trusted = [], []
    for links in attackers:
        best = targets.take(there).reduce(np.fmax, links.chances[there])
        shares.append(mean_of(best) if there.any() else math.nan)
        limit = np.quantile(links.distances, _TRUSTED, method="inverted_cdf")
        trusted.append(mean_of(links.chances[links.distances <= limit]))
    return {"linked_if_in_file": max(shares), "confident_links_right": max(trusted)}


def _assign_persons(
    views: list[VariableView], rows: Positions, records: int, *, by_noise: bool = False
) -> dict[str, Any]:
    """The share that the best one-to-one assignment gets right.

    Persons and released records that are all alike can be swapped: the mean over such swaps.
    """
    if len(rows) < records or records > _AT_ONCE:
        why = (
            f"only {len(rows)} of {records} persons were looked for, and at most {_AT_ONCE} can be "
            "assigned at once; a part of them would be easier to tell apart than all."
        )
        return {"mixed_assigned": math.nan, "mixed_assigned_reason": why}
    parts = compute_costs(
        views,
        [view.persons for view in views],
        rows,
        what="measuring assignments",
        by_noise=by_noise,
    )
    cost = np.concatenate([part[:, rows] for _, part in parts])
    right = assign_all(cost, encode_rows(cost), encode_rows(cost.T))
    low, high = wilson(right / len(rows), len(rows))
    return {
        "mixed_assigned": min(right / len(rows), 1.0),
        "mixed_assigned_low": low,
        "mixed_assigned_high": high,
        "mixed_assigned_records": len(rows),
        "mixed_assigned_by_chance": 1 / len(rows),
    }


def _warn_of_noise(share: float, value: float) -> tuple[str, ...]:
    """Warn where the plain distance is far from what somebody can do who knows the noise."""
    if share < max(_EXPOSED, _MORE * value):
        return ()
    warning = (
        f"An attacker who knows how values were changed links a share of {share:.2f}, not "
        f"{value:.2f}: targets are checked against the larger one."
    )
    return (warning,)


def _records(count: int, rows: Positions, chance: Floats) -> pl.DataFrame:
    """Null for who was not looked for: not known is not safe."""
    column = np.full(count, np.nan)
    column[rows] = chance
    return pl.DataFrame({"linked": pl.Series(column).fill_nan(None)})


def _table(chance: Floats) -> pl.DataFrame:
    """How many persons are linked for certain, by a guess among several, or not at all."""
    certain, never = int((chance == 1).sum()), int((chance == 0).sum())
    rows = [
        ("for certain", certain),
        ("among several", len(chance) - certain - never),
        ("to somebody else", never),
    ]
    return pl.DataFrame(rows, schema=["linked", "records"], orient="row")
