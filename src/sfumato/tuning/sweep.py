"""A plan over values of its parameters and over sample sizes: one table, a row per run."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from sfumato import catalogue
from sfumato.data import Dataset
from sfumato.errors import PlanError, SchemaError, SfumatoError, TargetError, did_you_mean
from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.measure import Measure
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement, measures_for
from sfumato.progress import Progress, silent
from sfumato.randomness import Key
from sfumato.run import Measures, protect
from sfumato.tuning.cohorts import Cohorts, Simulate

_ABOUT = ("records", "repeat")
_VERDICT = ("met", "reason")


def sweep(  # noqa: PLR0913 - the options are the interface
    data: Dataset | Simulate,
    plan: Plan,
    *,
    over: Mapping[str, Iterable[Any]] | None = None,
    sizes: Iterable[int] | None = None,
    repeats: int = 1,
    measures: Measures = None,
    seed: int = 0,
    key: Key | bytes | str | Path | None = None,
    progress: Progress | None = None,
    **parameters: Iterable[Any],
) -> Any:
    """Run a plan over values of its parameters and over sample sizes; a table with a row per run.

    Question: what do more protection, or more records, cost and bring?
    Assumes: nothing is released. Targets do not stop a run; whether they are met is a column. A
    run that these data refuse stays in the table, without numbers and with the reason. What is
    wrong with the plan or with a name is an error at once.

    Parameters
    ----------
    data : the original records; or a function `(records, repeat)` that simulates a cohort, such
        as `sf.datasets.simulator(frame)`.
    plan : what to do, what must hold and what to measure.
    over : values by parameter. "deterministic.k" means that of one method only, and
        "coarsen.2.intervals" that of the plan's second such step.
    sizes : how many records; of a data set so many are drawn at random, without replacement,
        for each repeat. Default: all.
    repeats : how often each is done, with other draws of records and of noise.
    measures : what to measure besides what the plan names.
    seed : another seed, other draws. The same arguments give the same table.
    key : draw with this key, not with one made from the seed.
    progress : told how many runs are done.
    parameters : values by parameter, set in every step that has it; all combinations are run.

    Returns
    -------
    A frame of the library of `data` (polars for simulated data): the parameters, `records`,
    `repeat`; for each measure `label`, its further numbers `label.number` and `label[variable]`
    where it has one for each variable; `met` (all targets; missing when there is none), `reason`.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": [20, 31, 33, 38, 45, 47], "x": [1, 2, 3, 4, 5, 6]})
    >>> age = sf.Column(role="quasi", kind="integer", domain=(0, 99))
    >>> plan = sf.Plan(schema={"age": age, "x": "sensitive"}, targets={"k.min": 2},
    ...                steps=[sf.methods.Coarsen(variables=["age"], intervals=10)])
    >>> made = sweep(sf.Dataset(frame), plan, intervals=[2, 10])
    >>> made.select("intervals", "records", "uniqueness", "uniqueness.k", "met").rows()
    [(2, 6, 0.0, 6.0, True), (10, 6, 0.166..., 1.0, False)]
    """
    values = _values(plan, over or {}, parameters)
    widened = _measuring(plan, measures)
    if not widened.measures:
        raise PlanError(
            "The plan measures nothing, so there is nothing to tabulate.",
            hint='add targets or [evaluate] tables to it, or say measures=["uniqueness"].',
        )
    _require_columns(values, widened)
    grid = [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]
    # All plans first: a value that a method cannot have is told before hours of work.
    plans = [_with(widened, chosen) for chosen in grid]
    cohorts = Cohorts(data, plan, seed=seed, key=key)
    wanted = cohorts.sizes(sizes)
    if not isinstance(repeats, int) or isinstance(repeats, bool) or repeats < 1:
        raise PlanError("The number of repeats must be a whole number, 1 or more.")
    runs: dict[tuple[int, int, int], dict[str, Any]] = {}
    say, total = progress or silent, len(wanted) * repeats * len(grid)
    for (at, size), repeat in product(enumerate(wanted), range(repeats)):
        made, secret = cohorts.draw(size, repeat)
        for place, chosen in enumerate(grid):
            say("sweeping", len(runs), total)
            about = {**chosen, "records": len(made), "repeat": repeat}
            runs[place, at, repeat] = about | _run(made, plans[place], secret)
    say("sweeping", total, total)
    table = _table([runs[place] for place in sorted(runs)], values, widened)
    return data.like(table) if isinstance(data, Dataset) else table


def _values(
    plan: Plan, over: Mapping[str, Iterable[Any]], parameters: Mapping[str, Iterable[Any]]
) -> dict[str, list[Any]]:
    """Every parameter that is varied with its values; each must belong to some step."""
    twice = sorted(set(over) & set(parameters))
    if twice:
        raise PlanError(f"The values of '{twice[0]}' are given twice.")
    values: dict[str, list[Any]] = {}
    for name, given in {**over, **parameters}.items():
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
            raise PlanError(
                f"The values of '{name}' must be a list.", hint=f"for instance {name}=[3, 5, 7]."
            )
        # Numbers of numpy become plain ones: a parameter is checked for its type.
        values[name] = [one.item() if hasattr(one, "item") else one for one in given]
        if not values[name]:
            raise PlanError(f"There is no value of '{name}' to run.", hint="give one or more.")
        known = {one for names in _names(plan) for one in names}
        if name not in known:
            raise PlanError(
                f"No step of the plan has a parameter '{name}'.", hint=did_you_mean(name, known)
            )
    return values


def _names(plan: Plan) -> list[dict[str, str]]:
    """For each step what its parameters may be called, and the parameter that is meant.

    A name alone is that of every step, "coarsen.intervals" that of every such step, and
    "coarsen.2.intervals" that of the second.
    """
    made, seen = [], Counter[str]()
    for step in plan.steps:
        seen[step.name] += 1
        own = [one.name for one in fields(step)]  # type: ignore[arg-type]  # all are dataclasses
        before = ("", f"{step.name}.", f"{step.name}.{seen[step.name]}.")
        made.append({f"{start}{name}": name for start in before for name in own})
    return made


def _with(plan: Plan, chosen: Mapping[str, Any]) -> Plan:
    """The plan with these values in every step they belong to."""
    steps = []
    for step, meant in zip(plan.steps, _names(plan), strict=True):
        named = [name for name in chosen if name in meant]
        mine = {meant[name]: chosen[name] for name in named}
        if len(mine) < len(named):
            raise PlanError(f"A parameter of '{step.name}' is varied twice: {', '.join(named)}.")
        steps.append(replace(step, **mine) if mine else step)  # type: ignore[type-var]
    return _changed(plan, steps=steps)


def _changed(plan: Plan, **changes: Any) -> Plan:
    kept = {one.name: getattr(plan, one.name) for one in fields(plan)}
    return Plan(**{**kept, **changes})


def _measuring(plan: Plan, measures: Measures) -> Plan:
    """The plan with further measures; none of them may take the place of one of its own."""
    if measures is None:
        return plan
    if not isinstance(measures, Mapping):
        made = [catalogue.measure(one)() if isinstance(one, str) else one for one in measures]
        measures = {one.name: one for one in made}
    own = measures_for(plan.targets, plan.evaluate)
    for label, one in measures.items():
        if label in own and own[label] != one:
            raise PlanError(
                f"The plan measures '{label}' already, with other parameters.",
                hint=f'give it another label: measures={{"another": {type(one).__name__}(…)}}.',
            )
    return _changed(plan, evaluate={**own, **measures})


def _run(data: Dataset, plan: Plan, key: Key) -> dict[str, Any]:
    """The numbers of one run, by column; when the data refuse it, nothing but the reason."""
    evidence: Mapping[str, Evidence] = {}
    verdict: Sequence[Judgement] = ()
    reasons = []
    try:
        release = protect(data, plan, key=key)
        evidence, verdict = release.evidence, release.verdict
    except TargetError as missed:
        evidence, verdict = missed.evidence, missed.verdict
    except (PlanError, SchemaError):
        raise  # the user's to mend, not something these data refuse
    except SfumatoError as error:
        reasons.append(str(error))
    reasons += [f"{label}: {one.reason}" for label, one in evidence.items() if one.reason]
    numbers: dict[str, Any] = {}
    taken = plan.measures
    for label, one in evidence.items():
        numbers |= _numbers(label, taken[label], one)
    # A run that failed has kept no promise, if there was any.
    met = bool(verdict) and all(one.met for one in verdict) if plan.targets else None
    return numbers | {"met": met, "reason": " ".join(reasons) or None}


def _numbers(label: str, measure: Measure, found: Evidence) -> dict[str, float | None]:
    numbers = [found.value, *map(found.number, measure.provides)]
    named = dict(zip(_columns(label, measure), numbers, strict=True))
    named |= {f"{label}[{name}]": value for name, value in _each(found)}
    # What could not be computed is missing, and never a number.
    return {name: None if math.isnan(value) else value for name, value in named.items()}


def _columns(label: str, measure: Measure) -> list[str]:
    return [label, *(f"{label}.{name}" for name in measure.provides)]


def _each(found: Evidence) -> Iterator[tuple[str, float]]:
    """A measure's numbers by variable, or by term of a model, from its table."""
    if found.table is None:
        return
    table = frames.wrap(found.table)
    by = next((name for name in ("variable", "term") if name in table.columns), None)
    if by is None or found.name not in table.columns:
        return
    for row in table.rows(named=True):
        value = row[found.name]
        yield str(row[by]), math.nan if value is None else float(value)


def _require_columns(values: Mapping[str, Any], plan: Plan) -> None:
    """Refuse two columns of the same name, before anything is run."""
    names = [*values, *_ABOUT, *_VERDICT]
    for label, one in plan.measures.items():
        names += _columns(label, one)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PlanError(
            f"Two columns of the table would be called '{twice[0]}'.",
            hint="label the measure otherwise, or name the parameter with its method.",
        )


def _table(
    runs: Sequence[Mapping[str, Any]], values: Mapping[str, Any], plan: Plan
) -> pl.DataFrame:
    """The runs in one frame; what some run has not is missing there."""
    seen = list(dict.fromkeys(name for run in runs for name in run))
    numbers = []
    for label, one in plan.measures.items():
        numbers += _columns(label, one)
        numbers += [name for name in seen if name.startswith(f"{label}[")]
    columns = [pl.Series(name, _plain([run[name] for run in runs])) for name in values]
    columns += [pl.Series(name, [run[name] for run in runs], pl.Int64) for name in _ABOUT]
    columns += [pl.Series(name, [run.get(name) for run in runs], pl.Float64) for name in numbers]
    met, reason = ([run[name] for run in runs] for name in _VERDICT)
    columns += [pl.Series("met", met, pl.Boolean), pl.Series("reason", reason, pl.String)]
    return pl.DataFrame(columns)


def _plain(values: list[Any]) -> list[Any]:
    """Values that fit into one column: lists, and what is of several types, as text."""
    types = {type(value) for value in values if value is not None}
    if types == {int, float}:
        return [None if value is None else float(value) for value in values]
    if len(types) == 1 and types <= {int, float, bool, str, dt.date, dt.datetime}:
        return values
    return [
        ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        for value in values
    ]
