"""A classification tree that tells released from original records."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import AnyIntegers, Floats
from sfumato.utility.models.merged import Merged, Number, Variable

_SMALLEST_LEAF = 10
_MOST_LEAVES = 100
_SPLITS = 4
"""With records for fewer leaves, a tree would call anything alike."""

Features = npt.NDArray[np.float32]


def leaf_of(merged: Merged) -> int:
    """How many records a leaf has at least; fail when there are too few for a tree."""
    leaf = max(_SMALLEST_LEAF, merged.records // _MOST_LEAVES)
    if merged.records < _SPLITS * leaf:
        raise MeasureError(
            f"A tree needs {_SPLITS * leaf} records in both data sets together; there are "
            f"{merged.records}.",
            hint='choose model = "main".',
        )
    return leaf


def features_of(merged: Merged) -> Features:
    """A column per number and per level.

    Numbers by rank: a tree sees nothing else of them, and ranks survive 32 bits.
    """
    columns = [column for one in merged.variables for column in _columns(one)]
    return np.column_stack(columns).astype(np.float32)


def _columns(one: Variable) -> list[npt.NDArray[Any]]:
    if isinstance(one, Number):
        ranks = pl.Series(one.values).rank("dense").to_numpy()
        return [ranks] if one.missing is None else [ranks, one.missing]
    return [one.codes == level for level in range(one.levels)]


def probabilities(
    merged: Merged, features: Features, releases: AnyIntegers, *, leaf: int
) -> Floats:
    """For each distinct record the share of released ones in its leaf."""
    from sklearn.tree import DecisionTreeClassifier

    each = np.column_stack([merged.counts - releases, releases]).ravel()
    rows = np.repeat(np.arange(len(releases)), merged.counts)
    labels = np.repeat(np.tile([0, 1], len(releases)), each)
    # Among equally good splits chance decides; the seed makes it the same chance every time.
    model = DecisionTreeClassifier(min_samples_leaf=leaf, random_state=0)
    found: Floats = model.fit(features[rows], labels).predict_proba(features)[:, 1]
    return found
