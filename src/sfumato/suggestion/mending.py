"""Tries the steps of a first plan, and mends what the rest of the release would give back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from sfumato.cells.codes import encode_unordered
from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.errors import SfumatoError
from sfumato.method import Method
from sfumato.methods.clustering.cells import Output
from sfumato.plan.targets import BARELY
from sfumato.risk.dependencies.filling_in import fill_in
from sfumato.risk.dependencies.rules import Finding, find_dependencies
from sfumato.schema import IDENTIFYING, Schema

_MOST_RECORDS = 20_000
"""Records on which steps are tried."""
_MOST_VARIABLES = 60
"""With more variables than that, nothing is tried: a glance at data must be quick."""
_MOST_ROUNDS = 4
_FOLLOWS = 0.95
"""The share of what is not guessed anyway that another variable tells of one that follows it."""
_REPEATED = 0.5
"""The share of records whose value another record has too, in a variable that tells another."""
_LESS = 0.01
"""By how much less must come back for a change to count."""


@dataclass(frozen=True)
class Mends:
    """What a trial has changed of the steps that roles ask for.

    Parameters
    ----------
    outputs : what a class gets of some numbers instead of the mean.
    dropped : variables that are left out.
    followers : variables that are no longer protected for themselves, each with the one that they
        follow.
    derived : variables that are made again from what is released, each with its formula.
    """

    outputs: Mapping[str, Output] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    followers: Mapping[str, str] = field(default_factory=dict)
    derived: Mapping[str, str] = field(default_factory=dict)

    def declare(self, schema: Schema) -> Schema:
        """The schema with the followers' role, and with what was done to each variable."""
        reasons = {name: _OUTPUT.format(_NAMES[how]) for name, how in self.outputs.items()}
        reasons |= dict.fromkeys(self.dropped, _DROPPED)
        reasons |= {name: _FOLLOWER.format(source) for name, source in self.followers.items()}
        changed = schema.changed([*self.followers], role="other") if self.followers else schema
        return changed.with_columns(
            {
                name: replace(changed[name], reason=f"{changed[name].reason} {why}".strip())
                for name, why in reasons.items()
            }
        )


_OUTPUT = "A class gets {}: from means, others could work out more."
_NAMES: dict[Output, str] = {"median": "its median", "balanced": "one of its values"}
"""What is tried instead of means, what keeps models best first."""
_DROPPED = "It is left out, since it gives others back."
_FOLLOWER = "It is left out: anybody who has '{}' has it too."
Build = Callable[[Dataset, Schema, Mends], Sequence[Method]]


def measure_prediction(codes: pl.Series, categories: pl.Series) -> float:
    """How often the commonest category of a code is right for its other records, beyond chance."""
    pairs = pl.DataFrame([codes.alias("code"), categories.alias("category")]).drop_nulls()
    counts = pairs.group_by("code", "category").len()
    # One record of each code shows its category; only the others are predicted by it. Otherwise a
    # code that occurs once would predict itself.
    right = counts.group_by("code").agg(pl.max("len"))["len"].to_numpy() - 1
    others = len(pairs) - len(right)
    common = counts.group_by("category").agg(pl.sum("len"))["len"].to_numpy().max(initial=0)
    chance = others * common / max(1, len(pairs))
    return float((right.sum() - chance) / (others - chance)) if others > chance else 0.0


def _has_shared_values(values: pl.Series) -> bool:
    known = values.drop_nulls()
    return 1 < known.n_unique() <= (1 - _REPEATED) * len(known)


def find_followers(data: Dataset) -> dict[str, str]:
    """Each variable that follows from another one, with that one: a density from its place.

    Of two that follow from each other, the number does.
    """
    names = [name for name, column in data.schema.items() if column.role not in IDENTIFYING]
    if len(names) > _MOST_VARIABLES:
        return {}
    some = _draw_sample(data)
    values = {name: _encode(some.column(name)) for name in names}
    levels = {name: values[name].drop_nulls().n_unique() for name in names}
    sources = [name for name in names if _has_shared_values(values[name])]
    followed: dict[str, str] = {}
    is_number = {name: data.schema[name].kind in ("continuous", "integer") for name in names}
    for name in sorted(names, key=lambda name: not is_number[name]):
        for source in sorted(sources, key=lambda source: levels[source]):
            # What has more values than its source cannot follow from it.
            possible = source != name and levels[source] >= levels[name] > 1
            if not possible or followed.get(source) == name:
                continue
            if measure_prediction(values[source], values[name]) >= _FOLLOWS:
                followed[name] = source
                break
    return followed


def _encode(values: pl.Series) -> pl.Series:
    codes = pl.Series(encode_unordered(values)[0])
    return codes.set(codes == 0, None)


def mend(data: Dataset, start: Mends, build: Build, *, most: float, k: int, roles: bool) -> Mends:
    """Try the steps, and change them until nothing gives back more than may be.

    Parameters
    ----------
    data : the original records, with their roles.
    start : what was changed before.
    build : makes the steps for some records, roles and mends.
    most : the share of protected values that may come back.
    k : the smallest class, also once somebody has filled in what can be worked out.
    roles : whether roles are suggestions, so that they may be changed.
    """
    if len(data.schema) > _MOST_VARIABLES or not data.schema.having("quasi", "sensitive"):
        return start
    trial = _Trial(_draw_sample(data), build, BARELY * most, k)
    followed = find_followers(trial.data)
    mends, hopeless = start, set[str]()
    for _ in range(_MOST_ROUNDS):
        before = mends
        for finding in trial.find_failing(mends):
            if finding.protected in hopeless:
                continue
            if mends is not before and trial.holds(mends, finding, finding.protected):
                continue  # what was done about another one was enough
            for candidate, treated in _list_mends(mends, finding, followed, trial, roles=roles):
                if trial.holds(candidate, finding, treated):
                    mends = candidate
                    break
            else:
                hopeless.add(finding.protected)
        if mends is before:
            break
    return mends


def _list_mends(
    mends: Mends, finding: Finding, followed: Mapping[str, str], trial: _Trial, *, roles: bool
) -> Iterator[tuple[Mends, str]]:
    """What may help, and the variable it is done to: what loses least, first."""
    name, schema = finding.protected, trial.data.schema
    is_number = schema[name].kind in ("continuous", "integer", "date")
    if schema[name].role == "quasi":
        for how in _NAMES if is_number else ():
            yield replace(mends, outputs={**mends.outputs, name: how}), name
        source = followed.get(name)
        if roles and source in schema.having("quasi") and source not in mends.dropped:
            outputs = {other: how for other, how in mends.outputs.items() if other != name}
            followers = {**mends.followers, name: source}
            yield replace(mends, outputs=outputs, followers=followers), name
    # A tool that follows from something else is missed least, then one that is not known to others.
    for tool in sorted(
        finding.tools, key=lambda tool: (tool not in followed, schema[tool].role == "quasi")
    ):
        # What somebody calls harmless is theirs to drop: `protect` says what it gives away.
        if tool not in mends.dropped and (roles or schema[tool].role != "other"):
            yield replace(mends, dropped=(*mends.dropped, tool)), tool


class _Trial:
    """Some records, on which steps are tried under a key that is no secret."""

    def __init__(self, data: Dataset, build: Build, most: float, k: int) -> None:
        self.data, self._build, self._most, self._k = data, build, most, k

    def find_failing(self, mends: Mends) -> list[Finding]:
        """What comes back too often or takes k down, the worst first."""
        pair = self._carry_out(mends)
        if pair is None:
            return []
        findings = find_dependencies(*pair)
        failing = [finding for finding in findings if finding.gain > self._most]
        if not failing and (filled := fill_in(*pair, findings)) is not None:
            known = pair[1].schema.having("quasi")
            if not _is_large(filled.dataset, known, self._k) and _is_large(pair[1], known, self._k):
                failing = [f for f in filled.findings if not set(f.tools) <= {*known}]
        return sorted(failing, key=lambda finding: -finding.gain)

    def holds(self, mends: Mends, finding: Finding, treated: str) -> bool:
        """Whether what came back does so no more, and what is treated gives nothing else away."""
        pair = self._carry_out(mends)
        if pair is None:
            return False
        original, released = pair
        protected = original.schema.having("quasi", "sensitive")
        named = [name for name in dict.fromkeys((finding.protected, treated)) if name in protected]
        limit = min(self._most, finding.gain - _LESS)
        if any(item.gain > limit for item in find_dependencies(original, released, named)):
            return False
        if treated not in released.schema:
            return True
        others = [name for name in protected if name not in named]
        by_treated = find_dependencies(original, released, others, by=[treated])
        return all(item.gain <= limit for item in by_treated)

    def _carry_out(self, mends: Mends) -> tuple[Dataset, Dataset] | None:
        """The records as they are declared, and as they would be released; None: they cannot be."""
        schema = mends.declare(self.data.schema)
        original = released = self.data.with_schema(schema)
        try:
            for step in self._build(self.data, schema, mends):
                released = step.apply(released, key=bytes(32))
        except SfumatoError:
            return None
        return original, released


def _is_large(data: Dataset, known: Sequence[str], k: int) -> bool:
    return not known or int(engine_for(data.frame).distinct(data, known).counts.min()) >= k


def _draw_sample(data: Dataset) -> Dataset:
    """Some records, chosen by what they hold, so that the order of the file does not matter."""
    if len(data) <= _MOST_RECORDS:
        return data
    digests = data.identity.digests
    return data.take(np.lexsort((digests[:, 1], digests[:, 0]))[:_MOST_RECORDS])
