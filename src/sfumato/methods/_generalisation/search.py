"""The search for the best levels: all records at one level of each variable, few suppressed.

A node is one level for each variable; the nodes are a lattice, and its array has one axis for each
variable. What a node loses is a sum over records: what each loses at these levels, `kept`, and for
those that are suppressed what they lose besides, `besides`.

Why the result is the optimum. Let one node be finer than another where no level of it is higher.

1. `kept`, taken over all records, is never more at the finer node: its groups lie within those of
   the other.
2. A class with fewer than k records, or fewer than l values, has only such classes within it. So
   whoever is suppressed at a node for k or l is suppressed at every finer one, and loses there at
   least as much besides.

So `kept` of a node is a bound for what any coarser one keeps, and `besides` a bound for what any
finer one adds; the sum of both bounds holds for every node that lies between. A node too many of
whose records break k or l makes all finer ones impossible: `besides` is infinite there. What is
left when no node has a bound below the least loss found is nothing, so that loss is the optimum.
Closeness (t) keeps 2 only where nobody may be suppressed: a distribution is a mean of those of the
classes within it, so it is at most as far away as the farthest of them. With suppression, a class
that breaks t alone therefore counts at its own node and bounds no other.

Where fewer than k are suppressed they would be found among themselves: the class that costs least
is suppressed with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from sfumato.kernels.arrays import Codes, Floats, Integers, Mask
from sfumato.methods._generalisation.levels import LevelledVariable

if TYPE_CHECKING:
    from sfumato.kernels.clustering.closeness import ClosenessRule, Population
    from sfumato.kernels.trees.equivalence_classes import Classes

Loss = Literal["granularity", "discernibility", "entropy", "class size"]
Node = tuple[int, ...]
_ROUNDING = 1e-12
MOST_NODES = 1 << 20
"""Nodes up to which the whole lattice is searched."""
_MOST_ROWS = 1 << 30
"""Rows that may be grouped in all; a search that would group more stops with a gap."""
_BASES = 64
"""Nodes whose classes are kept, so that coarser ones group these and not all rows."""


class TriedNode(NamedTuple):
    """What came of a node.

    Parameters
    ----------
    loss : what the records lose; infinite where the node is not possible.
    suppressed : which of its classes are suppressed.
    kept : what all records would lose if nobody was suppressed.
    besides : a bound for what suppression adds at every finer node.
    broken : how many units are in classes that break k, l or t.
    rows : how many rows were grouped for it.
    """

    loss: float
    suppressed: Mask
    kept: float
    besides: float
    broken: int
    rows: int


class BestNode(NamedTuple):
    """The best node, what it loses, how many were tried, and how much better another may be."""

    node: Node
    loss: float
    tried: int
    gap: float


@dataclass(frozen=True, eq=False)
class LevelledRows:
    """Rows at any choice of levels.

    Parameters
    ----------
    variables : the variables at each of their levels, with codes of the rows.
    counts : how many units each row stands for.
    k : fewest units in a class.
    most : how many units may be suppressed.
    loss : what is to be least.
    weights : what a variable counts, for losses that are sums over variables.
    sensitive : a column of codes for each rule; None where there are no rules.
    rules : what every class must keep about confidential variables.
    """

    variables: Sequence[LevelledVariable]
    counts: Integers
    k: int
    most: int
    loss: Loss
    weights: Sequence[float]
    sensitive: Codes | None = None
    rules: Sequence[ClosenessRule] = ()
    _bases: list[tuple[Node, Codes, Integers]] = field(default_factory=list)

    @property
    def shape(self) -> Node:
        """How many levels each variable has."""
        return tuple(variable.levels for variable in self.variables)

    @cached_property
    def total(self) -> int:
        """How many units there are."""
        return int(self.counts.sum())

    @property
    def is_sum_of_variables(self) -> bool:
        """Whether each variable loses something by itself, so that no node need be tried for it."""
        return self.loss in ("granularity", "entropy")

    @cached_property
    def _shares(self) -> list[float]:
        """What a variable's loss counts for one unit: by its weight, of the most to be lost."""
        wholes = [1.0] * len(self.variables)
        if self.loss == "entropy":
            wholes = [
                float(self.counts @ (v.lost[0] + v.left[0])[v.codes]) / self.total
                for v in self.variables
            ]
        most = math.fsum(w * whole for w, whole in zip(self.weights, wholes, strict=True))
        return [weight / ((most or 1.0) * self.total) for weight in self.weights]

    @cached_property
    def _lost(self) -> list[Floats]:
        """What all records lose of each variable, at each of its levels."""
        return [v.lost @ np.bincount(v.codes, self.counts, v.lost.shape[1]) for v in self.variables]

    def list_kept(self) -> Floats:
        """What all records would lose at each node of the lattice if nobody was suppressed."""
        kept = np.zeros(self.shape)
        if not self.is_sum_of_variables:
            return kept
        losses = zip(self.variables, self._lost, self._shares, strict=True)
        for axis, (variable, lost, share) in enumerate(losses):
            along = [1] * len(self.shape)
            along[axis] = variable.levels
            kept += (lost * share).reshape(along)
        return kept

    def try_node(self, node: Node) -> TriedNode:
        """What the records lose at a node, and who is suppressed."""
        rows, counts = self._find_base(node)
        classes = self._group(node, rows, counts)
        self._remember(node, rows, classes)
        first = classes.first if rows is None else rows[classes.first]
        return self._judge(node, classes, first)

    def mark_suppressed(self, node: Node) -> Mask:
        """Which rows are suppressed at a node."""
        classes = self._group(node, None, self.counts)
        marked: Mask = self._judge(node, classes, classes.first).suppressed[classes.of]
        return marked

    def _find_base(self, node: Node) -> tuple[Codes | None, Integers]:
        """The rows to group: one for each class of a finer node, or all."""
        finer = [
            (rows, counts)
            for other, rows, counts in self._bases
            if all(a <= b for a, b in zip(other, node, strict=True))
        ]
        return min(finer, key=lambda base: len(base[0]), default=(None, self.counts))

    def _remember(self, node: Node, rows: Codes | None, classes: Classes) -> None:
        # Rules need every confidential value of a class, which its first row does not have.
        before = len(self.counts) if rows is None else len(rows)
        if not self.rules and len(classes.first) < before and len(self._bases) < _BASES:
            first = classes.first if rows is None else rows[classes.first]
            self._bases.append((node, first, classes.counts))

    def _group(self, node: Node, rows: Codes | None, counts: Integers) -> Classes:
        from sfumato.kernels.trees.equivalence_classes import find_classes

        cells = np.empty((len(node), len(counts)), np.int32)
        widths = []
        for to, variable, level in zip(cells, self.variables, node, strict=True):
            codes = variable.codes if rows is None else variable.codes[rows]
            np.take(variable.groups[level], codes, out=to)
            widths.append(int(variable.groups[level].max()) + 1)
        return find_classes(cells, widths, counts)

    def _judge(self, node: Node, classes: Classes, first: Codes) -> TriedNode:
        rows, certain = len(classes.of), classes.counts < self.k
        broken = certain
        if self.rules:
            few, far = self._break_rules(classes)
            certain = certain | few
            broken = certain | far
        kept, besides = self._weigh(node, classes, first)
        number = int(classes.counts[broken].sum())
        sure = certain if self.most else broken
        impossible = int(classes.counts[sure].sum()) > self.most
        bound = math.inf if impossible else float(besides[certain].sum())
        suppressed = self._suppress(broken, besides, classes, first)
        if suppressed is None:
            return TriedNode(math.inf, broken, kept, bound, number, rows)
        if self.loss == "class size":
            shown = int((~suppressed).sum()) + bool(suppressed.any())
            return TriedNode(self.total / shown, suppressed, kept, bound, number, rows)
        loss = kept + float(besides[suppressed].sum())
        return TriedNode(loss, suppressed, kept, bound, number, rows)

    def _weigh(self, node: Node, classes: Classes, first: Codes) -> tuple[float, Floats]:
        """What all records lose at a node, and what each class loses besides if suppressed."""
        counts, total = classes.counts, self.total
        if self.loss == "class size":
            return total / len(counts), np.zeros(len(counts))
        if self.loss == "discernibility":
            pairs = max(total * (total - 1), 1)
            return float((counts * (counts - 1)).sum()) / pairs, counts * (total - counts) / pairs
        kept, left = 0.0, np.zeros(len(counts))
        losses = zip(self.variables, self._lost, node, self._shares, strict=True)
        for variable, lost, level, share in losses:
            kept += float(lost[level]) * share
            left += variable.left[level][variable.codes[first]] * share
        return kept, left * counts

    @cached_property
    def _prepared(self) -> tuple[Codes, Population]:
        from sfumato.kernels.clustering.closeness import prepare_rules

        none = np.empty((len(self.counts), 0), np.int32)
        sensitive = none if self.sensitive is None else self.sensitive
        return prepare_rules(sensitive, self.rules, self.counts)

    def _break_rules(self, classes: Classes) -> tuple[Mask, Mask]:
        """Which classes have too few values, and which are too far from the whole."""
        from sfumato.kernels.clustering.closeness import breaks_rule, score_parts

        codes, population = self._prepared
        order = np.argsort(classes.of, kind="stable")
        starts = np.searchsorted(classes.of[order], np.arange(len(classes.counts) + 1))
        few, far = np.zeros((2, len(classes.counts)), bool)
        for number, rule in enumerate(self.rules):
            column = codes[rule.column]
            scores = score_parts(column, order, starts, number, population, self.counts)
            if rule.kind == "distinct":
                few |= breaks_rule(scores, rule)
            else:
                far |= breaks_rule(scores, rule)
        return few, far

    def _suppress(
        self, broken: Mask, besides: Floats, classes: Classes, first: Codes
    ) -> Mask | None:
        """The classes that become `*`; None where these would be too many.

        They are a class themselves, which keeps k and the rules: where it does not, the class
        that costs least joins it.
        """
        suppressed = broken.copy()
        number = int(classes.counts[broken].sum())
        if not number:
            return suppressed
        cost = classes.counts if self.loss == "class size" else besides
        others = np.lexsort((first, cost))
        others = others[~broken[others]]
        while number <= self.most:
            if number >= self.k and self._keeps_rules(suppressed[classes.of]):
                return suppressed
            fitting = others[classes.counts[others] <= self.most - number]
            if not len(fitting):
                return None
            suppressed[fitting[0]] = True
            number += int(classes.counts[fitting[0]])
            others = others[others != fitting[0]]
        return None

    def _keeps_rules(self, rows: Mask) -> bool:
        """Whether some rows keep all rules, as one class."""
        if not self.rules:
            return True
        from sfumato.kernels.clustering.closeness import keep_rule

        codes, population = self._prepared
        return all(
            keep_rule(codes[rule.column][rows], self.counts[rows], number, population)
            for number, rule in enumerate(self.rules)
        )


def search_levels(problem: LevelledRows) -> BestNode | TriedNode:
    """The node that loses least; or, where none is possible, what came of the coarsest."""
    top = tuple(levels - 1 for levels in problem.shape)
    trial = problem.try_node(top)
    if math.isinf(trial.besides):
        return trial  # nobody is in a larger class anywhere
    search = _search_lattice if math.prod(problem.shape) <= MOST_NODES else _descend
    found = search(problem, top)
    return trial if math.isinf(found.loss) else found


def _search_lattice(problem: LevelledRows, top: Node) -> BestNode:
    """The best of all nodes: along chains, until no bound is below the least loss."""
    kept, besides = problem.list_kept(), np.zeros(problem.shape)
    is_open = np.ones(problem.shape, bool)
    best, least, tried, grouped = top, math.inf, 0, 0
    while True:
        bound = kept + besides
        is_open &= bound < least * (1 - _ROUNDING)
        if not is_open.any() or grouped > _MOST_ROWS:
            break
        for node in _halve(_climb(bound, is_open), kept, besides):
            if not is_open[node] or kept[node] + besides[node] >= least * (1 - _ROUNDING):
                continue
            trial = problem.try_node(node)
            tried, grouped, is_open[node] = tried + 1, grouped + trial.rows, False
            finer = tuple(slice(level + 1) for level in node)
            coarser = tuple(slice(level, None) for level in node)
            besides[finer] = np.maximum(besides[finer], trial.besides)
            kept[coarser] = np.maximum(kept[coarser], trial.kept)
            if trial.loss < least:
                best, least = node, trial.loss
    gap = max(0.0, least - float(bound[is_open].min())) if is_open.any() else 0.0
    return BestNode(_lower(problem, best, least, bound), least, tried, gap)


def _lower(problem: LevelledRows, node: Node, least: float, bound: Floats) -> Node:
    """The same with each level as low as it may be for the same loss."""
    most = least * (1 + _ROUNDING)
    for axis in range(len(node)):
        for level in range(node[axis]):
            lower = (*node[:axis], level, *node[axis + 1 :])
            if bound[lower] <= most and problem.try_node(lower).loss <= most:
                node = lower
                break
    return node


def _climb(bound: Floats, is_open: Mask) -> list[Node]:
    """A chain of open nodes from the one with the least bound, each one level above the last."""
    lowest = np.unravel_index(np.where(is_open, bound, np.inf).argmin(), bound.shape)
    node: Node | None = tuple(map(int, lowest))
    chain = []
    while node is not None:
        chain.append(node)
        above = [
            (*node[:axis], level + 1, *node[axis + 1 :])
            for axis, level in enumerate(node)
            if level + 1 < bound.shape[axis]
        ]
        node = min((each for each in above if is_open[each]), key=lambda n: bound[n], default=None)
    return chain


def _halve(chain: Sequence[Node], kept: Floats, besides: Floats) -> Iterator[Node]:
    """The middle of a chain, then of the half where the loss may be less, and so on."""
    first, last = 0, len(chain)
    while first < last:
        middle = (first + last) // 2
        yield chain[middle]
        # Above, where suppression costs more than the levels do; or it is not possible here.
        if besides[chain[middle]] > kept[chain[middle]]:
            first = middle + 1
        else:
            last = middle


def _descend(problem: LevelledRows, top: Node) -> BestNode:
    """From the coarsest node always to the best one a level below, as long as that gains."""
    node, trial, tried, grouped = top, problem.try_node(top), 1, 0
    while grouped <= _MOST_ROWS:
        below = [
            (*node[:axis], level - 1, *node[axis + 1 :]) for axis, level in enumerate(node) if level
        ]
        trials = [(problem.try_node(each), each) for each in below]
        tried, grouped = tried + len(trials), grouped + sum(each.rows for each, _ in trials)
        best, finer = min(trials, key=lambda pair: pair[0].loss, default=(trial, node))
        if not below or best.loss > trial.loss:
            break
        node, trial = finer, best
    least = problem.try_node((0,) * len(top)).kept
    return BestNode(node, trial.loss, tried, trial.loss - least)
