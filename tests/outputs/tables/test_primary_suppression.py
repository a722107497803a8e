"""Sums over contributors: hidden where one makes them up, and wide enough for every attacker."""

from __future__ import annotations

import numpy as np
import pytest
from tests.outputs.tables import attacker

from sfumato.outputs.output import OutputRefused
from sfumato.outputs.rules import Rules
from sfumato.outputs.tables.aggregation import Contributions
from sfumato.outputs.tables.lattice import Lattice
from sfumato.outputs.tables.primary_suppression import Layer, assess_counts, assess_sums
from sfumato.outputs.tables.secondary_suppression import find_suppression_pattern


def test_hidden_sums_have_the_width_that_the_rule_asks_for():
    rng = np.random.default_rng(5)
    for trial in range(15):
        sizes = [(3, 3), (2, 4), (2, 2, 3)][trial % 3]
        signed = trial % 2 == 1
        layer = _sums(rng, sizes, signed=signed, tail=1.5 + trial % 4)
        lattice = Lattice(sizes)
        never = np.zeros(lattice.cells, bool)
        never[-1] = True
        try:
            hidden = find_suppression_pattern(lattice, [layer], unsuppressible=never)
        except OutputRefused:
            continue
        found = attacker.linear(
            sizes, np.where(hidden, np.nan, layer.values), nonnegative=not signed
        )
        for cell in np.flatnonzero(layer.sensitive):
            _wide_enough(layer, int(cell), found)
        for known in layer.insiders:
            _one_who_knows(known, sizes, layer, hidden)


def _one_who_knows(known, sizes, layer, hidden):
    """A firm that is alone in its cell subtracts itself, and is no wiser about the others."""
    shown = np.where(hidden, np.nan, layer.values)
    shown[known] = layer.values[known]
    wanted = layer.sensitive & np.isnan(shown)
    found = attacker.linear(sizes, shown, nonnegative=layer.nonnegative, only=wanted)
    for cell in np.flatnonzero(wanted):
        _wide_enough(layer, int(cell), found)


def _wide_enough(layer, cell, found):
    """By the need of the cell itself, however large the others are."""
    near = 1e-3 * (layer.high[cell] - layer.low[cell]) + 1e-12 * np.abs(layer.values).max()
    assert found[cell][0] <= layer.low[cell] + near
    assert found[cell][1] >= layer.high[cell] - near


def _sums(rng, sizes, *, signed, tail):
    """Lognormal contributions, one to eight a cell, summed up by hand."""
    lattice = Lattice(sizes)
    rows = attacker.margin_rows(sizes)
    parts = [rng.lognormal(3, tail, rng.integers(1, 9)) for _ in range(int(np.prod(sizes)))]
    if signed:
        parts = [part * rng.choice([-1, 1], len(part)) for part in parts]
    each = [np.concatenate([parts[at] for at in np.flatnonzero(row)]) for row in rows]
    sizes_of = [np.sort(np.abs(one))[::-1] for one in each]
    given_ = Contributions(
        totals=np.array([one.sum() for one in each]),
        sizes=np.array([one.sum() for one in sizes_of]),
        largest=np.array([np.append(one, 0.0)[:2] for one in sizes_of]),
        signed=signed,
    )
    counts = np.array([float(len(one)) for one in each])
    few = assess_counts(lattice, counts, k=3, rules=Rules())
    return assess_sums(lattice, few, given_, rules=Rules())


def test_one_pattern_serves_counts_and_sums():
    lattice = Lattice((3, 3))
    rng = np.random.default_rng(0)
    counts = lattice.with_margins(rng.integers(3, 9, (3, 3)).astype(float))
    few = assess_counts(lattice, counts, k=5, rules=Rules())
    sums = Layer(
        values=counts * 10,
        low=counts * 10 - np.where(np.arange(16) == 5, 30.0, 0),
        high=counts * 10 + np.where(np.arange(16) == 5, 30.0, 0),
        sensitive=np.arange(16) == 5,
    )
    never = np.arange(16) == 15
    hidden = find_suppression_pattern(lattice, [few, sums], unsuppressible=never)
    assert hidden[few.sensitive].all()
    assert hidden[5]
    found = attacker.linear((3, 3), np.where(hidden, np.nan, sums.values))
    assert found[5][0] <= sums.low[5] + 1e-5
    assert found[5][1] >= sums.high[5] - 1e-5


def test_what_cannot_be_hidden_is_refused():
    # One firm makes up all but a little of the total, which everybody knows.
    values = np.array([100.0, 2, 3, 105])
    alone = np.arange(4) == 0
    layer = Layer(values=values, low=values - 25 * alone, high=values + 25 * alone, sensitive=alone)
    with pytest.raises(OutputRefused, match="coarser"):
        find_suppression_pattern(Lattice((3,)), [layer], unsuppressible=np.arange(4) == 3)
