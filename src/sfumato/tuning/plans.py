"""Several plans on the same records, side by side."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from sfumato.data import Dataset
from sfumato.errors import PlanError
from sfumato.plan import Plan
from sfumato.progress import Progress, silent
from sfumato.randomness import Key
from sfumato.run.measuring import Measures, choose_measures
from sfumato.schema import Role
from sfumato.tuning.sweep import Cohorts, add_measures, measure_plan, tabulate_runs

USUAL = ("reidentification", "attribute_disclosure", "information_loss")
"""Risk, disclosure and loss: what is measured where nobody says otherwise."""
_FEWEST = 2


def compare_plans(
    data: Dataset | Mapping[str, Dataset],
    plans: Mapping[str, Plan],
    *,
    measures: Measures = None,
    repeats: int = 1,
    seed: int = 0,
    key: Key | bytes | str | Path | None = None,
    progress: Progress | None = None,
) -> Any:
    """Carry out several plans on the same records, and measure the same of each; a row per run.

    Question: which plan protects enough, and which of those costs least?
    Assumes: nothing is released. Targets do not stop a plan; whether all of its own are met is a
    column. A plan that these data refuse stays in the table, with the reason. Plans that declare
    different variables as known or as confidential are not compared alike, and a warning says so.

    Parameters
    ----------
    data : the original records; or, for plans that read different variables, those of each plan.
    plans : the plans by name.
    measures : what to measure. Default: re-identification, attribute disclosure and information
        loss, with what each plan's schema says is known and confidential.
    repeats : how often each plan is carried out, with other draws of noise.
    seed : another seed, other draws. The same arguments give the same table.
    key : draw with this key, not with one made from the seed.
    progress : is called with the number of runs that are done.

    Returns
    -------
    A frame of the library of `data`: `plan`, `records`, `repeat`; for each measure `label`, its
    further numbers, and their worst readings where these differ, as in `sf.sweep`; `met` (all
    targets of the plan; missing where it has none) and `reason`.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": [20, 31, 33, 38, 45, 47], "x": [1, 2, 2, 1, 1, 2]})
    >>> age = sf.Column(role="quasi", kind="integer", domain=(0, 99))
    >>> schema = sf.Schema({"age": age, "x": "sensitive"})
    >>> plans = {
    ...     "as it is": sf.Plan(schema=schema),
    ...     "halves": sf.Plan(schema=schema,
    ...                       steps=[sf.methods.Coarsen(variables=["age"], intervals=2)]),
    ... }
    >>> made = compare_plans(sf.Dataset(frame), plans)
    >>> made.select("plan", "reidentification", "attribute_disclosure").rows()
    [('as it is', 1.0, 1.0), ('halves', 0.0, 0.0)]

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Figs. S4 and S7.
    """
    if len(plans) < _FEWEST:
        raise PlanError("There are no two plans to compare.", hint="give two plans or more.")
    if not isinstance(repeats, int) or isinstance(repeats, bool) or repeats < 1:
        raise PlanError("The number of repeats must be a whole number, 1 or more.")
    sources = data if isinstance(data, Mapping) else dict.fromkeys(plans, data)
    if missing := [name for name in plans if name not in sources]:
        raise PlanError(f"There are no records for the plan '{missing[0]}'.")
    chosen = choose_measures(list(USUAL) if measures is None else measures)
    widened = {name: add_measures(plan, chosen) for name, plan in plans.items()}
    _warn_of_differences(plans, sources)
    report, total = progress or silent, len(plans) * repeats
    runs: list[dict[str, Any]] = []
    for name, repeat in product(plans, range(repeats)):
        report("comparing", len(runs), total)
        cohort, secret = Cohorts(sources[name], plans[name], seed=seed, key=key).draw(None, repeat)
        about = {"plan": name, "records": len(cohort), "repeat": repeat}
        runs.append(about | measure_plan(cohort, widened[name], secret))
    report("comparing", total, total)
    table = tabulate_runs(runs, {"plan": list(plans)}, Plan(evaluate=chosen))
    return next(iter(sources.values())).like(table)


def _warn_of_differences(plans: Mapping[str, Plan], sources: Mapping[str, Dataset]) -> None:
    """A warning where the same number would answer different questions."""
    roles: dict[Role, str] = {"quasi": "known to outsiders", "sensitive": "confidential"}
    for role, what in roles.items():
        declared = {
            name: frozenset(plan.declare(sources[name]).schema.having(role))
            for name, plan in plans.items()
        }
        if len(set(declared.values())) > 1:
            warnings.warn(
                f"The plans do not declare the same variables as {what}, so their numbers do not "
                "answer the same question. Give all plans the same roles.",
                UserWarning,
                stacklevel=3,
            )
