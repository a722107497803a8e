"""Recommended steps put into a plan, where they make sense and nothing breaks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.data import Dataset
from sfumato.method import Method
from sfumato.parameters import given
from sfumato.plan import Plan

_BEFORE = ("drop", "pseudonymise", "topcode", "coarsen", "recode")
"""Methods that treat each value by itself, and come before those that look at records together."""
_GENERALISING = (*_BEFORE, "k_anonymity", "l_diversity", "t_closeness", "suppress")
"""Methods that take ranges and groups as well as numbers."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, eq=False)
class Place:
    """Where in a plan new generalisations go.

    Parameters
    ----------
    before : the steps that come first. What they leave is what must be measured.
    after : the steps that follow, from the first that looks at records together.
    fixed : variables that a later step takes as numbers, so that they must stay what they are.
    needed : variables that a later step or a measure names, so that they must not be left out.
    """

    before: tuple[Method, ...]
    after: tuple[Method, ...]
    fixed: tuple[str, ...]
    needed: tuple[str, ...]

    def reach(self, data: Dataset) -> Dataset:
        """The data as the first steps leave them."""
        for at, step in enumerate(self.before):
            data = step.apply(data, step=at)
        return data


def place_for(plan: Plan, data: Dataset) -> Place:
    """Behind what leaves out, tops and coarsens; before what makes classes, centres or noise.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> data = sf.Dataset(pl.DataFrame({"name": ["a"], "age": [3]}), sf.Schema({"name": "direct"}))
    >>> steps = [sf.methods.Drop(), sf.methods.KAnonymity(variables=["age"], k=2)]
    >>> found = place_for(sf.Plan(schema=data.schema, steps=steps), data)
    >>> [one.name for one in found.before], found.fixed, found.needed
    (['drop'], (), ('age',))
    """
    count = next(
        (at for at, step in enumerate(plan.steps) if step.name not in _BEFORE), len(plan.steps)
    )
    before, after = plan.steps[:count], plan.steps[count:]
    numbers = [one for one in after if one.name not in _GENERALISING]
    touched = {name for one in numbers for name in one.touches(data.schema)}
    named = {name for one in (*after, *plan.evaluate.values()) for name in names_in(one, data)}
    return Place(
        before=before,
        after=after,
        fixed=tuple(name for name in data.columns if name in touched),
        needed=tuple(name for name in data.columns if name in named),
    )


def with_steps(plan: Plan, place: Place, steps: Sequence[Method]) -> Plan:
    """The plan with these steps in their place."""
    return Plan(
        schema=plan.schema,
        steps=(*place.before, *steps, *place.after),
        targets=plan.targets,
        evaluate=plan.evaluate,
        read=plan.read,
        release=plan.release,
    )


def names_in(one: Any, data: Dataset) -> tuple[str, ...]:
    """The variables that the parameters of a method or a measure name, in formulas too."""
    found: set[str] = set()
    for text in _texts(given(one)):
        found.update((text, *_WORD.findall(text)))
    return tuple(name for name in data.columns if name in found)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _texts(one)
