"""One cell for all records of a cluster: a range, a set, a group, or an average."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import polars as pl

from sfumato.cells.notation import WILDCARD, range_of, set_of, written
from sfumato.errors import MethodError
from sfumato.kernels.arrays import Integers
from sfumato.methods._clustering.averages import means, medians
from sfumato.methods._clustering.coded import Variable, beginning

Output = Literal["range", "set", "level", "mean", "median", "mode"]


@dataclass(frozen=True, eq=False)
class Clusters:
    """The records cluster after cluster, and where each cluster begins."""

    order: Integers
    starts: Integers

    def of_each(self) -> Integers:
        """The number of each record's cluster."""
        found = np.empty(len(self.order), np.int64)
        found[self.order] = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        return found


@dataclass(frozen=True, eq=False)
class Cells:
    """The distinct cells of a variable, and which of them each cluster has."""

    table: pl.Series
    at: Integers


def cells(one: Variable, clusters: Clusters, output: Output) -> Cells | None:
    """The cell of each cluster; None where every cluster has a single value already."""
    from sfumato.kernels.clustering.clusters import ranges

    low, high = (
        end[:, 0].astype(np.int64)
        for end in ranges(one.codes[:, None], clusters.order, clusters.starts)
    )
    if bool((low == high).all()):
        return None
    if output in ("mean", "median", "mode"):
        return _averaged(one, clusters, output)
    if output == "range" and one.column.kind == "text" and one.levels.dtype == pl.String:
        return _masks(one, clusters, low, high)
    if output == "set" or (output == "range" and not _ordered(one)):
        return _sets(one, clusters)
    if output == "level":
        return _groups(one, clusters, low, high)
    return _tabled(one, low, high, lambda a, b: _range(one, a, b))


def _ordered(one: Variable) -> bool:
    """Whether a range can be written; along a hierarchy there is an order, but no range."""
    return one.worth is not None and one.column.kind not in ("nominal", "text")


def _range(one: Variable, low: int, high: int) -> str:
    ends = _text(one, low), _text(one, high)
    return range_of(*ends, one.name)


def _text(one: Variable, code: int) -> str:
    return written(one.levels[code])


def _plain(one: Variable, low: int, high: int) -> tuple[bool, str | None]:
    """The cell of a cluster that needs no range: one value, or missing, or both."""
    if low == high and low >= one.missing:
        return True, _text(one, low)
    if high < one.missing:
        # Codes for missing are kept where text is written as text; several become plain missing.
        kept = low == high and one.levels.dtype == pl.String
        return True, one.levels[low] if kept else None
    return low < one.missing, WILDCARD


def _tabled(
    one: Variable, low: Integers, high: Integers, between: Callable[[int, int], str | None]
) -> Cells:
    """A table with one text for each distinct pair of ends."""
    count = len(one.levels)
    pairs, at = np.unique(low * count + high, return_inverse=True)
    texts = []
    for pair in pairs.tolist():
        done, text = _plain(one, *divmod(pair, count))
        texts.append(text if done else between(*divmod(pair, count)))
    return Cells(pl.Series(one.name, texts, dtype=pl.String), at.ravel())


def _masks(one: Variable, clusters: Clusters, low: Integers, high: Integers) -> Cells:
    """What codes of one length begin with, `937**`; `*` where they share no beginning.

    In the order of spelling the first and the last share what all of them share.
    """
    from sfumato.kernels.clustering.clusters import ranges

    lengths = one.levels.str.len_chars().fill_null(0).cast(pl.Int32).to_numpy()
    least, most = ranges(lengths[one.codes][:, None], clusters.order, clusters.starts)
    even = (least == most)[:, 0]
    made = _tabled(one, low, high, lambda a, b: _mask(_text(one, a), _text(one, b)))
    texts = made.table.to_list()
    plain = (low == high) | (high < one.missing)
    at = np.where(even | plain, made.at, len(texts))
    return Cells(pl.Series(one.name, [*texts, WILDCARD], dtype=pl.String), at)


def _mask(low: str, high: str) -> str:
    start = beginning(low, high)
    return start + "*" * (len(low) - len(start)) if start else WILDCARD


def _sets(one: Variable, clusters: Clusters) -> Cells:
    from sfumato.kernels.clustering.clusters import level_sets

    levels, starts = level_sets(one.codes, clusters.order, clusters.starts)
    named: list[Any] = [written(level) for level in one.levels.to_list()]
    table: dict[Any, int] = {}
    several = levels.astype(np.int32)
    at = [
        table.setdefault(several[first:last].tobytes(), len(table))
        for first, last in pairwise(starts.tolist())
    ]
    texts = []
    for key in table:
        codes = np.frombuffer(key, np.int32).tolist()
        done, text = _plain(one, codes[0], codes[-1])
        names = [named[code] for code in codes]
        # Along a hierarchy the codes have its order, which means nothing in a set.
        listed = sorted(names) if one.column.hierarchy else names
        texts.append(text if done else set_of(listed, one.name))
    return Cells(pl.Series(one.name, texts, dtype=pl.String), np.array(at))


def _groups(one: Variable, clusters: Clusters, low: Integers, high: Integers) -> Cells:
    """The narrowest group of the hierarchy that holds a whole cluster; else `*`."""
    from sfumato.kernels.clustering.clusters import ranges

    groups = one.groups
    if groups is None:
        raise MethodError(
            f"Variable '{one.name}' has no hierarchy, so there is no level to write.",
            hint='declare one in the schema, or choose the output "range" or "set".',
        )
    plain = _tabled(one, low, high, lambda *_: None)
    texts = plain.table.to_list()
    at = np.where(low == high, plain.at, -1)
    at[high < one.missing] = plain.at[high < one.missing]
    inside = (low >= one.missing) & (low != high)
    for names in zip(*groups, strict=True):
        known = list(dict.fromkeys(names))
        number = {name: place for place, name in enumerate(known)}
        codes = np.array([-1] * one.missing + [number[name] for name in names], np.int32)
        ends = ranges(codes[one.codes][:, None], clusters.order, clusters.starts)
        least, most = (end[:, 0].astype(np.int64) for end in ends)
        found = (at < 0) & inside & (least == most)
        at[found] = len(texts) + least[found]
        texts += known
    at[at < 0] = len(texts)
    return Cells(pl.Series(one.name, [*texts, WILDCARD], dtype=pl.String), at)


def _averaged(one: Variable, clusters: Clusters, output: Output) -> Cells:
    if output == "mode":
        return Cells(one.levels, _modes(one, clusters))
    if one.missing:
        raise MethodError(
            f"Variable '{one.name}' has missing values, which have no {output}.",
            hint='choose the output "range" (missing among others becomes `*`) or "mode", or fill '
            "them in first.",
        )
    ranked = one.column.kind == "ordinal" and one.column.levels is not None
    if one.worth is None or not _ordered(one) or (ranked and output == "mean"):
        raise MethodError(
            f"Variable '{one.name}' has no {output}: it is {one.column.kind}.",
            hint='choose another output, such as {"' + one.name + '" = "mode"}.',
        )
    middle = _medians(one, clusters)
    if ranked:
        return Cells(one.levels, middle[0])
    if output == "median":
        made = medians(one, one.worth, *middle)
    else:
        made = means(one, one.worth, one.codes[clusters.order], clusters.starts)
    return Cells(made, np.arange(len(made)))


def _medians(one: Variable, clusters: Clusters) -> tuple[Integers, Integers]:
    """The codes of the two middle records of each cluster; one twice where the size is odd."""
    sizes = np.diff(clusters.starts)
    codes = one.codes[clusters.order]
    ranked = codes[np.lexsort((codes, np.repeat(np.arange(len(sizes)), sizes)))].astype(np.int64)
    first = clusters.starts[:-1]
    return ranked[first + (sizes - 1) // 2], ranked[first + sizes // 2]


def _modes(one: Variable, clusters: Clusters) -> Integers:
    """The commonest code of each cluster; among equally common ones the lowest."""
    count = len(one.levels)
    sizes = np.diff(clusters.starts)
    pairs = np.repeat(np.arange(len(sizes)), sizes) * count + one.codes[clusters.order]
    found, often = np.unique(pairs, return_counts=True)
    cluster, code = np.divmod(found, count)
    order = np.lexsort((code, -often, cluster))
    first = np.unique(cluster[order], return_index=True)[1]
    chosen: Integers = code[order][first]
    return chosen
