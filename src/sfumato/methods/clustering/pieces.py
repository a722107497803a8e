"""Mondrian's first cuts by counts, where the rows are, down to pieces that one worker takes.

Each cut needs little: how wide a piece is in each variable, how many records have each code of the
widest, and with rules how many of each half have each confidential value. These are counts, and one
job takes them for all open pieces. The decisions are those of `kernels/clustering/mondrian`, number
by number, so that a worker that goes on with a piece ends with the clusters of one machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import GroupingEngine, Starts
from sfumato.engines.verbs import HIGH, LEVELS, LOW, RANK, RECORDS, ROWS
from sfumato.kernels.arrays import Codes, Integers, Mask
from sfumato.methods.clustering.cells import Clusters
from sfumato.methods.clustering.microaggregation import cluster_rows, stack_codes

if TYPE_CHECKING:
    from sfumato.kernels.clustering.closeness import Population
    from sfumato.kernels.clustering.mondrian import CodeScale
    from sfumato.methods.clustering.distributed import Layout

PIECE = "__sfumato_piece"
_ALONE, _SIZE, _LEADER = "__sfumato_alone", "__sfumato_size", "__sfumato_leader"
_COST, _TURN, _CHOSEN, _SIDE = (f"__sfumato_{what}" for what in ("cost", "turn", "chosen", "side"))
_BUCKETS = 1 << 10
"""Parts into which rows are put that are clusters by themselves."""


@dataclass(eq=False)
class _Node:
    """A piece: a stretch of a large stratum, cut or not."""

    number: int
    root: int
    records: int = 0
    rows: int = 0
    attempts: list[tuple[bool, int]] = field(default_factory=list)
    tight: bool = False
    variable: int = -1
    front: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    halves: tuple[_Node, _Node] | None = None

    def take_attempt(self) -> bool:
        """Go on to the next variable to be tried, if there is one."""
        if self.attempts:
            self.tight, self.variable = self.attempts.pop(0)
            return True
        return False

    def list_leaves(self) -> Iterator[_Node]:
        """The pieces that are not cut."""
        if self.halves is None:
            yield self
            return
        for half in self.halves:
            yield from half.list_leaves()


@dataclass(frozen=True, eq=False)
class _Root:
    """A large stratum: its number, the codes that occur in each variable, and their scale."""

    stratum: int
    used: Sequence[Integers]
    scale: CodeScale


@dataclass(frozen=True, eq=False)
class Pieces:
    """Rows in pieces that a worker takes, and what it must know of them."""

    layout: Layout
    roots: Sequence[_Root]
    root_of: Mapping[int, int]
    population: Population

    def cluster(self, batch: pl.DataFrame, starts: Starts) -> Clusters:
        """The clusters of some whole pieces."""
        orders, edges, done = [], [np.zeros(1, np.int64)], 0
        for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            part = self._cluster_piece(batch[first:last])
            orders.append(first + part.order)
            edges.append(done + part.starts[1:])
            done += last - first
        return Clusters(np.concatenate(orders), np.concatenate(edges))

    def _cluster_piece(self, batch: pl.DataFrame) -> Clusters:
        from sfumato.kernels.clustering.mondrian import cut_piece, group_equal_rows

        piece, rows = int(batch[PIECE][0]), self.layout.read_rows(batch)
        if piece < 0:  # clusters by themselves: what is equal belongs together
            codes = stack_codes(rows.variables)
            if rows.strata is not None:
                codes = np.column_stack([codes, rows.strata])
            return Clusters(*group_equal_rows(codes))
        if piece not in self.root_of:
            return cluster_rows(rows, self.layout.k, self.layout.clustering)
        root = self.roots[self.root_of[piece]]
        secret = self.layout.read_sensitive(batch)
        order, starts = cut_piece(
            _renumber(batch, self.layout.codes, root),
            rows.weights,
            self.layout.k,
            scale=root.scale,
            secret=_turn(secret, batch.height),
            population=self.population,
        )
        return Clusters(order, starts)


def _turn(secret: Codes | None, rows: int) -> Codes:
    """The confidential codes, a row per variable."""
    return np.zeros((0, rows), np.int32) if secret is None else np.ascontiguousarray(secret.T)


def _renumber(batch: pl.DataFrame, names: Sequence[str], root: _Root) -> Any:
    """The codes of rows among those that occur in their stratum."""
    columns = [
        np.searchsorted(used, batch[name].to_numpy()).astype(np.int32)
        for name, used in zip(names, root.used, strict=True)
    ]
    return np.column_stack(columns)


class PieceCutter:
    """Cuts the strata that are too large for a worker.

    Parameters
    ----------
    layout : what is known of the variables.
    rows : the distinct rows, and how many records each stands for.
    large : the numbers of the large strata; without strata, 0 stands for all rows.
    most : the rows up to which a worker takes a piece.
    """

    def __init__(
        self,
        layout: Layout,
        rows: Dataset,
        large: Sequence[int],
        most: int,
        engine: GroupingEngine,
    ) -> None:
        from sfumato.kernels.clustering.mondrian import tighten

        self.layout, self.rows, self.most, self.engine = layout, rows, most, engine
        self.rules = [replace(rule.rule, column=column) for column, rule in enumerate(layout.rules)]
        self.population = self._summarise()
        self.tight = tighten(self.population)
        self.roots = self._measure(large)
        self.first_piece = 1 if layout.strata is None else layout.strata.height
        self.trees = [_Node(self.first_piece + root, root) for root in range(len(large))]
        self.count = len(large)

    def cut(self) -> tuple[Dataset, Pieces]:
        """The rows with the number of their piece, and what workers must know of the pieces."""
        flagged = self.engine.keep(self._flag_clusters_of_equal_rows())
        new = list(self.trees)
        open_pieces: list[_Node] = []
        while new or open_pieces:
            open_pieces += self._look_at(flagged, new)
            new, open_pieces = self._try_cuts(flagged, open_pieces)
        leaves = [leaf for tree in self.trees for leaf in tree.list_leaves()]
        root_of = {leaf.number: leaf.root for leaf in leaves}
        placed = self._map(flagged, self._assign(buckets=True), self._reads())
        return placed, Pieces(self.layout, self.roots, root_of, self.population)

    # Which rows are clusters by themselves -------------------------------------------------------

    def _summarise(self) -> Population:
        """All records as the rules need them."""
        from sfumato.kernels.clustering.closeness import summarise_whole

        counts, values = [], []
        tables = {
            name: self._count([self.layout.name_secret(name)]) for name in self.layout.secrets
        }
        for rule in self.layout.rules:
            table = tables[rule.name]
            codes = rule.codes[table[self.layout.name_secret(rule.name)].to_numpy()]
            records = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
            present = codes >= 0
            np.add.at(records, codes[present], table[RECORDS].to_numpy()[present])
            counts.append(records)
            values.append(np.arange(len(records)))
        return summarise_whole(counts, values, self.rules)

    def _measure(self, large: Sequence[int]) -> list[_Root]:
        """The scale of each large stratum: that of the codes that occur in it."""
        from sfumato.kernels.clustering.mondrian import measure_scale

        layout, roots = self.layout, []
        ordered = [variable.worth is not None for variable in layout.aligned]
        tables = [self._count([*layout.by, name]) for name in layout.codes if layout.by]
        for stratum in large:
            used = [np.arange(len(variable.levels)) for variable in layout.aligned]
            for number, (name, table) in enumerate(zip(layout.codes, tables, strict=False)):
                of_stratum = table.filter(pl.col(layout.by[0]) == stratum)
                used[number] = np.sort(of_stratum[name].to_numpy())
            worth = [
                None if variable.worth is None else variable.worth[codes]
                for variable, codes in zip(layout.aligned, used, strict=True)
            ]
            levels = np.array([len(codes) for codes in used], np.int64)
            roots.append(_Root(stratum, used, measure_scale(levels, ordered, worth, levels * 0)))
        return roots

    def _flag_clusters_of_equal_rows(self) -> Dataset:
        """The rows that are clusters by themselves, with all that have the same codes."""
        layout, k, population = self.layout, self.layout.k, self.population
        ruled = bool(self.rules)

        def flag(batch: pl.DataFrame, starts: Starts, draws: object) -> pl.DataFrame:
            from sfumato.kernels.clustering.mondrian import check_parts

            del draws
            weights, groups = batch[ROWS].to_numpy(), np.diff(starts)
            sizes = np.add.reduceat(weights, starts[:-1]) if len(groups) else weights[:0]
            alone = sizes >= k
            if ruled and alone.any():
                chosen = np.flatnonzero(alone)
                secret = _turn(layout.read_sensitive(batch), batch.height)
                order = np.arange(batch.height)
                alone[alone] = check_parts(
                    secret, weights, order, starts[chosen], starts[chosen + 1], population
                )
            leader = np.zeros(batch.height, np.int64)
            leader[starts[:-1]] = 1
            return pl.DataFrame(
                {
                    _ALONE: np.repeat(alone, groups).astype(np.int64),
                    _SIZE: np.repeat(sizes, groups).astype(np.int64),
                    _LEADER: leader,
                }
            )

        by = [*layout.by, *layout.codes]
        if ruled:
            reads = [ROWS, *(layout.name_secret(name) for name in layout.secrets)]
            flagged = self.engine.map_groups(self.rows, flag, by=by, reads=reads)
        else:  # each row is all that have its codes
            flagged = self._map(
                self.rows, lambda batch: flag(batch, np.arange(batch.height + 1), None), [ROWS]
            )
        for root in self.roots:
            flagged = self._let_some_join(flagged, root)
        return flagged

    def _let_some_join(self, flagged: Dataset, root: _Root) -> Dataset:
        """Where the others are too few, or break a rule, those nearest to them join them."""
        counts = self._count([*self.layout.by, _ALONE], flagged)
        others = self._select(counts, root).filter(pl.col(_ALONE) == 0)[RECORDS].sum()
        if not others or (others >= self.layout.k and self._keeps_rules(flagged, _ALONE, 0)):
            return flagged
        turned = self.engine.keep(self._rank_by_cost(flagged, root))
        # Once, twice, four times as many join, until that is enough: see `_find_untouched`.
        back, taken = 0, others
        table = self._select(self._count([*self.layout.by, _TURN], turned), root)
        records = dict(zip(table[_TURN].to_list(), table[RECORDS].to_list(), strict=True))
        while True:
            taken += records.get(back + 1, 0)
            back += 1
            complete = back > max(records, default=0)
            if complete or (taken >= self.layout.k and self._keeps_rules(turned, _TURN, back)):
                break

        def release(batch: pl.DataFrame) -> pl.DataFrame:
            turn = batch[_TURN].to_numpy()
            return pl.DataFrame(
                {_ALONE: np.where((turn > 0) & (turn <= back), 0, batch[_ALONE].to_numpy())}
            )

        joined = self._map(turned, release, [_ALONE, _TURN])
        return joined.without([_TURN])

    def _rank_by_cost(self, flagged: Dataset, root: _Root) -> Dataset:
        """With the turn at which rows would join: 0 for the others, 1, 2, 3, 3, 4, 4, 4, 4 ..."""
        from sfumato.kernels.clustering.mondrian import measure_cost

        layout, scale = self.layout, root.scale
        others = self._describe_others(flagged, root)

        def measure(batch: pl.DataFrame) -> pl.DataFrame:
            is_candidate = _is_of(batch, layout, root) & (batch[_ALONE].to_numpy() == 1)
            cost = np.full(batch.height, np.inf)
            codes = _renumber(batch.filter(pl.Series(is_candidate)), layout.codes, root)
            cost[is_candidate] = (
                measure_cost(others, codes, scale) * batch[_SIZE].to_numpy()[is_candidate]
            )
            last = ~(is_candidate & (batch[_LEADER].to_numpy() == 1))
            return pl.DataFrame({_COST: cost, _SIDE: last.astype(np.int64)})

        reads = [*layout.by, *layout.codes, _ALONE, _SIZE, _LEADER]
        ranked = self.engine.rank(self._map(flagged, measure, reads), [_SIDE, _COST, *layout.codes])

        def take_turns(batch: pl.DataFrame, starts: Starts, draws: object) -> pl.DataFrame:
            del draws
            # The first row of those with the same codes has the rank of all.
            first = np.where(batch[_LEADER].to_numpy() == 1, batch[RANK].to_numpy(), 0)
            sums = np.add.reduceat(first, starts[:-1]) if len(starts) > 1 else first[:0]
            turn = 1 + np.ceil(np.log2(np.repeat(sums, np.diff(starts)) + 1)).astype(np.int64)
            return pl.DataFrame({_TURN: np.where(np.isfinite(batch[_COST].to_numpy()), turn, 0)})

        turned = self.engine.map_groups(
            ranked, take_turns, by=[*layout.by, *layout.codes], reads=[_LEADER, RANK, _COST]
        )
        return turned.without([_COST, _SIDE, RANK])

    def _describe_others(self, flagged: Dataset, root: _Root) -> Any:
        """A few rows with the same extremes and levels as all that are no clusters yet."""
        columns = []
        for number, name in enumerate(self.layout.codes):
            table = self._select(self._count([*self.layout.by, _ALONE, name], flagged), root)
            codes = table.filter(pl.col(_ALONE) == 0)[name].sort().to_numpy()
            columns.append(np.searchsorted(root.used[number], codes))
        longest = max(map(len, columns))
        return np.column_stack([np.resize(column, longest) for column in columns])

    def _keeps_rules(self, data: Dataset, column: str, most: int) -> bool:
        """Whether the rows up to some number in a column keep all rules together."""
        return not self.rules or all(
            self._check_halves(
                {
                    name: self._count([column, self.layout.name_secret(name)], data)
                    .filter(pl.col(column) <= most)
                    .with_columns(pl.lit(0).alias(PIECE), pl.lit(0).alias(_SIDE))
                    for name in self.layout.secrets
                },
                [0],
                self.population,
            )
        )

    # Cuts ----------------------------------------------------------------------------------------

    def _look_at(self, flagged: Dataset, new: Sequence[_Node]) -> list[_Node]:
        """Those of some new pieces that a worker does not take, with what to try on them."""
        if not new:
            return []
        named = dict(zip(self.layout.codes, self.layout.aligned, strict=True))
        ordered = [name for name, variable in named.items() if variable.worth is not None]
        nominal = [name for name, variable in named.items() if variable.worth is None]
        placed = self._map(flagged, self._assign(), self._reads())
        table = self.engine.fetch(
            self.engine.group(placed, [PIECE], weight=ROWS, extremes=ordered, levels=nominal)
        )
        summaries = {row[PIECE]: row for row in table.iter_rows(named=True)}
        large = []
        for node in new:
            row = summaries.get(node.number)
            if row is None:
                continue
            node.records, node.rows = int(row[RECORDS]), int(row[ROWS])
            if node.rows > self.most and node.records >= 2 * self.layout.k:
                node.attempts = self._list_attempts(node, row)
                if node.take_attempt():
                    large.append(node)
        return large

    def _list_attempts(self, node: _Node, row: Mapping[str, Any]) -> list[tuple[bool, int]]:
        """The variables by width, the widest first; with distances, first under tighter rules."""
        from sfumato.kernels.clustering.mondrian import MANY

        root = self.roots[node.root]
        widths = []
        for number, name in enumerate(self.layout.codes):
            scale, first = root.scale, int(root.scale.firsts[number])
            if scale.nominal[number]:
                width = (row[name + LEVELS] - 1) / max(1, int(scale.levels[number]) - 1)
            else:
                low, high = (
                    int(np.searchsorted(root.used[number], row[name + end])) for end in (LOW, HIGH)
                )
                width = float(scale.worth[first + high] - scale.worth[first + low])
            widths.append(width)
        ranked = sorted(range(len(widths)), key=lambda number: (-widths[number], number))
        wide = [number for number in ranked if widths[number] > 0]
        attempts = [(False, number) for number in wide]
        if len(self.tight.kinds) and node.records > MANY * self.layout.k:
            return [(True, number) for number in wide] + attempts
        return attempts

    def _try_cuts(
        self, flagged: Dataset, pieces: Sequence[_Node]
    ) -> tuple[list[_Node], list[_Node]]:
        """Try one cut of each piece: the halves of those that were cut, and the others."""
        if not pieces:
            return [], []
        chosen = {node.number: self.layout.codes[node.variable] for node in pieces}
        assign = self._assign()

        def choose(batch: pl.DataFrame) -> pl.DataFrame:
            piece = assign(batch)[PIECE].to_numpy()
            codes = np.zeros(batch.height, np.int64)
            for number, name in chosen.items():
                of_piece = piece == number
                codes[of_piece] = batch[name].to_numpy()[of_piece]
            known = np.isin(piece, list(chosen))
            return pl.DataFrame({PIECE: np.where(known, piece, -1), _CHOSEN: codes})

        marked = self._map(flagged, choose, self._reads())
        table = self._count([PIECE, _CHOSEN], marked).sort(PIECE, _CHOSEN)
        possible = []
        for node in pieces:
            of_piece = table.filter(pl.col(PIECE) == node.number)
            codes, records = of_piece[_CHOSEN].to_numpy(), of_piece[RECORDS].to_numpy()
            nominal = bool(self.roots[node.root].scale.nominal[node.variable])
            front = _deal_levels(records) if nominal else _cut_at_median(records)
            heavy = int(records[front].sum())
            node.front = codes[front]
            if min(heavy, node.records - heavy) >= self.layout.k:
                possible.append(node)
        divided = self._test_halves(marked, possible) if self.rules else possible
        new: list[_Node] = []
        for node in divided:
            node.halves = (
                _Node(self.first_piece + self.count, node.root),
                _Node(self.first_piece + self.count + 1, node.root),
            )
            self.count += 2
            new += node.halves
        failed = [node for node in pieces if node.halves is None]
        return new, [node for node in failed if node.take_attempt()]

    def _test_halves(self, marked: Dataset, pieces: Sequence[_Node]) -> list[_Node]:
        """Those of some pieces whose halves both keep all rules."""
        fronts = {node.number: node.front for node in pieces}

        def side(batch: pl.DataFrame) -> pl.DataFrame:
            piece, codes = batch[PIECE].to_numpy(), batch[_CHOSEN].to_numpy()
            sides = np.zeros(batch.height, np.int64)
            for number, front in fronts.items():
                of_piece = piece == number
                sides[of_piece] = ~np.isin(codes[of_piece], front)
            return pl.DataFrame({_SIDE: sides})

        sided = self._map(marked, side, [PIECE, _CHOSEN])
        tables = {
            name: self._count([PIECE, _SIDE, self.layout.name_secret(name)], sided)
            for name in self.layout.secrets
        }
        divided = []
        for node in pieces:
            population = self.tight if node.tight else self.population
            of_piece = {
                name: table.filter(pl.col(PIECE) == node.number) for name, table in tables.items()
            }
            if all(self._check_halves(of_piece, [0, 1], population)):
                divided.append(node)
        return divided

    def _check_halves(
        self, tables: Mapping[str, pl.DataFrame], sides: Sequence[int], population: Population
    ) -> Iterator[bool]:
        """Whether halves, given as counts of confidential values, keep the rules, one by one."""
        from sfumato.kernels.clustering.closeness import keep_rule

        for number, rule in enumerate(self.layout.rules):
            table = tables[rule.name]
            for side in sides:
                half = table.filter(pl.col(_SIDE) == side)
                codes = rule.codes[half[self.layout.name_secret(rule.name)].to_numpy()]
                yield keep_rule(codes, half[RECORDS].to_numpy(), number, population)

    # Verbs ---------------------------------------------------------------------------------------

    def _reads(self) -> list[str]:
        return [*self.layout.by, *self.layout.codes, _ALONE]

    def _map(self, data: Dataset, function: Any, reads: Sequence[str]) -> Dataset:
        def run(batch: pl.DataFrame, draws: object) -> pl.DataFrame:
            del draws
            result: pl.DataFrame = function(batch)
            return result

        return self.engine.map_rows(data, run, reads=reads)

    def _count(self, by: Sequence[str], data: Dataset | None = None) -> pl.DataFrame:
        """How many records have each combination."""
        rows = self.rows if data is None else data
        return self.engine.fetch(self.engine.group(rows, by, weight=ROWS))

    def _select(self, table: pl.DataFrame, root: _Root) -> pl.DataFrame:
        """The rows of a table that are of one stratum."""
        by = self.layout.by
        return table.filter(pl.col(by[0]) == root.stratum) if by else table

    def _assign(self, *, buckets: bool = False) -> Any:
        """The piece of each row: its stratum, where that is not large.

        Rows that are clusters by themselves are in none, or with `buckets` in one of many.
        """
        layout, trees, roots = self.layout, self.trees, self.roots

        def assign(batch: pl.DataFrame) -> pl.DataFrame:
            codes = [batch[name].to_numpy() for name in layout.codes]
            piece = np.zeros(batch.height, np.int64)
            if layout.by:
                piece[:] = batch[layout.by[0]].to_numpy()
            alone = batch[_ALONE].to_numpy() == 1
            for tree, root in zip(trees, roots, strict=True):
                of_root = _is_of(batch, layout, root)
                _descend(tree, np.flatnonzero(of_root & ~alone), codes, piece)
                gone = of_root & alone
                piece[gone] = -1 - (_scatter(codes)[gone] if buckets else 0)
            return pl.DataFrame({PIECE: piece})

        return assign


def _is_of(batch: pl.DataFrame, layout: Layout, root: _Root) -> Mask:
    """Which rows are of a large stratum."""
    if not layout.by:
        return np.ones(batch.height, np.bool_)
    mask: Mask = batch[layout.by[0]].to_numpy() == root.stratum
    return mask


def _descend(node: _Node, rows: Integers, codes: Sequence[Any], piece: Integers) -> None:
    """Note the piece of each of some rows of a node."""
    if node.halves is None or not len(rows):
        piece[rows] = node.number
        return
    front = np.isin(codes[node.variable][rows], node.front)
    _descend(node.halves[0], rows[front], codes, piece)
    _descend(node.halves[1], rows[~front], codes, piece)


def _scatter(codes: Sequence[Any]) -> Integers:
    """A number below the number of buckets that only the codes decide."""
    mixed = np.zeros(len(codes[0]), np.uint64)
    for column in codes:
        mixed = (mixed + column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return (mixed % np.uint64(_BUCKETS)).astype(np.int64)


def _cut_at_median(records: Integers) -> Mask:
    """Which codes, in their order, are in front of the cut beside the median."""
    total, upto = int(records.sum()), np.cumsum(records)
    median = int(np.searchsorted(2 * upto, total))
    below, with_it = int(upto[median] - records[median]), int(upto[median])
    if min(below, total - below) > min(with_it, total - with_it):
        median -= 1
    return np.arange(len(records)) <= median


def _deal_levels(records: Integers) -> Mask:
    """Which levels are in front, dealt to two halves, the commonest first to the lighter one."""
    front, sizes = np.zeros(len(records), np.bool_), [0, 0]
    for level in np.argsort(-records, kind="stable").tolist():
        half = 0 if sizes[0] <= sizes[1] else 1
        sizes[half] += int(records[level])
        front[level] = half == 0
    return front
