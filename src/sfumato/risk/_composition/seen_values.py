"""Values that an earlier release has shown already."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.kernels.arrays import Mask
from sfumato.measure import Measure
from sfumato.risk._composition.joint_table import JointTable, are_equal_cells
from sfumato.risk.recoverable import Recoverable


def mark_shown_before(original: Dataset, joint: JointTable) -> dict[str, Mask]:
    """By variable, the records of the newest release whose value an earlier one shows."""
    newest, shown_before = joint.releases[0], dict[str, Mask]()
    for release in joint.releases[1:]:
        for name in release.dataset.columns:
            if name not in original.schema:
                continue
            truth = frames.get_column(original.frame, name).gather(joint.positions)
            shown = are_equal_cells(truth, release.column(name)).to_numpy() & release.present
            rows = shown_before.setdefault(name, np.zeros(len(newest.dataset), bool))
            rows[newest.rows[newest.present]] |= shown[newest.present]
    return shown_before


class RecoverableWithEarlier(Measure):
    """What comes back of this release's protected values for somebody with earlier ones."""

    name = Recoverable.name
    numbers = Recoverable.numbers
    of = "pair"
    counts_persons = Recoverable.counts_persons

    def __init__(self, measure: Recoverable, shown_before: Mapping[str, Mask]) -> None:
        self._measure, self._shown_before = measure, shown_before

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Count what earlier releases show, and use it as a tool as well."""
        del engine  # all records are in memory
        return self._measure.compare_with(original, released, self._shown_before)
