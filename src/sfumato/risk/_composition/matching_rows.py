"""Whether the rows of two releases can be matched, and by what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.cells.classes import find_equivalence_classes
from sfumato.data import Dataset
from sfumato.kernels.arrays import Mask
from sfumato.risk._composition.joint_table import PlacedRelease, are_equal_cells


@dataclass(frozen=True)
class MatchedRows:
    """How many persons of two releases stand on rows that anybody can match.

    Parameters
    ----------
    share : of the persons who are in both.
    by : the variables that match them, or "the order of rows".
    """

    share: float
    by: tuple[str, ...] = ()

    @property
    def how(self) -> str:
        """By what, in words."""
        return ", ".join(self.by)


def match_rows(newest: PlacedRelease, earlier: PlacedRelease) -> MatchedRows:
    """Match rows by everything that both releases show alike: pseudonyms, exact values, noise.

    A person's rows are matched where the combination is unique in both releases.
    """
    both = newest.present & earlier.present
    if not both.any():
        return MatchedRows(0.0)
    if newest.keeps_order and earlier.keeps_order:
        return MatchedRows(1.0, ("the order of rows",))
    names = [
        name
        for name in newest.dataset.columns
        if name in earlier.dataset.columns
        and bool(are_equal_cells(newest.column(name), earlier.column(name)).filter(both).all())
    ]
    if not names:
        return MatchedRows(0.0)
    alone = np.logical_and(*(_is_alone(release, names) for release in (newest, earlier)))
    share = float(alone[both].mean())
    return MatchedRows(share, tuple(names) if share else ())


def _is_alone(release: PlacedRelease, names: Sequence[str]) -> Mask:
    """Which persons nobody else in the release has the same cells as."""
    present = release.rows[release.present]
    shown = Dataset(release.dataset.batch(names)[present])
    classes = find_equivalence_classes(shown, names, release.dataset.units.take(present))
    alone = np.zeros(len(release.rows), bool)
    alone[release.present] = (classes.sizes == 1)[classes.of]
    return alone
