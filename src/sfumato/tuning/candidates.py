"""Families of candidates that follow from schema and targets, or that the user names."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from itertools import product
from typing import Any, Literal

from sfumato import catalogue
from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.errors import PlanError, SfumatoError
from sfumato.method import Method, Strength
from sfumato.methods.clustering.cells import Output
from sfumato.methods.coarsen import Coarsen
from sfumato.methods.correlated_noise import CorrelatedNoise
from sfumato.methods.deterministic import Deterministic
from sfumato.methods.k_anonymity import KAnonymity
from sfumato.methods.km_anonymity import KmAnonymity
from sfumato.methods.l_diversity import LDiversity
from sfumato.methods.noise import Noise
from sfumato.methods.recode import Recode
from sfumato.methods.suppress import Suppress
from sfumato.methods.t_closeness import TCloseness
from sfumato.pairs.alignment import find_numeric_variables
from sfumato.schema.hierarchies import Hierarchy
from sfumato.tuning.bisection import Axis, Heights
from sfumato.tuning.calibrate import calibrate
from sfumato.tuning.grid import read_values, require_parameters, set_parameters
from sfumato.tuning.requirements import Requirements
from sfumato.tuning.runner import Steps

SearchSpace = Mapping[str, Iterable[Any]] | Iterable[Iterable[Method]]
LEVELS = 5
_INTERVALS = (32, 16, 8, 4, 2)
_RARE = (0.005, 0.01, 0.03, 0.1, 0.2)
"""Categories of a smaller share of the records than this are joined, by level of coarsening."""
_MIDDLE = 3
_CLASS_SIZES = (2, 3, 5, 10, 20, 40, 80)
_CENTRES = (3, 5, 10, 20, 40)
_SHARES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_MIXED = (0.003, 0.01, 0.03, 0.1, 0.3, 0.8)
_DIVERSITY = (2, 3, 4, 6, 8)
_CLOSENESS = (0.6, 0.45, 0.3, 0.2, 0.15, 0.1, 0.05)
_LADDERS: Mapping[str, tuple[float, ...]] = {
    "variance_share": _SHARES,
    "noise_share": _MIXED,
    "intervals": (64, 32, 16, 8, 4, 2, 1),
    "deterministic.k": _CLASS_SIZES[1:],
}
"""Values to try of a parameter, where those for any whole number or any share do not suit it."""
_FEWEST_IN_STRATUM = 30
"""Records that the smallest stratum must have, so that neighbours are close."""
_DRAWS = 4


@dataclass(frozen=True, eq=False)
class Family:
    """Candidates of one kind, from the weakest to the strongest.

    Parameters
    ----------
    name : what people call it.
    axes : the parameters that make it weaker or stronger. None: there is one candidate.
    make : the steps for one value of each.
    start : where to begin on each axis, when something is known about it.
    exhaustive : try every value, where more is not always stronger.
    from_user : the user's own, so that a mistake in it is an error and no refusal.
    """

    name: str
    axes: tuple[Axis, ...]
    make: Callable[..., Steps] = field(repr=False)
    start: Heights | None = None
    exhaustive: bool = False
    from_user: bool = False

    def values(self, heights: Heights) -> dict[str, Any]:
        """The parameters at these heights."""
        return {
            axis.name: axis.value_at(height)
            for axis, height in zip(self.axes, heights, strict=True)
        }

    def steps(self, heights: Heights) -> Steps:
        """The steps at these heights."""
        return self.make(*self.values(heights).values())


def single_candidate(name: str, steps: Sequence[Method], *, from_user: bool = False) -> Family:
    """A family of one candidate."""
    # Bound once: a lambda must not see a list that changes.
    fixed = tuple(steps)
    return Family(name, (), lambda: fixed, from_user=from_user)


def combine_families(first: Family, second: Family) -> Family:
    """Both, one after the other; each as strong as it must be."""
    count = len(first.axes)
    axes = (*first.axes, *second.axes)
    if first.axes and second.axes:
        axes = tuple(
            replace(axis, name=f"{family.name} {axis.name}")
            for family in (first, second)
            for axis in family.axes
        )
    return Family(
        f"{first.name} + {second.name}",
        axes,
        lambda *values: (*first.make(*values[:count]), *second.make(*values[count:])),
        start=None if second.axes else first.start,
    )


def read_space(space: SearchSpace, steps: Steps) -> list[Family]:
    """The candidates that the user names; each stands for itself.

    Examples
    --------
    >>> from sfumato.methods.k_anonymity import KAnonymity
    >>> families = read_space({"k": [3, 5]}, (KAnonymity(k=2),))
    >>> [family.name for family in families], families[1].steps(())[0].k
    (['k = 3', 'k = 5'], 5)
    """
    families = list(_read_grid(space, steps) if isinstance(space, Mapping) else _read_list(space))
    if not families:
        raise PlanError("`space` names nothing to try.", hint="leave it out for the usual ways.")
    return families


def _read_list(space: Iterable[Iterable[Method]]) -> Iterator[Family]:
    for number, entry in enumerate(space, 1):
        steps = [entry] if isinstance(entry, Method) else list(entry)
        if not all(isinstance(step, Method) for step in steps):
            raise PlanError(
                "`space` is a table of parameters and their values, or a list of lists of methods.",
                hint='for instance {"deterministic.k": [3, 5, 10]}.',
            )
        names = " + ".join(step.name for step in steps) or "nothing"
        yield single_candidate(f"{number}: {names}", steps, from_user=True)


def _read_grid(space: Mapping[str, Iterable[Any]], steps: Steps) -> Iterator[Family]:
    if not space:
        return
    values = {
        name: read_values(name, entries, example=f'{{"{name}": [3, 5]}}')
        for name, entries in space.items()
    }
    require_parameters(values, steps, whose="protecting step")
    for combination in product(*values.values()):
        chosen = dict(zip(values, combination, strict=True))
        name = ", ".join(f"{parameter} = {value}" for parameter, value in chosen.items())
        yield single_candidate(name, set_parameters(steps, chosen), from_user=True)


def vary_plan(steps: Steps) -> Family:
    """The plan's own protection: as it stands, then weaker and stronger if it is a single step.

    Examples
    --------
    >>> vary_plan((KAnonymity(k=7),)).axes[0].values
    (2, 3, 5, 7, 10, 20, 40, 80)
    """
    name = "as planned"
    strength = steps[0].strength if len(steps) == 1 else None
    value = getattr(steps[0], strength.parameter, None) if strength is not None else None
    if strength is None or isinstance(value, bool) or not isinstance(value, (int, float)):
        return single_candidate(name, steps, from_user=True)
    step, parameter = steps[0], strength.parameter
    values = tuple(
        rung
        for rung in _build_ladder(step.name, strength, value)
        if rung == value or _is_valid(type(step), {**_parameters(step), parameter: rung})
    )
    return Family(
        name,
        (Axis(parameter, values, _are_whole(values)),),
        lambda value: (replace(step, **{parameter: value}),),  # type: ignore[type-var]
        start=(float(values.index(value)),),
        from_user=True,
    )


def _parameters(step: Method) -> dict[str, Any]:
    return {parameter.name: getattr(step, parameter.name) for parameter in fields(step)}  # type: ignore[arg-type]


def _build_ladder(method: str, strength: Strength, value: float) -> tuple[float, ...]:
    """Values of the parameter from the weakest to the strongest, with this one among them."""
    usual = _CLASS_SIZES if isinstance(value, int) else _SHARES
    by_parameter = _LADDERS.get(strength.parameter, usual)
    values = _LADDERS.get(f"{method}.{strength.parameter}", by_parameter)
    return tuple(sorted({*values, value}, reverse=strength.stronger == "down"))


def _are_whole(values: Iterable[float]) -> bool:
    return all(isinstance(value, int) for value in values)


def _is_valid(method: type[Method], parameters: Mapping[str, Any]) -> bool:
    try:
        method(**parameters)
    except (SfumatoError, TypeError):
        return False
    return True


def propose_families(
    prepared: Dataset, requirements: Requirements, *, models: bool = False
) -> list[Family]:
    """Ways to form classes, ways to perturb numbers, and both where both are required.

    Where analysts' `models` matter, classes get single values in several ways, so that models can
    be fitted to them as they are.
    """
    unclear = not requirements.known and not requirements.distant
    known = prepared.schema.having("quasi") if unclear else requirements.known
    distant = find_numeric_variables(prepared) if unclear else requirements.distant
    required = replace(requirements, known=known, distant=distant)
    classes = list(_form_classes(prepared, required, models=models)) if known else []
    numbers = tuple(name for name in distant if name not in known) if not unclear else distant
    perturbations = list(_perturb_numbers(prepared, numbers, requirements)) if numbers else []
    if not classes or not perturbations or unclear:
        return [*classes, *perturbations]
    # Numbers first: afterwards the variables they are stratified by would be sets.
    return [
        combine_families(perturbation, family)
        for family in _choose_for_combination(prepared, required, classes)
        for perturbation in perturbations
    ]


def _choose_for_combination(
    data: Dataset, requirements: Requirements, classes: list[Family]
) -> list[Family]:
    """The ways to form classes that are tried together with ways to perturb numbers."""
    if not requirements.only_k or requirements.k is None:
        known = catalogue.methods()
        return [
            family
            for family in classes
            if family.name in known and known[family.name].treats == "records"
        ]
    # Where k is all that is required, it holds by construction: there is nothing to search.
    names, k = list(requirements.known), requirements.k
    combined = [single_candidate(f"k_anonymity({k})", classes[0].make(k))]
    if any(family.name == "coarsen, suppress" for family in classes):
        steps = (*coarsen_to_level(data, names, _MIDDLE), Suppress(variables=names, k=k))
        combined.append(single_candidate(f"coarsen, suppress({k})", steps))
    return combined


def _form_classes(data: Dataset, requirements: Requirements, *, models: bool) -> Iterator[Family]:
    """Ways to make records alike in what is known."""
    names, least = list(requirements.known), requirements.k
    # A class smaller than the target asks for cannot do.
    fewest = least or _CLASS_SIZES[0]
    larger = (k for k in _CLASS_SIZES if fewest < k <= len(data) // 2)
    axis = Axis("k", (fewest, *larger), whole=True)
    # What is compared as a number must remain one.
    output: Any = {name: "mean" for name in names if name in requirements.distant} or "range"
    yield Family(
        "k_anonymity", (axis,), lambda k: (KAnonymity(variables=names, k=k, output=output),)
    )
    for kind, outputs in _list_outputs(data, names, models=models):
        yield Family(
            f"k_anonymity, {kind}",
            (axis,),
            lambda k, outputs=outputs: (KAnonymity(variables=names, k=k, output=outputs),),
        )
    complete = not any(data.column(name).null_count() for name in names)
    if all(_has_order(data, name) for name in names):
        yield Family(
            "k_anonymity, mdav",
            (axis,),
            lambda k: (KAnonymity(variables=names, k=k, clustering="mdav", output=output),),
        )
    # Distances to the origin need every value.
    if complete and output == "range":
        yield Family(
            "k_anonymity, origin",
            (axis,),
            lambda k: (KAnonymity(variables=names, k=k, clustering="origin"),),
        )
    yield from _protect_confidential(data, names, requirements, axis, complete=complete)
    if output == "range":
        yield from _generalise(data, names, axis, least)
    yield from _declared_families("records", names)


def _list_outputs(
    data: Dataset, names: Sequence[str], *, models: bool
) -> Iterator[tuple[str, dict[str, Output]]]:
    """What classes get instead of ranges and sets, by variable: single values."""
    numbers = [n for n in names if data.schema[n].kind in ("continuous", "integer", "date")]
    categories = [n for n in names if data.schema[n].kind in ("nominal", "ordinal")]
    single: list[tuple[Output, Output]] = [("mean", "range"), ("middle", "range")]
    if models:
        single = [("mean", "balanced"), ("median", "mode"), ("middle", "balanced")]
    for number, category in single if numbers or models else ():
        kind = number if numbers else category
        outputs = dict.fromkeys(numbers, number) | dict.fromkeys(categories, category)
        # Codes such as postcodes keep what they begin with.
        yield kind, {name: output for name, output in outputs.items() if output != "range"}


def _protect_confidential(
    data: Dataset, names: list[str], requirements: Requirements, axis: Axis, *, complete: bool
) -> Iterator[Family]:
    """l-diversity and t-closeness, when a target is about confidential values."""
    confidential, k = list(requirements.confidential), requirements.k or 2
    if not confidential:
        return
    # No class can hold more different values than there are.
    fewest = min(data.column(name).n_unique() for name in confidential)
    if diversity := tuple(value for value in _DIVERSITY if value <= fewest):
        yield Family(
            "l_diversity",
            (Axis("l", diversity),),
            lambda l: (LDiversity(variables=names, confidential=confidential, k=k, l=l),),  # noqa: E741
        )
    yield Family(
        "t_closeness",
        (Axis("t", _CLOSENESS, whole=False),),
        lambda t: (TCloseness(variables=names, confidential=confidential, k=k, t=t),),
    )
    if complete and len(confidential) == 1 and data.column(confidential[0]).dtype.is_numeric():
        yield Family(
            "t_closeness, spread",
            (axis,),
            lambda k: (
                TCloseness(variables=names, confidential=confidential, k=k, clustering="spread"),
            ),
        )


def _generalise(data: Dataset, names: list[str], axis: Axis, least: int | None) -> Iterator[Family]:
    """Fixed groups for all records, with single cells suppressed where that is not enough."""
    levels = Axis("level", tuple(range(1, LEVELS + 1)))
    yield Family("coarsen", (levels,), lambda level: coarsen_to_level(data, names, level))
    if least is None:
        yield Family("suppress", (axis,), lambda k: (Suppress(variables=names, k=k),))
    # Without a target on k, suppression repairs what coarsening leaves at a small k.
    k = least or axis.values[min(1, axis.top)]
    yield Family(
        "coarsen, suppress",
        (Axis("level", tuple(range(LEVELS + 1))),),
        lambda level: (*coarsen_to_level(data, names, level), Suppress(variables=names, k=k)),
        exhaustive=True,
    )


def _has_order(data: Dataset, name: str) -> bool:
    kind = data.schema[name].kind
    return kind in ("continuous", "integer", "date") or (
        kind == "ordinal" and data.schema[name].levels is not None
    )


def _perturb_numbers(
    data: Dataset, variables: tuple[str, ...], requirements: Requirements
) -> Iterator[Family]:
    """Ways to move numbers away from their original."""
    names = list(variables)
    incomplete = any(data.column(name).null_count() for name in names)
    base = Deterministic(
        variables=names,
        strata=_choose_strata(data, names),
        missing="median" if incomplete else "refuse",
        whole=True,
    )
    sizes = tuple(k for k in _CENTRES if k <= max(_CENTRES[0], len(data) // 4))
    axis = Axis("k", sizes, whole=True)
    yield Family("deterministic", (axis,), lambda k: (replace(base, k=k),))
    if all(data.schema[name].kind in ("continuous", "integer") for name in names):
        yield _add_noise(data, names, requirements)
        yield Family(
            "correlated_noise",
            (Axis("noise_share", _MIXED, whole=False),),
            lambda share: (CorrelatedNoise(variables=names, noise_share=share, partly=True),),
        )
    if not incomplete:
        yield Family(
            "microaggregation",
            (axis,),
            lambda k: (KAnonymity(variables=names, k=k, clustering="mdav", output="mean"),),
        )
    yield from _declared_families("values", names)


def _add_noise(data: Dataset, names: list[str], requirements: Requirements) -> Family:
    """Noise; where a target is about h, the size that calibration finds is tried first."""
    shares: tuple[float, ...] = _SHARES
    start = None
    if (calibrated := _calibrate_noise(data, names, requirements)) is not None:
        shares = tuple(sorted({*_SHARES, calibrated}))
        start = (float(shares.index(calibrated)),)
    return Family(
        "noise",
        (Axis("variance_share", shares, whole=False),),
        lambda share: (Noise(variables=names, variance_share=share),),
        start=start,
    )


def _calibrate_noise(data: Dataset, names: list[str], requirements: Requirements) -> float | None:
    if requirements.h is None:
        return None
    target, measure = requirements.h
    goal: dict[str, Any] = {"below": getattr(measure, "p", 3), "at_most": target.most}
    if target.least is not None:
        goal = {"mean_h": target.least}
    known = getattr(measure, "variables", None)
    try:
        result = calibrate(data, names, known=known, draws=_DRAWS, precision=0.1, **goal)
    except SfumatoError:
        return None  # the ladder does without
    return result.share if result.met else None


def _choose_strata(data: Dataset, names: list[str]) -> list[str]:
    """Categories that stay, as long as every combination holds enough records."""
    strata: list[str] = []
    kinds = data.schema.of_kind("nominal", "ordinal")
    # Quasi-identifiers come first: people are compared with those who look like them.
    for name in (*data.schema.having("quasi"), *data.schema.having("sensitive")):
        if name in names or name not in kinds or data.column(name).null_count():
            continue
        # One small stratum would pull neighbours from far away.
        smallest = engine_for(data.frame).distinct(data, [*strata, name]).counts.min()
        if smallest >= _FEWEST_IN_STRATUM:
            strata.append(name)
    return strata


_BUILT_FROM_SCHEMA: tuple[type[Method], ...] = (
    Coarsen, CorrelatedNoise, Deterministic, KAnonymity, LDiversity, Noise, Recode, Suppress,
    TCloseness,
)  # fmt: skip
"""Methods whose families are built above; all others follow from what their class declares."""
_FOR_LISTS = (KmAnonymity,)
"""Methods for lists of codes, which are not among the variables that families are built for."""


def _declared_families(treats: Literal["values", "records"], names: list[str]) -> Iterator[Family]:
    """A family for every further method of the catalogue that declares a strength."""
    for method in catalogue.methods().values():
        strength = method.strength
        if (
            strength is None
            or method.treats != treats
            or method in (*_BUILT_FROM_SCHEMA, *_FOR_LISTS)
        ):
            continue
        declared = {parameter.name: parameter.default for parameter in fields(method)}  # type: ignore[arg-type]
        usual = _usual_value(method, strength.parameter, declared)
        if usual is None:
            continue
        # Whatever else the method takes has a default, or the family is skipped.
        fixed = {"variables": names} if "variables" in declared else {}
        values = tuple(
            value
            for value in _build_ladder(method.name, strength, usual)
            if _is_valid(method, {**fixed, strength.parameter: value})
        )
        if values:
            yield Family(
                method.name,
                (Axis(strength.parameter, values, _are_whole(values)),),
                _make_steps(method, fixed, strength.parameter),
            )


def _usual_value(
    method: type[Method], parameter: str, declared: Mapping[str, Any]
) -> int | float | None:
    """The value in the method's first example, else its default; None where it is no number."""
    value = next(
        (example[parameter] for example in method.examples if parameter in example),
        declared.get(parameter, MISSING),
    )
    return None if isinstance(value, bool) or not isinstance(value, (int, float)) else value


def _make_steps(
    method: type[Method], fixed: Mapping[str, Any], parameter: str
) -> Callable[[float], Steps]:
    return lambda value: (method(**fixed, **{parameter: value}),)


def coarsen_to_level(data: Dataset, names: list[str], level: int) -> tuple[Method, ...]:
    """Steps that make variables coarser, from level 1 (a little) to 5 (two parts); 0 is none.

    Numbers and dates with a declared domain get ever fewer intervals, categories with a hierarchy
    its levels; of other categories the rare ones are joined. Text stays as it is.
    """
    if not level:
        return ()
    intervals = _INTERVALS[level - 1]
    groups: dict[tuple[str, int], list[str]] = {}
    for name in names:
        column = data.schema[name]
        if column.kind in ("continuous", "integer", "date"):
            if _count_parts(data, name) > intervals:
                groups.setdefault(("coarsen", intervals), []).append(name)
            continue
        depth = column.hierarchy.depth if isinstance(column.hierarchy, Hierarchy) else 0
        fewest = max(2, math.ceil(_RARE[level - 1] * len(data)))
        if depth and level > 1:
            groups.setdefault(("level", min(depth, level - 1)), []).append(name)
        elif _has_rare_categories(data, name, fewest):
            groups.setdefault(("fewest", fewest), []).append(name)
    return tuple(_build_step(how, number, some) for (how, number), some in groups.items())


def _build_step(how: str, number: int, names: list[str]) -> Method:
    if how == "coarsen":
        return Coarsen(variables=names, intervals=number)
    if how == "level":
        return Recode(variables=names, level=number)
    return Recode(variables=names, fewest=number)


def _count_parts(data: Dataset, name: str) -> float:
    """How many parts the declared domain has already; 0 where it cannot be cut."""
    bounds, values = data.schema[name].bounds, data.column(name)
    if bounds is None or not (values.dtype.is_numeric() or values.dtype.is_temporal()):
        return 0
    if data.schema[name].kind != "integer":
        return math.inf
    return float(bounds[1] - bounds[0] + 1)


def _has_rare_categories(data: Dataset, name: str, fewest: int) -> bool:
    """Whether there are rare categories, and it is known which go together."""
    column = data.schema[name]
    if column.kind not in ("nominal", "ordinal"):
        return False
    if column.kind == "ordinal" and column.levels is None:
        return False
    counts = data.column(name).drop_nulls().value_counts()["count"]
    return bool((counts < fewest).any())
