"""Which sensitive values the classes of a person have in common over several releases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from sfumato.cells.classes import find_equivalence_classes
from sfumato.risk._composition.joint_table import JointTable, PlacedRelease

_FEWEST_RELEASES = 2


def count_common_values(joint: JointTable, known: Sequence[str], name: str) -> int | None:
    """The fewest values of a sensitive variable that are left for some person.

    For each person and release, the values that occur in the person's class; then those that
    occur in all these classes (Ganta et al. 2008). No rows need be matched for that. None where
    fewer than two releases show the variable, or show it otherwise.
    """
    releases = [release for release in joint.releases if name in release.dataset.columns]
    shown = [entry for entry in joint.shown if entry.base == name]
    if len(releases) < _FEWEST_RELEASES or len(shown) > 1:
        return None
    shared = np.logical_and.reduce([release.present for release in releases])
    if not shared.any():
        return None
    # Missing is one value.
    values = shown[0].values.rank("dense").fill_null(0).alias("value")
    classes = pl.DataFrame(
        [
            _find_classes(release, known).alias(str(number))
            for number, release in enumerate(releases)
        ]
    )
    signatures = classes.filter(shared).unique().with_row_index("signature")
    common = None
    for number, release in enumerate(releases):
        pairs = pl.DataFrame([classes[str(number)], values]).filter(release.present).unique()
        if common is None:
            common = signatures.join(pairs, on=str(number))
        else:
            common = common.join(pairs, on=[str(number), "value"], how="semi")
    if common is None:
        return None
    return int(common["signature"].value_counts()["count"].to_numpy().min())


def _find_classes(release: PlacedRelease, known: Sequence[str]) -> pl.Series:
    """The class of each person in one release; -1 for who is not in it."""
    names = [name for name in known if name in release.dataset.columns]
    classes = find_equivalence_classes(release.dataset, names)
    return pl.Series(np.where(release.present, classes.of[release.rows], -1))
