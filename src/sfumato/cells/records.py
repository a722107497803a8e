"""Which records belong together, and which released records are alike."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.ends import Ends
from sfumato.cells.held import Held
from sfumato.data import Dataset
from sfumato.data.identity import matched
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Codes, Positions


def places(original: Dataset, released: Dataset, *, owner: str) -> Positions | None:
    """Where each original record stands in the release, -1 where it was removed.

    None where both stand row by row in one order.
    """
    if not len(original):
        raise MeasureError("There is no record to compare.", hint="are the data empty?")
    theirs = released.given_identity
    if theirs is not None and theirs.basis == original.identity.basis:
        mine = original.identity.digests
        if mine.shape == theirs.digests.shape and bool((mine == theirs.digests).all()):
            return None
        at = matched(theirs.digests, mine)
        # Otherwise the identity was given anew, and does not say which records belong together.
        if int((at >= 0).sum()) == len(released):
            return at
    if len(original) != len(released):
        raise MeasureError(
            f"'{owner}' compares record by record; the original has {len(original)} records, the "
            f"released data {len(released)}.",
            hint="evaluate a Release or its folder, so that the records can be paired.",
        )
    return None


def coded(cells: Ends | Held) -> tuple[Codes, int]:
    """A number for the cell of each record, and how many numbers there are."""
    if cells.of is not None:
        return cells.of, int(cells.of.max(initial=0)) + 1
    ranks = pl.Series(cells.low).rank("dense").cast(pl.Int32).to_numpy()
    return ranks, int(ranks.max(initial=0)) + 1


def class_sizes(coded_cells: list[tuple[Codes, int]], records: int) -> npt.NDArray[np.int64]:
    """The sizes of the classes of records with equal cells; one class where nothing is left."""
    if not coded_cells or not records:
        return np.array([records] if records else [], np.int64)
    from sfumato.kernels.trees.box_classes import classes

    sizes = [size for _, size in coded_cells]
    return classes(np.stack([codes for codes, _ in coded_cells]), sizes).counts
