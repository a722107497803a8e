"""Centres of nearest neighbours in strata that are too large for one worker.

A stratum is cut into boxes. A worker gets the records of a box, and those around it up to some
width (the halo). Where the k-th neighbour of a record is nearer than the end of the halo, no record
elsewhere can be nearer: its centre is exact. The few others are looked up in all records, within
the distance that is known to hold k of them. Both steps leave ties to the code of one machine, so
the centres are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import GroupingEngine
from sfumato.engines.local import look_up
from sfumato.errors import MethodError
from sfumato.kernels.arrays import Floats, Integers, Mask

MOST_IN_PIECE = 2_000_000
"""Records that one worker looks through, besides those of the halo."""
MOST_OPEN = 100_000
"""Records that are looked up in all others."""
_SAMPLED = 200
"""Records of a sample by which a piece is cut."""
_LARGEST_SAMPLE = 1_000_000
_ROUNDS = 6
_WIDER = 2.0
_SLACK, _ROUNDING = 1 + 1e-9, 1e-14
"""What rounding may add to a distance, and to a point: candidates are taken farther out by it."""
_PIECE, _OWN, _REACH = "__sfumato_piece", "__sfumato_own", "__sfumato_reach"
_STRATUM, _QUERY, _TIMES, _DISTANCE = "__stratum", "__query", "__times", "__distance"


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """Among which records the nearest are sought, and what near means.

    Parameters
    ----------
    names : the numbers.
    by : the strata.
    scale : a factor for each number, or the matrix of a Mahalanobis distance.
    k : how many records make a centre.
    """

    names: tuple[str, ...]
    by: tuple[str, ...]
    scale: Floats = field(repr=False)
    k: int

    def read(self, batch: pl.DataFrame) -> Floats:
        """The numbers of some records."""
        return np.column_stack([batch[name].cast(pl.Float64).to_numpy() for name in self.names])

    def to_units(self, values: Floats) -> Floats:
        """Points whose distance is the one that counts."""
        return values * self.scale if self.scale.ndim == 1 else values @ self.scale.T

    def measure(self, values: Floats, others: Floats) -> Floats:
        """How far records are from others, pair by pair."""
        distances: Floats = np.sqrt((self.to_units(values - others) ** 2).sum(axis=1))
        return distances

    def bound_rounding(self, values: Floats) -> float:
        """How far rounding may put a point off, where numbers are large beside their distances."""
        sizes = np.abs(values).max(axis=0, initial=0.0)
        turned = np.abs(self.scale) * sizes if self.scale.ndim == 1 else np.abs(self.scale) @ sizes
        return _ROUNDING * float(turned.max(initial=0.0))


@dataclass(frozen=True, eq=False)
class StratumPieces:
    """The boxes into which large strata are cut, in units of distance.

    Parameters
    ----------
    strata : the large strata, with their numbers.
    stratum : of each piece, the number of its stratum.
    low, high : where each piece begins and ends; infinite at the edge of a stratum.
    halo : how far beyond that its worker looks.
    """

    strata: pl.DataFrame = field(repr=False)
    stratum: Integers
    low: Floats = field(repr=False)
    high: Floats = field(repr=False)
    halo: Floats = field(repr=False)

    def widen(self) -> StratumPieces:
        """The same with wider halos."""
        return StratumPieces(self.strata, self.stratum, self.low, self.high, self.halo * _WIDER)

    def find_stratum(self, batch: pl.DataFrame, by: Sequence[str]) -> Integers:
        """The number of each record's stratum; -1 where it is not a large one."""
        if not by:
            return np.zeros(batch.height, np.int64)
        return look_up(batch, self.strata, by)[_STRATUM].fill_null(-1).to_numpy()

    def measure_room(self, points: Floats, pieces: Integers) -> Floats:
        """How far each point is from the end of the halo of its piece."""
        halo = self.halo[pieces][:, None]
        below = points - (self.low[pieces] - halo)
        above = (self.high[pieces] + halo) - points
        room: Floats = np.minimum(below, above).min(axis=1)
        return room


def find_centres_in_pieces(
    data: Dataset, space: Neighbourhood, engine: GroupingEngine
) -> Dataset | None:
    """The records with their centres in the place of the numbers; None where no stratum is large.

    The result is that of `centroids` for each stratum.
    """
    strata = engine.distinct(data, space.by)
    if strata.counts.max(initial=0) <= MOST_IN_PIECE:
        return None
    pieces = _cut_strata(data, space, strata.values, strata.counts, engine)
    for _ in range(_ROUNDS):
        moved = engine.keep(_move_in_pieces(data, space, pieces, engine))
        unsure = engine.filter(moved, _is_unsure, [_REACH])
        if engine.count(unsure) <= MOST_OPEN:
            return _settle(data, moved, engine.fetch(unsure), space, pieces, engine)
        pieces = pieces.widen()
    raise MethodError(
        f"The neighbours of more than {MOST_OPEN:,} records lie in other parts of their stratum.",
        hint="blur fewer variables together, or name strata that divide the records further.",
    )


# Cutting


def _cut_strata(
    data: Dataset,
    space: Neighbourhood,
    strata: pl.DataFrame,
    counts: Integers,
    engine: GroupingEngine,
) -> StratumPieces:
    """Boxes of about as many records as a worker takes, by a sample."""
    wanted = int(np.ceil(counts.sum() / MOST_IN_PIECE)) * _SAMPLED
    columns = [*space.by, *space.names]
    sample = engine.sample(data, columns, min(wanted, _LARGEST_SAMPLE))
    large = np.flatnonzero(counts > MOST_IN_PIECE)
    numbers = pl.DataFrame({_STRATUM: np.arange(len(large))})
    table = numbers.with_columns(strata[large].get_columns()) if space.by else numbers
    nobody = np.empty((0, len(space.names)))
    uncut = StratumPieces(table, np.empty(0, np.int64), nobody, nobody, np.empty(0))
    number = uncut.find_stratum(sample, space.by)
    points = space.to_units(space.read(sample))
    boxes = [
        (index, *box)
        for index, records in enumerate(counts[large].tolist())
        for box in _cut_box(points[number == index], records, space.k)
    ]
    stratum, low, high, halo = zip(*boxes, strict=True)
    return StratumPieces(table, np.array(stratum), np.array(low), np.array(high), np.array(halo))


def _cut_box(points: Floats, records: float, k: int) -> Iterator[tuple[Floats, Floats, float]]:
    """Halves of halves at the median of the longest side, until each has few enough records."""
    columns = points.shape[1]
    waiting = [(points, float(records), np.full(columns, -np.inf), np.full(columns, np.inf))]
    while waiting:
        some, size, low, high = waiting.pop()
        sides = np.ptp(some, axis=0) if len(some) else np.zeros(columns)
        axis = int(np.argmax(sides))
        cut = float(np.median(some[:, axis])) if sides[axis] > 0 else np.nan
        below = some[:, axis] < cut
        if size <= MOST_IN_PIECE or not 0 < below.sum() < len(some):
            yield low, high, _choose_halo(sides, size, k)
            continue
        end, start = high.copy(), low.copy()
        end[axis] = start[axis] = cut
        share = float(below.mean())
        waiting.append((some[below], size * share, low, end))
        waiting.append((some[~below], size * (1 - share), start, high))


def _choose_halo(sides: Floats, records: float, k: int) -> float:
    """About twice the distance of the k-th neighbour, were the records spread evenly."""
    wide = sides[sides > 0]
    if not len(wide):
        return 0.0
    return float(2 * np.exp((np.log(wide).sum() + np.log(k / max(records, 1))) / len(wide)))


@contextmanager
def refuse_far_values(names: Sequence[str]) -> Iterator[None]:
    """Say it where values are too large to be squared, or k is beyond what a stratum can be."""
    try:
        yield
    except ValueError as error:
        raise MethodError(
            f"No neighbours can be found of {', '.join(names)}. {error}",
            hint="give the variables in another unit, or take a smaller k.",
        ) from None


# Moving what a worker can be sure of


def _move_in_pieces(
    data: Dataset, space: Neighbourhood, pieces: StratumPieces, engine: GroupingEngine
) -> Dataset:
    """Every record with its centre; `_REACH` is a distance that holds k records where unsure.

    The numbers as they were stay beside the centres.
    """
    spread = engine.repeat(data, partial(_deal_out, space, pieces), reads=[*space.by, *space.names])
    reads = [*space.names, _PIECE]
    moved = engine.map_groups(
        spread, partial(_move_groups, space, pieces), by=[*space.by, _PIECE], reads=reads
    )
    return engine.filter(moved, _is_own, [_OWN]).without([_PIECE, _OWN])


def _is_own(batch: pl.DataFrame) -> Mask:
    return batch[_OWN].to_numpy()


def _is_unsure(batch: pl.DataFrame) -> Mask:
    return batch[_REACH].is_not_null().to_numpy()


def _deal_out(
    space: Neighbourhood, pieces: StratumPieces, batch: pl.DataFrame
) -> tuple[Integers, pl.DataFrame]:
    """The records of each piece and of its halo; -1 is the piece of a stratum that is not cut."""
    stratum, points = pieces.find_stratum(batch, space.by), space.to_units(space.read(batch))
    rows, numbers, owners = [np.flatnonzero(stratum < 0)], [], []
    numbers.append(np.full(len(rows[0]), -1))
    owners.append(np.ones(len(rows[0]), bool))
    for piece, (low, high, halo) in enumerate(
        zip(pieces.low, pieces.high, pieces.halo, strict=True)
    ):
        here = np.flatnonzero(stratum == pieces.stratum[piece])
        in_halo = (points[here] >= low - halo) & (points[here] <= high + halo)
        here = here[in_halo.all(axis=1)]
        rows.append(here)
        numbers.append(np.full(len(here), piece))
        owners.append(((points[here] >= low) & (points[here] < high)).all(axis=1))
    columns = {_PIECE: np.concatenate(numbers), _OWN: np.concatenate(owners)}
    return np.concatenate(rows), pl.DataFrame(columns, schema={_PIECE: pl.Int64, _OWN: pl.Boolean})


def _move_groups(
    space: Neighbourhood,
    pieces: StratumPieces,
    batch: pl.DataFrame,
    starts: Integers,
    draws: object,
) -> pl.DataFrame:
    """Centres within each piece, and how far the k-th neighbour is where others may be nearer."""
    from sfumato.kernels.trees.neighbours import centroids, neighbours

    del draws
    values, piece = space.read(batch), batch[_PIECE].to_numpy()
    means, reach = np.full(values.shape, np.nan), np.full(len(values), np.nan)
    points = space.to_units(values)
    for start, stop in pairwise(starts.tolist()):
        rows, ends = slice(start, stop), np.array([0, stop - start])
        cut = piece[start] >= 0
        if cut and stop - start < space.k:
            reach[rows] = np.inf
            continue
        with refuse_far_values(space.names):
            means[rows] = centroids(values[rows], space.scale, ends, space.k)
            if not cut:
                continue
            last = neighbours(values[rows], space.scale, ends, space.k)[:, -1]
        distance = space.measure(values[rows], values[rows][last]) * _SLACK
        distance += space.bound_rounding(values[rows])
        unsure = distance >= pieces.measure_room(points[rows], piece[rows])
        reach[rows] = np.where(unsure, distance, np.nan)
    columns = {name: means[:, column] for column, name in enumerate(space.names)}
    was = {_name_original(name): values[:, column] for column, name in enumerate(space.names)}
    known = pl.Series(_REACH, reach, dtype=pl.Float64).fill_nan(None)
    return pl.DataFrame({**columns, **was, _REACH: known})


def _name_original(name: str) -> str:
    return f"__sfumato_was_{name}"


# Looking up the others


def _settle(
    data: Dataset,
    moved: Dataset,
    unsure: pl.DataFrame,
    space: Neighbourhood,
    pieces: StratumPieces,
    engine: GroupingEngine,
) -> Dataset:
    """The records with the centres that are sure, and those of the others looked up in all."""
    was = [_name_original(name) for name in space.names]
    on = [*space.by, *was]
    queries = unsure.group_by(on).agg(pl.col(_REACH).min())
    table = queries.select(on).with_columns(
        pl.lit(None, pl.Float64).alias(_name_centre(name)) for name in space.names
    )
    if queries.height:
        search = _PieceSearch(space, pieces, queries)
        parts = engine.gather(
            data,
            search.find_candidates,
            reads=[*space.by, *space.names],
            combine=search.join_candidates,
        )
        table = search.find_centres(reduce(search.join_candidates, parts))
    settled = engine.attach(moved, table, on)
    centres = {name: _name_centre(name) for name in space.names}

    def choose(batch: pl.DataFrame, draws: object) -> pl.DataFrame:
        del draws
        return batch.select(
            pl.when(pl.col(_REACH).is_null())
            .then(pl.col(name))
            .otherwise(pl.col(centre))
            .alias(name)
            for name, centre in centres.items()
        )

    chosen = engine.map_rows(settled, choose, reads=[*centres, *centres.values(), _REACH])
    return chosen.without([_REACH, *was, *centres.values()])


def _name_centre(name: str) -> str:
    return f"__sfumato_centre_{name}"


@dataclass(frozen=True, eq=False)
class _PieceSearch:
    """Records whose neighbours are sought among all.

    Parameters
    ----------
    space : what near means.
    pieces : the large strata.
    queries : the records, and a distance that holds k others (infinite where nobody knows one).
    """

    space: Neighbourhood
    pieces: StratumPieces
    queries: pl.DataFrame = field(repr=False)

    def find_candidates(self, batch: pl.DataFrame) -> pl.DataFrame:
        """The points of a part that may be among the k nearest of a query, with their counts."""
        from scipy.spatial import cKDTree

        space, stratum = self.space, self.pieces.find_stratum(batch, self.space.by)
        stratum_of_query = self.pieces.find_stratum(self.queries, space.by)
        wanted, reach = self._read_queries(), self.queries[_REACH].to_numpy()
        tables = [self._make_table(np.empty(0, np.int64), wanted[:0], np.empty(0, np.int64))]
        for number in np.unique(stratum_of_query):
            here = space.read(batch.filter(pl.Series(stratum == number)))
            if not len(here):
                continue
            distinct, times = np.unique(here + 0.0, axis=0, return_counts=True)
            rows = np.flatnonzero(stratum_of_query == number)
            centre = space.to_units(wanted[rows])
            tree = cKDTree(space.to_units(distinct))
            most = min(space.k, len(distinct))
            off = space.bound_rounding(distinct) + space.bound_rounding(wanted[rows])
            nearest = tree.query(centre, k=[most])[0][:, 0]
            radius = np.minimum(nearest, reach[rows]) * _SLACK + off
            lists = tree.query_ball_point(centre, radius)
            sizes = np.array([len(some) for some in lists])
            points = np.concatenate([np.empty(0), *lists]).astype(np.int64)
            of = np.repeat(rows, sizes)
            tables.append(self._make_table(of, distinct[points], times[points]))
        return self._keep_nearest(pl.concat(tables))

    def join_candidates(self, first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
        """The candidates of two parts."""
        return self._keep_nearest(pl.concat([first, second]))

    def find_centres(self, candidates: pl.DataFrame) -> pl.DataFrame:
        """The centre of each query among its candidates, by the code of one machine."""
        from sfumato.kernels.trees.neighbours import centroids

        names = list(self.space.names)
        ordered = candidates.sort(_QUERY)
        copies = ordered[_TIMES].clip(upper_bound=self.space.k).to_numpy()
        values = np.repeat(ordered.select(names).to_numpy(), copies, axis=0)
        of = np.repeat(ordered[_QUERY].to_numpy(), copies)
        starts = np.append(np.flatnonzero(np.diff(of, prepend=-1)), len(of))
        means = centroids(values, self.space.scale, starts, self.space.k)
        is_query = (values == self._read_queries()[of]).all(axis=1)
        first = np.flatnonzero(is_query)[np.unique(of[is_query], return_index=True)[1]]
        columns = {_name_centre(name): means[first, i] for i, name in enumerate(names)}
        return self.queries.drop(_REACH).with_columns(
            pl.Series(name, values) for name, values in columns.items()
        )

    def _read_queries(self) -> Floats:
        columns = [self.queries[_name_original(name)].to_numpy() for name in self.space.names]
        return np.column_stack(columns)

    def _make_table(self, queries: Integers, points: Floats, times: Integers) -> pl.DataFrame:
        columns: dict[str, Any] = {
            name: points[:, column] for column, name in enumerate(self.space.names)
        }
        return pl.DataFrame({_QUERY: queries, **columns, _TIMES: times})

    def _keep_nearest(self, candidates: pl.DataFrame) -> pl.DataFrame:
        """Those up to the k-th, and what is as far as the k-th but for rounding."""
        names = list(self.space.names)
        joined = candidates.group_by([_QUERY, *names]).agg(pl.col(_TIMES).sum())
        queries = self._read_queries()[joined[_QUERY].to_numpy()]
        distances = self.space.measure(self.space.read(joined), queries)
        ordered = joined.with_columns(pl.Series(_DISTANCE, distances)).sort(_QUERY, _DISTANCE)
        before = pl.col(_TIMES).cum_sum().over(_QUERY) - pl.col(_TIMES)
        last = pl.col(_DISTANCE).filter(before < self.space.k).max().over(_QUERY)
        return ordered.filter(pl.col(_DISTANCE) <= last * _SLACK).drop(_DISTANCE)
