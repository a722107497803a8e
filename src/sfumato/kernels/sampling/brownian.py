"""A Brownian path for each record, read off at any variance: W(v) is normal with variance v.

Question: how can noise of two sizes be such that the larger is the smaller plus more?
W has independent increments: W(w) = W(v) + something independent of W(v), for every w > v. So
x + W(w) is x + W(v) with further noise, and tells nothing of x beyond it.

The path is not stored. It is built from the outside inwards (Lévy's construction), by as many
random blocks as are needed for one variance. Block number m of the path covers the variances
from 2^(64 m) to 2^(64 (m + 1)), 64 octaves. In it:

- the ends: W(2^(64 m)) is the sum of the increments over the blocks below. Two of them suffice: the
  third has a share of 2^-128 in the variance, and is lost when a 64-bit number is rounded;
- six halvings of the block to one octave, and seven of the octave to a cell, 1/128 of it: the
  middle of a piece is normal about the straight line between its ends (a Brownian bridge);
- in the cell, from a up to b, the bridge once more, with one deviate Z for the cell:
  W(v) = W(a) + (W(b) - W(a)) (v - a)/(b - a) + Z √((v - a)(b - v)/(b - a)).

So variances in different cells have exactly independent increments. Two in one cell share its Z,
and may together tell x + W(a), which is all there is to be told: whatever comes after a is
independent of it. As b - a is at most a/128, a is more than 128/129 of any variance in the cell.

Only + - * / and the square root are used, one after the other, so that every machine has the same
bits. `brownian_compiled` has the same steps for many records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Floats, Integers, Words
from sfumato.kernels.sampling.deviates import normal

OCTAVES, CELLS = 6, 7
"""Halvings of a block down to an octave, and of an octave down to a cell."""
DEPTH = OCTAVES + CELLS
BLOCK = 1 << OCTAVES
"""Octaves in a block."""
PASSES = (DEPTH + 1) // 2
"""Random blocks for the halvings and the cell: each serves a node and its two halves."""
ENDS = 2
"""Random blocks for the ends."""
ROOT_CARRY = 2.0 ** -(BLOCK // 2)
"""Standard deviation of the increment two blocks below, in units of the block's start."""
ROOT_BLOCK = 2.0 ** (BLOCK // 2)
"""Standard deviation of the increment over the block."""
_OFFSET = 1 << 8
"""Makes the numbers of blocks positive: the smallest is about 2^-1074."""

# Normal numbers from 42 random bits: a sign, and a tail probability below 1/2 whose quantile is a
# polynomial of degree 5 in each 32nd part of an octave. Exact to 1e-12, and four times as fast as
# the quantile function itself.
BITS = 42
PARTS, DEGREE = 5, 5
MANTISSA = 52 - PARTS
FIRST = (1023 - BITS - 1) << PARTS
"""Where the smallest probability, 2^-(BITS + 1), has its exponent and first digits."""


def _fit_quantiles() -> Floats:
    """Coefficients of the polynomials, constant first, in t from 0 to 1 of each part."""
    parts = BITS << PARTS
    number = np.arange(parts)
    octave = (number >> PARTS) - BITS - 1
    start = np.ldexp(1.0 + (number % (1 << PARTS)) / (1 << PARTS), octave)
    width = np.ldexp(1.0, octave - PARTS)
    # Chebyshev's nodes, written down so that no library's cosine decides about the last bit.
    nodes = (0.017037086855465856, 0.14644660940672624, 0.37059047744873963,
             0.6294095225512604, 0.8535533905932737, 0.9829629131445341)  # fmt: skip
    table = [-normal(start + width * node) for node in nodes]
    for order in range(1, len(nodes)):
        for row in range(len(nodes) - 1, order - 1, -1):
            table[row] = (table[row] - table[row - 1]) / (nodes[row] - nodes[row - order])
    # From Newton's form, (t - node 0) (t - node 1) ..., to powers of t.
    powers = [np.zeros(parts) for _ in nodes]
    powers[0] = table[-1].copy()
    for order in range(len(nodes) - 2, -1, -1):
        for power in range(len(nodes) - 1, 0, -1):
            powers[power] = powers[power - 1] - powers[power] * nodes[order]
        powers[0] = table[order] - powers[0] * nodes[order]
    return np.ascontiguousarray(np.stack(powers, axis=1))


QUANTILES = _fit_quantiles()


def _list_edges() -> Floats:
    """Where the cells of a block begin, in units of its start; the last is its end."""
    cell = np.arange((BLOCK << CELLS) + 1)
    edges: Floats = np.ldexp(1.0 + (cell % (1 << CELLS)) / (1 << CELLS), cell >> CELLS)
    return edges


EDGES = _list_edges()


def _describe_bridges() -> tuple[Floats, Floats]:
    """For each node, how far up its middle lies, and the deviation of the path there."""
    shares, deviations = np.zeros(1 << DEPTH), np.zeros(1 << DEPTH)
    for level in range(DEPTH):
        cells = 1 << (DEPTH - level)
        low, high = EDGES[:-1:cells], EDGES[cells::cells]
        middle = EDGES[cells // 2 :: cells]
        nodes = slice(1 << level, 2 << level)
        shares[nodes] = (middle - low) / (high - low)
        deviations[nodes] = np.sqrt((middle - low) * ((high - middle) / (high - low)))
    return shares, deviations


SHARES, DEVIATIONS = _describe_bridges()


@dataclass(frozen=True)
class Places:
    """Where variances lie on the path: one for all records, or one for each.

    Parameters
    ----------
    block : number of the block.
    cell : number of the cell in it.
    beyond : how far beyond the cell's beginning, in units of the block's start.
    unit : the square root of the block's start.
    """

    block: Integers
    cell: Integers
    beyond: Floats
    unit: Floats

    def __getitem__(self, rows: slice) -> Places:
        if len(self.block) == 1:
            return self
        return Places(self.block[rows], self.cell[rows], self.beyond[rows], self.unit[rows])


def locate(variances: Floats | float) -> Places:
    """Find variances on the path. 0 and what is no number have no noise, and infinity all.

    Examples
    --------
    >>> locate(3.0).cell.tolist(), locate(3.0).beyond.tolist()
    ([192], [0.0])
    """
    given = np.atleast_1d(np.asarray(variances, float))
    size = np.where((given > 0) & (given < np.inf), given, 1.0)
    fraction, exponent = np.frexp(size)
    octave = exponent.astype(np.int64) - 1
    block, above = octave >> OCTAVES, octave & (BLOCK - 1)
    step = np.floor((fraction * 2.0 - 1.0) * (1 << CELLS)).astype(np.int64)
    cell = (above << CELLS) + step
    beyond = np.ldexp(fraction * 2.0, above) - EDGES[cell]
    unit = np.ldexp(1.0, (block * (BLOCK // 2)).astype(np.int32))
    return Places(
        block, cell, beyond, np.where(given == np.inf, np.inf, np.where(given > 0, unit, 0.0))
    )


def tweak(positions: Places, number: int) -> Words:
    """What tells the random block of one pass from all others of a record.

    Pass 0 and 1 are for the ends: each random block holds the increments over two blocks.
    """
    if number < ENDS:
        pair = (positions.block - 2 * (1 - number)) >> 1
        return (pair + _OFFSET).astype(np.uint64) << np.uint64(16)
    return ((positions.block + _OFFSET) << 16 | _node(positions, number - ENDS)).astype(np.uint64)


def _node(positions: Places, number: int) -> Integers:
    """The node that a pass begins with: 1 is the block, 2n and 2n + 1 are the halves of n."""
    return (1 << 2 * number) + (positions.cell >> (DEPTH - 2 * number))


def begin(positions: Places, first: Words, second: Words) -> tuple[Floats, Floats]:
    """The path at both ends of the block, in units of the square root of its start."""
    odd = (positions.block & 1).astype(bool)
    two_below = draw_normal(_take_bits(first, np.where(odd, 1, 0)))
    below = np.where(odd, draw_normal(_take_bits(second, 0)), draw_normal(_take_bits(first, 1)))
    here = draw_normal(_take_bits(second, np.where(odd, 1, 0)))
    low = two_below * ROOT_CARRY + below
    return low, low + here * ROOT_BLOCK


def halve(
    positions: Places, number: int, words: Words, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """Halve a piece of the path twice; at the end of the last pass, the path itself is the low."""
    node = _node(positions, number)
    bit = (positions.cell >> (DEPTH - 1 - 2 * number)) & 1
    low, high = _enter(node, bit, draw_normal(_take_bits(words, 0)), low, high)
    deviate = draw_normal(_take_bits(words, 1 + bit))
    if number == PASSES - 1:
        width = EDGES[positions.cell + 1] - EDGES[positions.cell]
        spread = np.sqrt(positions.beyond * ((width - positions.beyond) / width))
        path = low + (high - low) * (positions.beyond / width) + spread * deviate
        return path * positions.unit, high
    after = (positions.cell >> (DEPTH - 2 - 2 * number)) & 1
    return _enter(2 * node + bit, after, deviate, low, high)


def _enter(
    node: Integers, bit: Integers, deviate: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    middle = low + (high - low) * SHARES[node] + DEVIATIONS[node] * deviate
    upper = bit.astype(bool)
    return np.where(upper, middle, low), np.where(upper, high, middle)


def _take_bits(words: Words, slot: npt.NDArray[Any] | int) -> Words:
    """The first, second or third 42 bits of each random block."""
    low = np.uint64((1 << 22) - 1)
    third = (words[:, 0] & low) << np.uint64(20) | (words[:, 1] & low) >> np.uint64(2)
    choice = [words[:, 0] >> np.uint64(22), words[:, 1] >> np.uint64(22), third]
    if isinstance(slot, int):
        return choice[slot]
    bits: Words = np.choose(np.broadcast_to(slot, third.shape), choice)
    return bits


def draw_normal(bits: Words) -> Floats:
    """Standard normal numbers from 42 random bits each: the last is the sign.

    Examples
    --------
    >>> draw_normal(np.array([0, 1, 2**41], np.uint64)).round(6)
    array([-7.331628,  7.331628, -0.67449 ])
    """
    tail = ((bits >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-BITS
    number = tail.view(np.int64)
    part = (number >> MANTISSA) - FIRST
    t = (number & ((1 << MANTISSA) - 1)).astype(np.float64) * 2.0**-MANTISSA
    coefficients = QUANTILES[part]
    size = coefficients[:, DEGREE]
    for power in range(DEGREE - 1, -1, -1):
        size = size * t + coefficients[:, power]
    signed: Floats = np.where((bits & np.uint64(1)).astype(bool), size, -size)
    return signed
