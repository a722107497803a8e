"""A plan over values of its parameters and over sample sizes: one table, a row per run."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import DataError, PlanError, SchemaError, SfumatoError, TargetError
from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.measure import AT_WORST, Measure
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement, find_number, measures_for
from sfumato.progress import Progress, silent
from sfumato.randomness import Key, keyed_order
from sfumato.run import protect
from sfumato.run.measuring import Measures, choose_measures
from sfumato.tuning.grid import change_plan, read_values, require_parameters, set_parameters

Simulate = Callable[[int, int], Any]
"""Makes the cohort of a size for a repeat: a `Dataset`, or a frame that the plan describes."""
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
    progress : is called with the number of runs that are done.
    parameters : values by parameter, set in every step that has it; all combinations are run.

    Returns
    -------
    A frame of the library of `data` (polars for simulated data): the parameters, `records`,
    `repeat`; for each measure `label`, its further numbers `label.number` and `label[variable]`
    where it has one for each variable; `label.at_worst`, and `label.number_at_worst` for what a
    target is set on, where the worst reading is another; `met` (all targets; missing when there is
    none), `reason`.

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
    plan.require_one_table()
    values = _read_grid(plan, over or {}, parameters)
    widened = add_measures(plan, measures)
    if not widened.measures:
        raise PlanError(
            "The plan measures nothing, so there is nothing to tabulate.",
            hint='add targets or [evaluate] tables to it, or say measures=["uniqueness"].',
        )
    # Fail before the first run, not after hours.
    _require_columns(values, widened)
    grid = [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]
    # All plans first: an impossible value is an error before hours of work.
    plans = [change_plan(widened, steps=set_parameters(widened.steps, chosen)) for chosen in grid]
    cohorts = Cohorts(data, plan, seed=seed, key=key)
    wanted = cohorts.sizes(sizes)
    if not isinstance(repeats, int) or isinstance(repeats, bool) or repeats < 1:
        raise PlanError("The number of repeats must be a whole number, 1 or more.")
    runs: dict[tuple[int, int, int], dict[str, Any]] = {}
    report, total = progress or silent, len(wanted) * repeats * len(grid)
    for (position, size), repeat in product(enumerate(wanted), range(repeats)):
        cohort, secret = cohorts.draw(size, repeat)
        for row, chosen in enumerate(grid):
            report("sweeping", len(runs), total)
            about = {**chosen, "records": len(cohort), "repeat": repeat}
            runs[row, position, repeat] = about | measure_plan(cohort, plans[row], secret)
    report("sweeping", total, total)
    table = tabulate_runs([runs[position] for position in sorted(runs)], values, widened)
    return data.like(table) if isinstance(data, Dataset) else table


class Cohorts:
    """The records and the key of every size and repeat; always the same for the same seed."""

    def __init__(
        self,
        data: Dataset | Simulate,
        plan: Plan,
        *,
        seed: int,
        key: Key | bytes | str | Path | None,
    ) -> None:
        self.source = plan.declare(data) if isinstance(data, Dataset) else data
        derived = hashlib.sha256(f"sfumato sweep {seed}".encode()).digest()
        self.key = Key(derived) if key is None else Key.of(key)

    def sizes(self, wanted: Iterable[int] | None) -> Sequence[int | None]:
        """The sizes to run; one that cannot be drawn is an error."""
        if wanted is None:
            if not isinstance(self.source, Dataset):
                raise PlanError(
                    "Nothing says how many records to simulate.", hint="for instance sizes=[500]."
                )
            return [None]
        try:
            sizes = [operator.index(size) for size in wanted]
        except TypeError:
            sizes = []
        if not sizes or min(sizes) < 1:
            raise PlanError(
                "Sizes are a list of whole numbers, 1 or more.", hint="for instance sizes=[500]."
            )
        if isinstance(self.source, Dataset) and max(sizes) > len(self.source):
            raise DataError(
                f"There are {len(self.source)} records; {max(sizes)} cannot be drawn from them.",
                hint="choose smaller sizes, or simulate cohorts: --simulate, or in Python "
                "sf.datasets.simulator(frame).",
            )
        return sizes

    def draw(self, size: int | None, repeat: int) -> tuple[Dataset, Key]:
        """The records of a repeat, and the key of its noise."""
        key = Key(self.key.subkey("sweep", repeat))
        if not isinstance(self.source, Dataset):
            simulated = self.source(size or 0, repeat)
            return (simulated if isinstance(simulated, Dataset) else Dataset(simulated)), key
        if size is None or size == len(self.source):
            return self.source, key
        # By identity, not by position: the order of the rows changes nothing. A smaller size is
        # part of a larger one, so that sizes are compared on the same people.
        drawn = keyed_order(self.source.identity.ids(key), key)[:size]
        return self.source.take(np.sort(drawn)), key


def _read_grid(
    plan: Plan, over: Mapping[str, Iterable[Any]], parameters: Mapping[str, Iterable[Any]]
) -> dict[str, list[Any]]:
    """Every parameter that is varied with its values; each must belong to some step."""
    twice = sorted(set(over) & set(parameters))
    if twice:
        raise PlanError(f"The values of '{twice[0]}' are given twice.")
    grid: dict[str, list[Any]] = {}
    for name, values in {**over, **parameters}.items():
        grid[name] = read_values(name, values, example=f"{name}=[3, 5, 7]")
        if not grid[name]:
            raise PlanError(f"There is no value of '{name}' to run.", hint="give one or more.")
        require_parameters([name], plan.steps, whose="step")
    return grid


def add_measures(plan: Plan, measures: Measures) -> Plan:
    """The plan with further measures; none of them may replace one of its own."""
    if measures is None:
        return plan
    stated = measures_for(plan.targets, plan.evaluate)
    further = choose_measures(measures)
    for label, measure in further.items():
        if label in stated and stated[label] != measure:
            raise PlanError(
                f"The plan measures '{label}' already, with other parameters.",
                hint=f'give it another label: measures={{"another": {type(measure).__name__}(…)}}.',
            )
    return change_plan(plan, evaluate={**stated, **further})


def measure_plan(data: Dataset, plan: Plan, key: Key) -> dict[str, Any]:
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
        raise  # a mistake of the user, not something these data refuse
    except SfumatoError as error:
        reasons.append(str(error))
    reasons += [f"{label}: {taken.reason}" for label, taken in evidence.items() if taken.reason]
    numbers: dict[str, Any] = {}
    measures = plan.measures
    for label, taken in evidence.items():
        numbers |= _read_numbers(label, measures[label], taken)
    for judgement in verdict:
        if where := find_number(judgement.target, measures):
            numbers[f"{'.'.join(where)}{AT_WORST}"] = _to_number(judgement.number)
    # A run that failed has kept no promise, if there was any.
    met = bool(verdict) and all(judgement.met for judgement in verdict) if plan.targets else None
    return numbers | {"met": met, "reason": " ".join(reasons) or None}


def _read_numbers(label: str, measure: Measure, evidence: Evidence) -> dict[str, float | None]:
    numbers = [evidence.value, *(evidence.number(number.name) for number in measure.numbers[1:])]
    named = dict(zip(_name_columns(label, measure), numbers, strict=True))
    named |= {f"{label}[{name}]": value for name, value in _read_table(evidence)}
    named[f"{label}.{AT_WORST[1:]}"] = evidence.at_worst
    return {name: _to_number(value) for name, value in named.items()}


def _to_number(value: float) -> float | None:
    """What could not be computed is missing, and never a number."""
    return None if math.isnan(value) else value


def _name_columns(label: str, measure: Measure) -> list[str]:
    return [label, *(f"{label}.{number.name}" for number in measure.numbers[1:])]


def _read_table(evidence: Evidence) -> Iterator[tuple[str, float]]:
    """A measure's numbers by variable, or by term of a model, from its table."""
    if evidence.table is None:
        return
    table = frames.wrap(evidence.table)
    # Per-variable results have a column named like the measure.
    by = next((name for name in ("variable", "term") if name in table.columns), None)
    if by is None or evidence.name not in table.columns:
        return
    for row in table.rows(named=True):
        value = row[evidence.name]
        yield str(row[by]), math.nan if value is None else float(value)


def _require_columns(values: Mapping[str, Any], plan: Plan) -> None:
    """Refuse two columns of the same name, before anything is run."""
    names = [*values, *_ABOUT, *_VERDICT]
    for label, measure in plan.measures.items():
        names += _name_columns(label, measure)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PlanError(
            f"Two columns of the table would be called '{twice[0]}'.",
            hint="give the measure another label, or name the parameter with its method.",
        )


def tabulate_runs(
    runs: Sequence[Mapping[str, Any]], values: Mapping[str, Any], plan: Plan
) -> pl.DataFrame:
    """The runs in one frame; what some run lacks is missing there."""
    names = list(dict.fromkeys(name for run in runs for name in run))
    numbers = []
    for label, measure in plan.measures.items():
        for name in _name_columns(label, measure):
            worst = f"{name}{AT_WORST}" if name != label else f"{label}.{AT_WORST[1:]}"
            other = any(worst in run and run[worst] != run.get(name) for run in runs)
            numbers += [name, worst] if other else [name]
        numbers += [name for name in names if name.startswith(f"{label}[")]
    columns = [pl.Series(name, _unify_types([run[name] for run in runs])) for name in values]
    columns += [pl.Series(name, [run[name] for run in runs], pl.Int64) for name in _ABOUT]
    columns += [pl.Series(name, [run.get(name) for run in runs], pl.Float64) for name in numbers]
    met, reason = ([run[name] for run in runs] for name in _VERDICT)
    columns += [pl.Series("met", met, pl.Boolean), pl.Series("reason", reason, pl.String)]
    return pl.DataFrame(columns)


def _unify_types(values: list[Any]) -> list[Any]:
    """Values that fit into one column: lists, and what is of several types, as text."""
    types = {type(value) for value in values if value is not None}
    # 3 and 0.5 of one parameter are both numbers.
    if types == {int, float}:
        return [None if value is None else float(value) for value in values]
    if len(types) == 1 and types <= {int, float, bool, str, dt.date, dt.datetime}:
        return values
    return [
        ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        for value in values
    ]
