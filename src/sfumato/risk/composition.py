"""What several releases of the same records disclose together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
import polars as pl

from sfumato.cells.classes import find_equivalence_classes
from sfumato.data import Dataset
from sfumato.data.identity import digest_identifiers
from sfumato.engines import Engine, engine_for
from sfumato.errors import DataError, MeasureError
from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.kernels.arrays import Integers, Positions
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.risk._composition.best_table import BestTable, merge_releases
from sfumato.risk._composition.common_values import count_common_values
from sfumato.risk._composition.joint_table import EarlierRelease, JointTable, join_releases
from sfumato.risk._composition.matching_rows import MatchedRows, match_rows
from sfumato.risk._composition.seen_values import RecoverableWithEarlier, mark_shown_before
from sfumato.risk.known import describe_known
from sfumato.risk.recoverable import Recoverable
from sfumato.risk.reidentification import Reidentification

__all__ = ["ComposedRelease", "Composition", "EarlierRelease"]

_ASSUMPTIONS = (
    "Somebody has all these releases, and knows who is in each of them.",
    "A class is the persons whose cells are equal in every release.",
    "Noisy versions of a variable are combined by the weights that leave least noise.",
)
_BY_CELLS = ("reidentification", "peers")
"""Measures that ask what a cell may stand for, and so need one cell a variable."""
_LISTS = ("known", "confidential", "sensitive")
"""Parameters that name variables, each of which may stand in several columns."""


@dataclass(frozen=True, eq=False)
class ComposedRelease:
    """Several releases taken together, and what the composition of them discloses."""

    evidence: Evidence
    original: Dataset = field(repr=False)
    joint: JointTable = field(repr=False)
    best: BestTable = field(repr=False)

    def prepare(self, measure: Measure) -> tuple[Measure, Dataset]:
        """A measure, and the table on which it says what the releases disclose together."""
        if isinstance(measure, Recoverable):
            shown_before = mark_shown_before(self.original, self.joint)
            return RecoverableWithEarlier(measure, shown_before), self.joint.releases[0].dataset
        if measure.of == "pair" or measure.name in _BY_CELLS:
            return measure, self.best.dataset
        named = {item.name for item in fields(measure)} & {*_LISTS}  # type: ignore[arg-type]
        lists = {name: getattr(measure, name) for name in named if getattr(measure, name)}
        columns = {
            # Who is in which release is known, and is no secret.
            name: [
                column
                for column in self.joint.columns_of(variables)
                if name == "known" or self.joint.bases[column] is not None
            ]
            for name, variables in lists.items()
        }
        # They are all dataclasses, which the type of the base class does not say.
        return replace(measure, **columns) if columns else measure, self.joint.dataset  # type: ignore[type-var]


@parameters
class Composition(Measure):
    """How many persons are left for somebody who has this release and the earlier ones: composed k.

    Question: what do all releases of these records disclose together?
    Assumes: the releases are of the same persons, whom the custodian can pair. Without earlier
    releases it is the release by itself. The value is the number of persons in the smallest
    class of records whose cells are equal in every release; who is in one release and not in
    another counts as a cell. `composed_k_by_fitting` counts who fits where the cells of all
    releases are intersected.
    `l_by_intersection` is the fewest sensitive values that the classes of a person have in common.
    `noise_left` is the share of the variance of the smallest noise that is left after combining
    all versions of a variable, in the variable where least is left. `matched_rows` is the share of
    persons whose rows anybody can match between two releases, by what both show alike. Where it is
    0, the composed k is a bound: somebody must find out who is behind the rows by other means.

    Parameters
    ----------
    known : the variables the outsider knows. Default: all whose role is "quasi" in any release.
    missing : what a missing value means: "value" (the outsider sees that it is missing) or
        "wildcard" (it could be anything), in counting who fits.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(500), sf.datasets.cohort_schema())
    >>> drop = sf.methods.Drop()
    >>> def release(k, key):
    ...     step = sf.methods.KAnonymity(variables=["height", "children"], k=k)
    ...     return drop.apply(step.apply(data, key=key))
    >>> known = Composition(known=["height", "children"])
    >>> first, second = release(5, bytes(32)), release(7, bytes(32))
    >>> known.measure(data, second).value
    7
    >>> both = known.compose(data, second, [EarlierRelease("spring", first)])
    >>> both.evidence.value < 5
    True

    References: Ganta, Kasiviswanathan & Smith (2008), Composition attacks and auxiliary information
    in data privacy, KDD; Xiao & Tao (2007), m-invariance, SIGMOD.
    """

    name = "composition"
    counts_persons = True
    numbers = (
        Number.class_size("composition"),
        Number.class_size("composed_k"),
        Number.share("composed_uniqueness"),
        Number.count("composed_unique_records"),
        Number.class_size("composed_k_by_fitting"),
        Number.class_size("l_by_intersection", counts="values in a class"),
        Number.share("noise_left", safer="more"),
        Number.share("matched_rows"),
    )
    of = "pair"
    whole = True
    by_default = False
    odd = {"one row": 1, "all missing": 20}
    examples = ({}, {"known": ["sex", "region"], "missing": "wildcard"})
    known: list[str] | None = None
    missing: Literal["value", "wildcard"] = "value"

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """The release by itself: nothing is known of earlier ones."""
        del engine  # all records are in memory
        return self.compose(original, released, ()).evidence

    def compose(
        self,
        original: Dataset,
        released: Dataset,
        earlier: Sequence[EarlierRelease],
        *,
        keeps_order: bool = False,
    ) -> ComposedRelease:
        """The release together with earlier ones of the same records.

        Parameters
        ----------
        original : all original records.
        released : the newest release.
        earlier : those before it, paired with the original.
        keeps_order : whether the newest has the rows in the order of the original.
        """
        if not len(original) or not len(released):
            raise MeasureError("There is no record to measure.", hint="are the data empty?")
        measurable = [release for release in earlier if release.dataset is not None]
        released = _with_identity(original, released)
        joint = join_releases(original, released, measurable, keeps_order=keeps_order)
        best = merge_releases(original, joint)
        known = _choose_known_variables(joint, self.known)
        persons = _number_persons(original, joint.positions)
        sizes = _count_class_sizes(joint.dataset, joint.columns_of(known), persons)
        rows = [match_rows(joint.releases[0], release) for release in joint.releases[1:]]
        together = int(sizes.min())
        unpaired = [release for release in earlier if release.dataset is None]
        return ComposedRelease(
            Evidence(
                name=self.name,
                subject="pair",
                value=math.nan if unpaired else together,
                direction=self.direction,
                baseline=_count_alone(joint, 0, known, persons),
                records=released.like(_tabulate_records(joint, sizes)),
                table=released.like(_tabulate(joint, known, rows, persons)),
                details={
                    "composed_k": math.nan if unpaired else together,
                    "composed_k_reason": _explain(unpaired),
                    "k_of_what_can_be_paired": together,
                    "composed_k_of_shared": _find_smallest_shared_class(joint, sizes),
                    "composed_uniqueness": int((sizes == 1).sum()) / len(sizes),
                    "composed_unique_records": int((sizes == 1).sum()),
                    **self._fit(best, known),
                    **_count_values(joint, known),
                    **_list_noise(best),
                    **_list_matches(joint, rows),
                    "earlier_releases": len(earlier),
                    "persons": len(np.unique(persons)),
                    "known": tuple(known),
                },
                assumptions=(describe_known(known), *_ASSUMPTIONS),
                warnings=tuple(_list_warnings(joint, best, rows, unpaired)),
                reason=_explain(unpaired),
            ),
            original,
            joint,
            best,
        )

    def _fit(self, best: BestTable, known: Sequence[str]) -> dict[str, Any]:
        """Who fits where the cells of all releases are intersected."""
        present = [name for name in known if name in best.dataset.columns]
        fitting = Reidentification(known=present, missing=self.missing)
        try:
            evidence = fitting.look(best.dataset, "released", engine_for(best.dataset.frame))
        except DataError as error:
            why = {"composed_k_by_fitting_reason": error.what}
            return {"composed_k_by_fitting": math.nan, **why}
        return {
            "composed_k_by_fitting": evidence.details["k_by_fitting"],
            "composed_reidentification": evidence.value,
        }


def _number_persons(original: Dataset, positions: Positions) -> Integers:
    """A number for each person: several records of one identifier are one person."""
    if original.units.declared:
        return original.units.numbers.astype(np.int64)[positions]
    identity = original.identity
    names = [name for name in identity.columns if name in original.columns]
    if identity.basis.startswith("content") or not names:
        return np.arange(len(positions))
    columns = [frames.get_column(original.frame, name) for name in names]
    digests = digest_identifiers(columns)[positions]
    persons: Integers = np.unique(digests[:, 0], return_inverse=True)[1].ravel().astype(np.int64)
    unknown = np.flatnonzero(~digests.any(axis=1))
    persons[unknown] = len(positions) + np.arange(len(unknown))
    return persons


def _count_alone(joint: JointTable, number: int, known: Sequence[str], persons: Integers) -> int:
    """The smallest class of one release by itself."""
    release = joint.releases[number]
    names = [name for name in known if name in release.dataset.columns]
    of_rows = np.empty(len(release.dataset), np.int64)
    of_rows[release.rows[release.present]] = persons[release.present]
    return int(_count_class_sizes(release.dataset, names, of_rows).min())


def _tabulate(
    joint: JointTable, known: Sequence[str], rows: Sequence[MatchedRows], persons: Integers
) -> pl.DataFrame:
    """Each earlier release by itself, and together with the newest one."""
    table: list[dict[str, Any]] = []
    newest = joint.releases[0]
    for number, (release, matched) in enumerate(zip(joint.releases[1:], rows, strict=True), 1):
        signature = pl.DataFrame(
            [_find_signature(joint, index, known).alias(str(index)) for index in (0, number)]
        )
        sizes = _count_class_sizes(Dataset(signature), signature.columns, persons)
        table.append(
            {
                "release": release.label,
                "records_in_both": int((newest.present & release.present).sum()),
                "k_alone": _count_alone(joint, number, known, persons),
                "k_together": int(sizes[newest.present | release.present].min()),
                "matched_rows": matched.share,
                "matched_by": matched.how,
            }
        )
    return pl.DataFrame(table)


def _with_identity(original: Dataset, released: Dataset) -> Dataset:
    """The newest release with the identity of the original, which stands row by row beside it."""
    theirs = released.given_identity
    if theirs is not None and theirs.basis == original.identity.basis:
        return released
    if len(released) != len(original):
        raise MeasureError(
            "'composition' compares record by record, and nothing says which belong together.",
            hint="evaluate a Release or its folder, so that the records can be paired.",
        )
    return replace(released, given_identity=original.identity)


def _choose_known_variables(joint: JointTable, named: Sequence[str] | None) -> list[str]:
    """The variables that outsiders know, of those that some release shows."""
    schema = joint.dataset.schema
    if named is None:
        bases = [joint.bases[name] for name in schema.having("quasi")]
    else:
        bases = [base for base in joint.bases.values() if base in set(named)]
    return [base for base in dict.fromkeys(bases) if base is not None]


def _count_class_sizes(data: Dataset, names: Sequence[str], persons: Integers) -> Integers:
    """For each record the number of persons in its class; of all, where nothing is known."""
    of = np.zeros(len(data), np.int64)
    if names:
        of = find_equivalence_classes(data, names).of.astype(np.int64)
    width = int(persons.max(initial=0)) + 1
    distinct = np.unique(of * width + persons)
    counts: Integers = np.bincount(distinct // width)[of]
    return counts


def _find_signature(joint: JointTable, number: int, known: Sequence[str]) -> pl.Series:
    """The class of each person in one release; -1 for who is not in it."""
    release = joint.releases[number]
    names = [name for name in known if name in release.dataset.columns]
    if not names:
        return pl.Series(np.where(release.present, 0, -1))
    classes = find_equivalence_classes(release.dataset, names)
    return pl.Series(np.where(release.present, classes.of[release.rows], -1))


def _tabulate_records(joint: JointTable, sizes: Integers) -> pl.DataFrame:
    """For each record of the newest release how many persons are left."""
    newest = joint.releases[0]
    of_rows = np.empty(len(newest.dataset), np.int64)
    of_rows[newest.rows[newest.present]] = sizes[newest.present]
    return pl.DataFrame({"composed_class_size": of_rows})


def _find_smallest_shared_class(joint: JointTable, sizes: Integers) -> int | float:
    return int(sizes[joint.shared].min()) if joint.shared.any() else math.nan


def _count_values(joint: JointTable, known: Sequence[str]) -> dict[str, Any]:
    counts = {
        name: fewest
        for name in joint.dataset.schema.having("sensitive")
        if joint.bases[name] == name
        and (fewest := count_common_values(joint, known, name)) is not None
    }
    if not counts:
        why = "no sensitive variable is shown alike by two releases."
        return {"l_by_intersection": math.nan, "l_by_intersection_reason": why}
    worst = min(counts, key=lambda name: (counts[name], name))
    return {"l_by_intersection": counts[worst], "l_by_intersection_variable": worst}


def _list_noise(best: BestTable) -> dict[str, Any]:
    """What is left of the noise in the variable where least is left."""
    shares = {name: averaged.remaining_share for name, averaged in best.averaged.items()}
    if not shares:
        return {"noise_left": 1.0}
    worst = min(shares, key=lambda name: (shares[name], name))
    return {"noise_left": shares[worst], "noise_variable": worst}


def _list_matches(joint: JointTable, rows: Sequence[MatchedRows]) -> dict[str, Any]:
    if not rows:
        return {"matched_rows": 0.0}
    worst = max(range(len(rows)), key=lambda index: rows[index].share)
    return {
        "matched_rows": rows[worst].share,
        "matched_by": rows[worst].how,
        "earlier": tuple(release.label for release in joint.releases[1:]),
    }


def _explain(unpaired: Sequence[EarlierRelease]) -> str:
    return "; ".join(f"{release.label}: {release.reason}" for release in unpaired)


def _list_warnings(
    joint: JointTable,
    best: BestTable,
    rows: Sequence[MatchedRows],
    unpaired: Sequence[EarlierRelease],
) -> list[str]:
    lines = [
        f"Not measurable together with {release.label}: {release.reason}" for release in unpaired
    ]
    lines += [
        f"The rows of {release.label} and of this release can be matched for {matched.share:.1%} "
        f"of the persons, by {matched.how}."
        for release, matched in zip(joint.releases[1:], rows, strict=True)
        if matched.share
    ]
    lines += [
        f"The releases together leave {averaged.remaining_share:.1%} of the variance of the noise "
        f"in '{name}'."
        for name, averaged in best.averaged.items()
        if averaged.remaining_share < 1
    ]
    lines += [
        f"In '{name}', {count:,} persons have cells that contradict each other; the newest count."
        for name, count in best.contradictions.items()
    ]
    if best.unmerged:
        names = ", ".join(f"'{name}'" for name in best.unmerged)
        lines.append(f"Cells could not be intersected in {names}; only equal ones are counted.")
    return lines
