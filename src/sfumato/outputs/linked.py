"""What several outputs tell together of a group that none of them shows.

Question: can the number of a few people be worked out from the cells of several outputs?
Assumes: whoever has one output has the others, and knows of every cell that is shown how many
records it holds. All outputs are cut into the pieces that any of them tells apart; each cell
shown is a sum of pieces. A sum of pieces is known when it is a combination of the sums shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.kernels.arrays import Floats, Mask

if TYPE_CHECKING:
    from sfumato.outputs.differencing import Population

_ID, _SIZE = "id", "how many records"
GROUP, WAY = "group", "way"
"""How an output splits its records: into groups, or into parts whose numbers are shown."""
_PIECES = 700
_TARGETS, _BOUNDED = 20, 300
"""How many hidden cells are bounded one by one, and in how many pieces at most."""
_HAIR = 1e-7
_OPTIMAL = 0


def linked(
    made: Population, earlier: Sequence[tuple[int, Population]], *, fewest: int
) -> list[str]:
    """What the new output gives away together with earlier ones, in sentences.

    All earlier ones are taken together; where that makes too many pieces, one by one, and where
    even two do, that is said.
    """
    together = [(number, one) for number, one in earlier if _ways(one)]
    if not together or not _ways(made):
        return []
    found = _worked_out([made, *(one for _, one in together)], fewest)
    if found is not None:
        return _said([number for number, _ in together], fewest) if found else []
    sentences, open_ones = [], []
    for number, one in together:
        found = _worked_out([made, one], fewest)
        if found:
            sentences += _said([number], fewest)
        elif found is None:
            open_ones.append(number)
    if open_ones:
        listed = ", ".join(map(str, open_ones))
        sentences.append(
            f"It has too many cells in common with output {listed} to try whether hidden ones can "
            "be worked out."
        )
    return sentences


def _ways(one: Population) -> list[str]:
    return [name for name in one.records.columns if name.startswith(f"{WAY} ")]


def _said(numbers: Sequence[int], fewest: int) -> list[str]:
    listed = ", ".join(map(str, numbers))
    outputs = f"output{'s' if len(numbers) > 1 else ''} {listed}"
    said = (
        f"Taken together with {outputs} it gives few people away: a group of fewer than {fewest} "
        "records that neither shows can be worked out from the cells that are shown."
    )
    return [said]


def _worked_out(populations: Sequence[Population], fewest: int) -> bool | None:
    """Whether a small group can be worked out; None where there is too much to try."""
    pieces = _pieces(populations)
    if pieces.height > _PIECES:
        return None
    sizes = pieces[_SIZE].to_numpy().astype(np.float64)
    sums, hidden = _sums(pieces, fewest)
    small = (hidden @ sizes < fewest) if len(hidden) else np.zeros(0, bool)
    alone = np.eye(len(sizes))[sizes < fewest]
    targets = np.concatenate([hidden[small], alone])
    if not len(targets) or not len(sums):
        return False
    known = _known(targets, sums)
    before = _known(targets, _sums(pieces, fewest, but=0)[0])
    if (known & ~before).any():
        return True
    bounded = np.unique(hidden[small][~before[: int(small.sum())]], axis=0)
    if _narrowed(
        bounded[:_TARGETS] if len(sizes) <= _BOUNDED else bounded[:0], sums, sizes, fewest
    ):
        return True
    # What was not tried is told, not called safe.
    return None if len(bounded) > (_TARGETS if len(sizes) <= _BOUNDED else 0) else False


def _pieces(populations: Sequence[Population]) -> pl.DataFrame:
    """Which parts of which outputs go together, and how many records are in each combination."""
    frames = [
        one.records.select(_ID, *(pl.col(name).alias(f"{at} {name}") for name in _ways(one)))
        for at, one in enumerate(populations)
    ]
    joined = reduce(lambda one, other: one.join(other, on=_ID, how="full", coalesce=True), frames)
    cells = joined.drop(_ID)
    return cells.group_by(cells.columns).len(_SIZE).sort(cells.columns)


def _sums(pieces: pl.DataFrame, fewest: int, but: int | None = None) -> tuple[Floats, Floats]:
    """Of which pieces each cell that is shown is the sum, and each that is hidden.

    One of fewer than `fewest` is never shown.
    """
    sizes = pieces[_SIZE].to_numpy()
    shown, hidden = [np.zeros((0, pieces.height))], [np.zeros((0, pieces.height))]
    for name in pieces.columns:
        if name == _SIZE or (but is not None and name.startswith(f"{but} ")):
            continue
        column = pieces[name]
        levels = column.drop_nulls().unique().sort().to_numpy()
        held = column.fill_null(np.iinfo(np.int64).min).to_numpy()[None, :] == levels[:, None]
        seen = (levels >= 0) & (held @ sizes >= fewest)
        shown.append(held[seen].astype(np.float64))
        hidden.append(held[~seen].astype(np.float64))
    return np.concatenate(shown), np.concatenate(hidden)


def _known(targets: Floats, sums: Floats) -> Mask:
    """Which of these sums of pieces are combinations of those that are shown."""
    if not len(sums):
        return np.zeros(len(targets), bool)
    _, values, basis = np.linalg.svd(np.unique(sums, axis=0), full_matrices=False)
    basis = basis[values > _HAIR * values.max()]
    left = targets - (targets @ basis.T) @ basis
    return np.asarray(np.linalg.norm(left, axis=1) < _HAIR * np.linalg.norm(targets, axis=1))


def _narrowed(targets: Floats, sums: Floats, sizes: Floats, fewest: int) -> bool:
    """Whether a hidden part cannot hold as many as `fewest`, since no piece is below nothing."""
    from scipy.optimize import linprog

    distinct = np.unique(sums, axis=0)
    right: Any = distinct @ sizes
    for target in targets:
        found = linprog(-target, A_eq=distinct, b_eq=right, bounds=(0, None), method="highs")
        if found.status == _OPTIMAL and -found.fun < fewest - _HAIR:
            return True
    return False
