"""Which cells must be hidden so that nobody can work out the sensitive ones.

A hidden cell is safe when some other table, with the same cells shown, holds a value in its place
that is low enough, and another one that is high enough. Such a table differs from the true one
only in hidden cells. So for each sensitive cell we look for the cheapest change of the table that
moves the cell as far as it must and keeps every sum; the cells it touches are hidden too. Hiding
more never undoes what was reached, so one pass over the cells is enough (the method of Kelly,
Golden & Assad 1992 and Castro 2006, by linear programmes).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.outputs.tables.lattice import Lattice
from sfumato.outputs.tables.layers import Layer
from sfumato.outputs.tables.search import Search


def hidden_cells(
    lattice: Lattice, layers: list[Layer], *, never: Mask, cost: Floats | None = None
) -> Mask:
    """All cells to hide: the sensitive ones of every layer, and what keeps them so.

    Parameters
    ----------
    lattice : the shape of the table.
    layers : what the cells hold. One pattern protects all of them.
    never : cells whose value everybody knows: empty ones, and the number of all records.
    cost : what it costs to hide a cell. Default: more for larger counts, and more for margins.
    """
    hidden: Mask = np.any([layer.sensitive for layer in layers], axis=0)
    price = costs(lattice, layers[0].values) if cost is None else cost
    for layer in layers:
        hidden = Search(lattice, layer, hidden, never, price).run()
    for layer in layers:
        for known in layer.insiders:
            hidden = _from(known, lattice, layer, hidden, never, price)
    return hidden


def _from(
    known: Integers, lattice: Lattice, layer: Layer, hidden: Mask, never: Mask, price: Floats
) -> Mask:
    """Hide what it takes against one who knows some hidden cells: they do not move for him."""
    his = np.zeros(lattice.cells, bool)
    his[known] = True
    theirs = replace(layer, sensitive=layer.sensitive & ~his)
    return (hidden & his) | Search(lattice, theirs, hidden & ~his, never | his, price).run()


def costs(lattice: Lattice, counts: Floats) -> Floats:
    """Small cells are missed least; a margin is missed more than the cells it sums up."""
    price: Floats = np.log2(2 + np.abs(counts)) * 4.0**lattice.depth
    return price
