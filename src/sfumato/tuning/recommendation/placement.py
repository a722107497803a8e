"""Recommended steps put into a plan, where they make sense and nothing breaks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.data import Dataset
from sfumato.errors import PlanError
from sfumato.method import Method, RowWise
from sfumato.methods.drop import Drop
from sfumato.pairs.alignment import quote_names
from sfumato.parameters import list_settings
from sfumato.plan import Plan
from sfumato.randomness import Key
from sfumato.run.steps import apply_steps
from sfumato.schema import Schema
from sfumato.tuning.grid import change_plan

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, eq=False)
class Placement:
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
        return apply_steps(data, self.before, Key.of(None))[0]


def find_placement(plan: Plan, data: Dataset) -> Placement:
    """After the steps that drop, topcode and coarsen; before those that form classes or add noise.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> data = sf.Dataset(pl.DataFrame({"name": ["a"], "age": [3]}), sf.Schema({"name": "direct"}))
    >>> steps = [sf.methods.Drop(), sf.methods.KAnonymity(variables=["age"], k=2)]
    >>> placement = find_placement(sf.Plan(schema=data.schema, steps=steps), data)
    >>> [step.name for step in placement.before], placement.fixed, placement.needed
    (['drop'], (), ('age',))
    """
    plan.require_one_table()
    count = next(
        (index for index, step in enumerate(plan.steps) if not _treats_single_values(step)),
        len(plan.steps),
    )
    before, after = plan.steps[:count], plan.steps[count:]
    # Methods that form classes take ranges and groups; all that perturb values need numbers.
    perturbing = [
        step for step in after if step.treats == "values" and not _treats_single_values(step)
    ]
    touched = {name for step in perturbing for name in step.touches(data.schema)}
    named = {name for user in (*after, *plan.evaluate.values()) for name in list_names(user, data)}
    return Placement(
        before=before,
        after=after,
        fixed=tuple(name for name in data.columns if name in touched),
        needed=tuple(name for name in data.columns if name in named),
    )


def _treats_single_values(step: Method) -> bool:
    """Whether it treats each value by itself and adds no noise: it drops, topcodes or recodes."""
    # Only methods that add noise describe it.
    noisy = type(step).describes is not Method.describes
    return step.treats == "values" and isinstance(step, (RowWise, Drop)) and not noisy


def insert_steps(plan: Plan, placement: Placement, steps: Sequence[Method]) -> Plan:
    """The plan with these steps at their position."""
    return change_plan(plan, steps=(*placement.before, *steps, *placement.after))


def require_untouched_variables(plan: Plan, schema: Schema, names: Sequence[str]) -> None:
    """Refuse noise in variables that another step of the plan changes: nobody could take it out."""
    touched = {name for step in plan.steps for name in step.touches(schema)}
    if both := sorted(touched & set(names)):
        raise PlanError(
            f"Another step of the plan changes these variables, so analysts could not take the "
            f"noise out again: {quote_names(both)}.",
            hint="leave them out of that step, or give noise to other variables.",
        )


def list_names(entry: Any, data: Dataset) -> tuple[str, ...]:
    """The variables that the parameters of a method or a measure name, in formulas too."""
    words: set[str] = set()
    for text in _collect_texts(list_settings(entry)):
        words.update((text, *_WORD.findall(text)))
    return tuple(name for name in data.columns if name in words)


def _collect_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _collect_texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _collect_texts(item)
