"""Which households can be found by who lives in them, although each member has company."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.codes import encode_unordered
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Integers, Mask, Positions
from sfumato.kernels.exact_sums import exact_sum
from sfumato.measure import AT_WORST, AttackWording, Measure, Trial
from sfumato.numbers import Number
from sfumato.pairs.alignment import quote_names
from sfumato.parameters import parameters
from sfumato.risk.attacks.attacker_view import (
    RecordKinds,
    VariableView,
    compute_costs_of_kinds,
    view_release,
)
from sfumato.risk.attacks.outcomes import bound_share, mean_of
from sfumato.risk.known import known_variables, require_records

_IMPOSSIBLE = 1e5
"""A cost from which on a cell cannot be the person's; distances between people are far less."""
_ASSUMPTIONS = (
    "The attacker knows which rows are one group's, since the release says it.",
    "They know the exact values of the members, and of small groups how many there are.",
    "Variables that chance has changed rule nobody out, and are left out here.",
    "Of several groups that fit the attacker takes any by chance: each counts by its share.",
)


@parameters
class GroupProfiles(Measure):
    """Share of households, or other groups, that are found by their members together.

    Question: each row has company of k, but a pseudonym says which rows are one household's. Who
    else has a mother of 34, a father of 41 and twins?
    Assumes: the attacker knows the quasi-identifiers of up to `members` people of a group, and
    looks for it among all groups of the release: each known member must fit a row of it. Of a group
    with no more members than that they know the number too, and every row must fit one of them.
    Only cells that are true rule somebody out. The value is the share of groups that are found,
    where one of n that fit is found with 1 / n; the baseline is a guess among all groups. The
    interval is 95 %.

    Groups are those of every variable with the role "cluster"; the worst of these variables counts.
    A row without a group is a group of its own. A school of hundreds is looked for by a few pupils:
    where each of them has company of five, these are at five schools at most.

    Parameters
    ----------
    known : the variables the attacker knows. Default: all whose role is "quasi".
    members : most people of a group whom the attacker knows.
    groups : most groups looked for, among all. Which follows from who is in them.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"house": [1, 1, 2, 2, 3, 3], "age": [30, 60, 30, 30, 60, 30]})
    >>> data = sf.Dataset(frame, sf.Schema({"house": "cluster", "age": "quasi"}))
    >>> GroupProfiles().measure(data, data).value.__round__(2)
    0.67

    References: Hundepool et al. (2012), Statistical Disclosure Control, section 3.4.3 (households);
    Backstrom, Dwork & Kleinberg (2007), Wherefore art thou r3579x?
    """

    name = "group_profiles"
    attack = AttackWording(
        title="Finding groups by their members",
        control="a blind guess",
        sentence="Somebody who knows up to {members} people of a {worst_variable}, by "
        "{variables_list}, finds {success} of them. A blind guess would be right for {control}.",
        remedy="Leave the group out, or release it coarser than one household; or make its members "
        "coarser, and set a target on k_of_households.",
    )
    trial = Trial(
        needs=("quasi", "cluster"),
        exploits=("group composition",),
        acceptable="by k",
        seconds=2.0,
        looks_for="groups",
    )
    odd = {"one row": 1}
    examples = ({}, {"known": ["sex", "education"], "members": 2, "groups": 100})
    of = "pair"
    counts_persons = True  # it counts groups
    numbers = (Number.share("group_profiles"),)
    known: list[str] | None = None
    members: Annotated[int, Field(ge=1)] = 6
    groups: Annotated[int, Field(ge=1)] = 1000

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Look for each group among all that are released."""
        del engine  # all records are in memory
        require_records(len(original))
        known = known_variables(self.known, original, "original")
        clusters = [name for name in released.schema.having("cluster") if name not in known]
        if not clusters:
            raise MeasureError(
                f"'{self.name}' looks for groups, and no released variable has the role cluster.",
                hint='give the variable of the household or school the role "cluster".',
            )
        views, warnings = view_release(original, released, known, owner=self.name)
        true_views = [view for view in views if view.truthful]
        left_out = [view.name for view in views if not view.truthful]
        if left_out:
            what = f"{quote_names(left_out)} were changed by chance, and rule nobody out"
            warnings = (*warnings, f"{what}: what they tell beside is not counted here.")
        found = {
            name: self._look_for(_number_groups(released, name), true_views, original)
            for name in clusters
        }
        worst = max(clusters, key=lambda name: mean_of(found[name].chances))
        chances, total = found[worst].chances, found[worst].total
        interval = bound_share(exact_sum(chances), len(chances), total)
        value = mean_of(chances)
        sampled = len(chances) < total
        return Evidence(
            name=self.name,
            subject="pair",
            value=value,
            interval=interval,
            direction=self.direction,
            baseline=1 / total,
            sampled=(len(chances), total) if sampled else None,
            table=original.like(
                pl.DataFrame(
                    [(n, mean_of(f.chances), len(f.chances), f.total) for n, f in found.items()],
                    schema=["variable", self.name, "looked_for", "groups"],
                    orient="row",
                )
            ),
            details={
                f"{self.name}{AT_WORST}": interval[1] if sampled else value,
                "worst_variable": worst,
                "groups_in_release": total,
                "members": self.members,
                "variables": tuple(view.name for view in true_views),
            },
            assumptions=_ASSUMPTIONS,
            warnings=warnings,
        )

    def _look_for(
        self, group: Integers, views: Sequence[VariableView], original: Dataset
    ) -> _GroupSearch:
        """The chance of each group looked for to be found."""
        order = np.argsort(group, kind="stable")
        starts = np.concatenate([[0], np.flatnonzero(np.diff(group[order])) + 1])
        sizes = np.diff(np.append(starts, len(order)))
        if not views:
            return _GroupSearch(np.full(len(sizes), 1 / len(sizes)), len(sizes))
        digests = original.identity.digests
        rank = np.empty(len(group), np.int64)
        rank[np.lexsort((digests[:, 1], digests[:, 0]))] = np.arange(len(group))
        # Whom the attacker knows, and which groups are looked for, follows from who they are.
        order = np.lexsort((rank, group))
        first = np.argsort(rank[order[starts]], kind="stable")[: self.groups]
        chances = np.zeros(len(first))
        targets = [order[starts[g] : starts[g] + min(sizes[g], self.members)] for g in first]
        kinds = RecordKinds.find(views)
        kinds_in_order = kinds.of[order]
        for number, fits in _fit_members(views, targets, kinds):
            by_row = fits[:, kinds_in_order]
            # Each known member must fit a row of the group.
            candidates: Mask = np.logical_and.reduce(
                np.logical_or.reduceat(by_row, starts, axis=1), axis=0
            )
            if sizes[first[number]] <= self.members:
                candidates &= sizes == sizes[first[number]]
                # And each row of the group must be one of them.
                candidates &= np.logical_and.reduceat(by_row.any(axis=0), starts)
            chances[number] = candidates[first[number]] / max(int(candidates.sum()), 1)
        return _GroupSearch(chances, len(sizes))


@dataclass(frozen=True, eq=False)
class _GroupSearch:
    """The chance of each group looked for to be found, and how many there are."""

    chances: Floats = field(repr=False)
    total: int


def _number_groups(released: Dataset, name: str) -> Integers:
    """The number of each row's group; a row without one is its own."""
    values = released.column(name)
    numbers = encode_unordered(values)[0].astype(np.int64)
    alone = values.is_null().to_numpy()
    numbers[alone] = int(numbers.max(initial=0)) + 1 + np.arange(int(alone.sum()))
    return numbers


def _fit_members(
    views: Sequence[VariableView], targets: Sequence[Positions], kinds: RecordKinds
) -> Iterator[tuple[int, Mask]]:
    """For each group looked for, which kinds of released rows each of its known members fits."""
    rows = np.concatenate(targets)
    known = [view.persons for view in views]
    ends = np.cumsum([len(target) for target in targets])
    pending, number = np.zeros((0, len(kinds.first)), bool), 0
    done = 0
    for _, cost in compute_costs_of_kinds(views, known, rows, kinds, what="measuring groups"):
        pending = np.concatenate([pending, cost < _IMPOSSIBLE])
        while number < len(targets) and ends[number] - done <= len(pending):
            size = len(targets[number])
            yield number, pending[:size]
            pending, done, number = pending[size:], done + size, number + 1
