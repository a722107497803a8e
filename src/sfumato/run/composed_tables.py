"""Several tables together with earlier releases of the same persons: what all of them disclose.

Whoever has several releases puts together, for each person, everything that is known of the person
in each of them. So persons are alike who have the same trajectory in every release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.data.identity import match_identities
from sfumato.data.linked import PERSON, LinkedTables
from sfumato.errors import ReleaseError, SchemaError, SfumatoError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Integers, Positions
from sfumato.measure import AT_WORST, Measure
from sfumato.plan import Plan
from sfumato.plan.targets import judge
from sfumato.risk.composition import Composition
from sfumato.risk.known import known_variables
from sfumato.risk.uniqueness import Uniqueness
from sfumato.run.composition import HeldComposition, require_composition
from sfumato.run.joined import (
    TRAJECTORY,
    JoinedView,
    SecretMeasure,
    add_disclosure,
    is_of_secrets,
    unite_looks,
)

_ASSUMPTIONS = (
    "Somebody has all these releases, and knows who is in each of them.",
    "Persons are alike whose rows have the same cells, in all tables and in every release.",
    "Who looks for trajectories knows all rows of a person in each release.",
)


@dataclass(frozen=True, eq=False)
class EarlierTables:
    """An earlier release of several tables, with the persons of today.

    Parameters
    ----------
    label : how people call it.
    parts : by table its rows with what their keys lead to. The number of a person is that in the
        original of today.
    reason : why nothing can be measured of it; then it has no parts.
    """

    label: str
    parts: Mapping[str, Dataset] = field(default_factory=dict)
    reason: str = ""


def place_tables(
    label: str, original: LinkedTables, earlier: LinkedTables, rows: Positions
) -> EarlierTables:
    """An earlier release whose persons are numbered as in the original.

    `rows` says on which row of the original's table of persons each row of its own stands, -1 where
    on none: who is not in the original any more is left out.
    """
    numbers = original.persons[original.structure.person[0]]
    today: Integers = np.full(earlier.person_count, -1, np.int64)
    earlier_numbers = earlier.persons[earlier.structure.person[0]]
    today[earlier_numbers] = np.where(rows >= 0, numbers[rows], -1)
    parts = {}
    for table in earlier.structure.owned:
        data = earlier.join_rows(table)
        persons = today[data.frame[PERSON].to_numpy()]
        frame = data.frame.with_columns(pl.Series(PERSON, persons))
        in_original = frame.filter(pl.col(PERSON) >= 0)
        if len(in_original):
            parts[table] = replace(data, frame=in_original)
    return EarlierTables(label, parts)


def place_release(label: str, original: LinkedTables, released: LinkedTables) -> EarlierTables:
    """Released tables that still carry the identity of the original's rows."""
    table, of_released = original.structure.person[0], released.structure.person[0]
    mine, theirs = original[table].identity, released[of_released].identity
    if mine.basis != theirs.basis:
        return EarlierTables(label, reason=f"its persons were told apart by {theirs.basis}.")
    rows = match_identities(mine.digests, theirs.digests)
    return place_tables(label, original, released, rows)


def hold_joined_composition(
    plan: Plan,
    original: LinkedTables,
    released: LinkedTables,
    evidence: Mapping[str, Evidence],
    earlier: Sequence[EarlierTables],
) -> HeldComposition:
    """Measure linked tables together with earlier releases, and hold that against the targets.

    Parameters
    ----------
    plan : of the newest release.
    original : its tables, all persons among them.
    released : the newest release, whose rows still have their identity.
    evidence : of the newest release by itself.
    earlier : those before it.
    """
    measures = add_disclosure(plan.measures, released)
    label = Composition.name
    unmeasured = [item for item in earlier if item.reason]
    if unmeasured:
        why = " ".join(f"{item.label}: {item.reason}" for item in unmeasured)
        failed = {k: Evidence.failed(m.name, "released", why) for k, m in measures.items()}
        measured = {**failed, label: Evidence.failed(label, "pair", why)}
    else:
        newest = place_release("this release", original, released)
        views = [JoinedView(item.parts, "released", measures) for item in (newest, *earlier)]
        for view in views:
            view.known_rows = None
        measured = _measure_together(views, measures, evidence, [item.label for item in earlier])
    verdict = judge(plan.all_targets, measures, measured)
    labels = ", ".join(item.label for item in earlier)
    under = [
        replace(item, under="; ".join(filter(None, [item.under, f"together with {labels}"])))
        for item in verdict
    ]
    return HeldComposition(label, measured[label], tuple(under), measured)


def _measure_together(
    views: Sequence[JoinedView],
    measures: Mapping[str, Measure],
    evidence: Mapping[str, Evidence],
    labels: Sequence[str],
) -> dict[str, Evidence]:
    """The evidence of each measure, with what is worse when all releases are put together."""
    measured: dict[str, Evidence] = {}
    for label, measure in measures.items():
        if is_of_secrets(measure):
            measured[label] = _learn_together(views, measure)
        elif isinstance(measure, Uniqueness):
            sizes = _count_alike(_compose_lives(views, measure.known))
            measured[label] = _count_together(evidence[label], sizes)
    stated = next(m.known for m in measures.values() if isinstance(m, Uniqueness))
    lives = [_compose_lives([view], stated) for view in views]
    both = [_compose_lives([views[0], view], stated) for view in views[1:]]
    sizes = _count_alike(_compose_lives(views, stated))
    table = {
        "release": [*labels],
        "k_alone": [int(_count_alike(of).min()) for of in lives[1:]],
        "k_together": [int(_count_alike(of).min()) for of in both],
    }
    measured[Composition.name] = Evidence(
        name=Composition.name,
        subject="pair",
        value=int(sizes.min()),
        direction="higher",
        baseline=int(_count_alike(lives[0]).min()),
        table=pl.DataFrame(table),
        details={
            "composed_k": int(sizes.min()),
            "composed_uniqueness": float((sizes == 1).mean()),
            "composed_unique_records": int((sizes == 1).sum()),
            "earlier_releases": len(labels),
            "persons": len(sizes),
        },
        assumptions=_ASSUMPTIONS,
    )
    return measured


def _compose_lives(views: Sequence[JoinedView], known: Sequence[str] | None) -> pl.DataFrame:
    """Each person of any release with a number: the same for who is alike in all of them."""
    persons = np.unique(np.concatenate([view.rows.frame[PERSON].to_numpy() for view in views]))
    number = np.zeros(len(persons), np.int64)
    for view in views:
        lives = view.find_lives(_list_known_variables(view, views[0], known))
        # Who is in one release and not in another is told apart by that.
        life_of_person = np.full(len(persons), -1, np.int64)
        life_of_person[np.searchsorted(persons, lives[PERSON].to_numpy())] = lives[
            TRAJECTORY
        ].to_numpy()
        pairs = number * (int(life_of_person.max()) + 2) + life_of_person + 1
        number = np.unique(pairs, return_inverse=True)[1].ravel().astype(np.int64)
    return pl.DataFrame({PERSON: persons, TRAJECTORY: number})


def _list_known_variables(
    view: JoinedView, newest: JoinedView, named: Sequence[str] | None
) -> tuple[str, ...]:
    """What outsiders know of a release: by its own roles, and by those of the newest."""
    known = known_variables(named, view.rows, "released")
    if named is not None:
        return known
    more = known_variables(None, newest.rows, "released")
    return tuple(dict.fromkeys((*known, *(name for name in more if name in view.rows.schema))))


def _count_alike(lives: pl.DataFrame) -> Integers:
    """For each person how many are alike."""
    number = lives[TRAJECTORY].to_numpy()
    sizes: Integers = np.bincount(number)[number]
    return sizes


def _count_together(evidence: Evidence, sizes: Integers) -> Evidence:
    """Evidence on who stands alone, with what is worse in all releases together."""
    if not evidence.computed:
        return evidence
    k, alone = int(sizes.min()), int((sizes == 1).sum())
    share = alone / len(sizes)
    fewer = {"k": k, "k_of_trajectories": k}
    more = {
        "prosecutor": 1 / k,
        "unique_records": alone,
        "uniqueness": share,
        "unique_trajectories": share,
    }
    worst: dict[str, Any] = {n: min(_read_worst(evidence, n), value) for n, value in fewer.items()}
    worst |= {n: max(_read_worst(evidence, n), value) for n, value in more.items()}
    details = {**evidence.details, **{f"{n}{AT_WORST}": value for n, value in worst.items()}}
    return replace(evidence, details=details, audience="custodian")


def _read_worst(evidence: Evidence, number: str) -> float:
    worst = f"{number}{AT_WORST}"
    return evidence.number(worst if worst in evidence.details else number)


def _learn_together(views: Sequence[JoinedView], measure: SecretMeasure) -> Evidence:
    """What is learnt of confidential values, those of earlier releases among them."""
    looks: list[tuple[str, Evidence]] = []
    try:
        lives = _compose_lives(views, measure.known)
        for view in views:
            if view.shows(measure):
                known = _list_known_variables(view, views[0], measure.known)
                looks += view.look_at_all(measure, known, {"all releases": lives})
    except SchemaError:
        raise
    except SfumatoError as error:
        return Evidence.failed(measure.name, "released", str(error))
    return replace(unite_looks(measure, looks), audience="custodian")


def require_joined_composition(
    plan: Plan, composition: HeldComposition, earlier: Sequence[EarlierTables]
) -> None:
    """Fail when releases together miss a target, or cannot be measured, unless the plan says why.

    What cannot be measured is refused, also where the plan has no target.
    """
    if plan.release.accept_composition is not None:
        return
    for item in earlier:
        if item.reason:
            raise ReleaseError(
                f"Persons of these tables were released before, in {item.label}, and what both "
                f"disclose together cannot be measured: {item.reason}",
                hint="say in the plan why both may be released: [release] accept_composition = "
                '"…". If nobody has received a release, remove it with `sfumato ledger forget`.',
            )
    require_composition(plan, composition, {})
