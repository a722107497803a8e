"""What stops a release: everything that refuses data, a plan or a result, in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from sfumato.data import Dataset
from sfumato.engines import Engine, require_engine
from sfumato.engines.summaries import Count, Distinct, Summary
from sfumato.errors import (
    DataError,
    PlanError,
    SchemaError,
    TargetError,
)
from sfumato.evidence import Evidence
from sfumato.method import Method
from sfumato.methods.groups import find_contradictions, find_group_level
from sfumato.pairs.alignment import quote_names
from sfumato.plan import Plan
from sfumato.plan.targets import (
    Judgement,
    measures_for,
)
from sfumato.run.measuring import align_with_release
from sfumato.run.remedies import suggest_remedy
from sfumato.schema.inference.coordinates import find_coordinates
from sfumato.schema.inference.free_text import is_free_text, split_sets
from sfumato.schema.inference.repeats import agree_in_any, is_shared_by_many, names_person

_TEXTS = 10_000
"""Records that are looked at for free text."""

_RECORDS_A_TEXT = 30
"""Where each value is shared by more records on average, they are categories."""


def declare(data: Dataset, plan: Plan) -> Dataset:
    """The original with the roles and kinds of the plan, refused where a role is missing."""
    original = plan.require_one_table().declare(data)
    if not len(original):
        raise DataError("There is no record in these data.", hint="is it the right file?")
    if original.schema.unknown:
        names = ", ".join(f"'{name}'" for name in original.schema.unknown)
        raise SchemaError(
            f"These variables have no role, so Sfumato cannot tell if they may leave: {names}.",
            hint='give each a role in the plan; "other" if it is harmless. '
            "`sfumato inspect` suggests roles.",
        )
    _require_one_place(original)
    return original


def _require_one_place(data: Dataset) -> None:
    """Refuse latitude and longitude of one place that have different roles: one tells the other."""
    for coordinates in find_coordinates(data.schema):
        roles = {data.schema[name].role for name in coordinates}
        if len(roles) > 1 and all(data.dtype(name).is_numeric() for name in coordinates):
            raise SchemaError(
                f"{quote_names(coordinates)} are latitude and longitude of one place, and have "
                "different roles.",
                hint='give both the same role, "quasi" if somebody may know where a person lives.',
            )


def require_persons(data: Dataset, engine: Engine) -> None:
    """Refuse data in which rows may be one person's, unless the schema says whose they are.

    A variable with the role "person" says so. Without one, a direct identifier whose values repeat
    needs a word from the custodian. Names, addresses and the like, which different people share,
    need it only where their rows agree in something that few others agree in.
    """
    require_memory(data, engine)
    if data.schema.person is not None:
        return
    repeated = list_repeated_identifiers(data, engine)
    loose = [name for name in repeated if is_shared_by_many(name, data.schema[name])]
    if loose and engine.in_memory:
        known = [data.column(name) for name in data.schema.having("quasi")]
        loose = [name for name in loose if not agree_in_any(data.column(name), known)]
    undeclared = [name for name in repeated if name not in loose]
    if undeclared:
        raise SchemaError(
            f"Values of {quote_names(undeclared)} occur in several rows. If they belong to one "
            "person, five rows hide nobody, and every risk must count people.",
            hint=f'say which it is in the plan: {undeclared[0]} = {{ role = "person" }} if rows '
            f"with the same value are one person's; {undeclared[0]} = "
            '{ role = "direct", identity = false } if different people share a value.',
        )


def require_memory(data: Dataset, engine: Engine) -> None:
    """Persons with several rows are told apart in memory."""
    if data.schema.person is not None and not engine.in_memory:
        raise DataError(
            f"Variable '{data.schema.person}' says that a person may have several rows, and "
            "persons are counted in memory only.",
            hint="read the data whole, or release one row for each person.",
        )


def list_repeated_identifiers(data: Dataset, engine: Engine) -> list[str]:
    """Direct identifiers whose values repeat, and of which nobody has said what that means."""
    schema = data.schema
    names = [name for name in schema.having("direct") if schema[name].identity is not False]
    wanted: dict[str, list[Summary]] = {name: [Count(), Distinct()] for name in names}
    counts = engine.aggregate(data, wanted) if names else {}
    if any(names_person(name) and counts[name]["distinct"] == len(data) for name in names):
        return []  # no two rows are one person's
    return [name for name in names if counts[name]["distinct"] < counts[name]["count"]]


def require_runs(plan: Plan, engine: Engine) -> None:
    """Say what of a plan does not run where the records are, before any work starts."""
    named = measures_for(plan.targets, plan.evaluate)
    others = []
    if engine.name == "spark":
        if plan.release.keep_order:
            others.append("Records on a cluster have no order to keep ([release] keep_order).")
        if plan.release.format not in (None, "parquet", "csv"):
            others.append("A cluster writes Parquet and CSV ([release] format).")
    require_engine([*plan.steps, *named.values()], engine, others=others)


@dataclass(frozen=True, eq=False)
class Protected:
    """Records on their way out: what gates look at before anything is measured."""

    original: Dataset
    released: Dataset
    steps: Sequence[Method]
    engine: Engine


def pass_gates(protected: Protected, gates: Sequence[Callable[[Protected], None]]) -> None:
    """Refuse what may not leave, in the order of the gates."""
    for gate in gates:
        gate(protected)


def require_no_direct(protected: Protected) -> None:
    """Refuse a release that shows identifiers as they are, or nothing at all."""
    refuse_direct(protected.released.schema.identifiers)
    if not protected.released.columns:
        raise PlanError("The plan drops every variable; nothing would be released.")


def refuse_direct(names: Sequence[str]) -> None:
    """Refuse direct identifiers that no step treats."""
    if names:
        raise PlanError(
            f"These direct identifiers would be released unchanged: {quote_names(names)}.",
            hint='add a step with method "drop" or "pseudonymise" to the plan.',
        )


def require_no_free_text(protected: Protected) -> None:
    """Refuse free text, in which people may be named, unless a step has de-identified it.

    Categories in many words are told from it by what the schema lists of them (`domain`).
    """
    released, engine = protected.released, protected.engine
    texts = [
        name
        for name, column in released.schema.items()
        if column.cells not in ("deidentified", "pseudonyms")
        and column.levels is None
        and column.hierarchy is None
        and released.dtype(name) in (pl.String, pl.Categorical, pl.Enum)
    ]
    loose = find_free_text(released, texts, engine) if texts else []
    if loose:
        raise PlanError(
            f"Free text would be released unchanged, and it may name people: {quote_names(loose)}.",
            hint='drop it, or add a step with method "deidentify_text". If the values are a fixed '
            f"list of categories, say so in the plan: {loose[0]} = "
            '{ kind = "nominal", domain = [...] }.',
        )


def require_no_raw_groups(protected: Protected) -> None:
    """Refuse numbers of groups, such as households or schools, that would leave as they are.

    Who knows the number of a group has all its members.
    """
    released = protected.released
    names = [n for n in released.schema.having("cluster") if released.schema[n].cells is None]
    if names:
        raise PlanError(
            f"The groups of {quote_names(names)} would be released with their numbers or names, "
            "and somebody who knows a group could find its members.",
            hint='add a step with method "pseudonymise", which keeps members together, or "drop". '
            f'If the numbers are new ones that nobody knows: {names[0]} = {{ cells = "values" }}.',
        )


def require_consistent_groups(protected: Protected) -> None:
    """Refuse a release in which members of a group contradict each other.

    There, a variable that is the same within each group of the original differs within some. Away
    from memory, that is taken to be so where a step clusters records and not groups.
    """
    original, released, engine = protected.original, protected.released, protected.engine
    # Where the groups themselves are not released, nobody sees members contradict each other.
    groups = [name for name in original.schema.having("cluster") if name in released.columns]
    names = [name for name in released.columns if name in original.schema]
    if not engine.in_memory:
        clustered = [s.touches(original.schema) for s in protected.steps if not s.keeps_groups]
        names = [name for name in names if any(name in touched for touched in clustered)]
    if not groups or not names:
        return
    levels = find_group_level(original, names, engine)
    level = {group: constant for group, constant in levels.items() if group in groups}
    differing = [name for constant in level.values() for name in constant]
    if engine.in_memory:
        differing = [*find_contradictions(align_with_release(original, released), released, level)]
    if differing:
        raise PlanError(
            f"In {quote_names(differing)}, members of a group would contradict each other: the "
            "original has one value within each group, and the release several.",
            hint="methods k_anonymity, noise, code_noise, misclassify and weights keep one value "
            "for each group. Or drop the variable, or the number of the group.",
        )


GATES = (require_no_direct, require_no_free_text, require_consistent_groups)
"""What refuses protected records before they are measured, in this order; then come the targets."""
LAST_GATES = (require_no_raw_groups,)
"""What refuses them when all targets are met; then come earlier releases and attacks."""


def find_free_text(data: Dataset, names: Sequence[str], engine: Engine) -> list[str]:
    """The variables among these in which many records have a sentence of their own."""
    some = _take_some(data, names, engine)
    free_text = [name for name in names if is_free_text(split_sets(some[name].cast(pl.String)))]
    if not free_text or some.height == len(data):
        return free_text
    # A sentence that many records share may be rare among some of them.
    wanted: dict[str, list[Summary]] = {name: [Count(), Distinct()] for name in free_text}
    counted = engine.aggregate(data, wanted)
    return [n for n in free_text if counted[n]["distinct"] * _RECORDS_A_TEXT >= counted[n]["count"]]


def _take_some(data: Dataset, names: Sequence[str], engine: Engine) -> pl.DataFrame:
    if not engine.in_memory:
        return engine.sample(data, names, _TEXTS)
    apart = -(-len(data) // _TEXTS)
    return pl.DataFrame([data.column(name).gather_every(apart) for name in names])


def require_met(
    verdict: Iterable[Judgement],
    evidence: Mapping[str, Evidence],
    *,
    hint: str = "",
    untreated: str = "",
) -> None:
    """Fail when a target is missed, with all the evidence of the attempt.

    Parameters
    ----------
    hint : what to do. Default: what goes with the targets that are missed.
    untreated : what a step leaves out, if any; said where a target on classes is missed.
    """
    judged = tuple(verdict)
    missed = [judgement for judgement in judged if not judgement.met]
    if missed:
        lines = "\n".join(f"  - {judgement.describe()}" for judgement in missed)
        error = TargetError(
            f"{len(missed)} of {len(judged)} targets missed, so nothing is released:\n{lines}",
            hint=hint or suggest_remedy(missed, evidence, untreated=untreated),
        )
        error.evidence = dict(evidence)
        error.verdict = judged
        raise error
