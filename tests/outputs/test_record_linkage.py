"""Records that were changed are recognised, and others are not: held against all pairs."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.outputs.record_linkage import hash_cells, link_records

KEY = sf.Key(bytes(32))


def draw_cells(records: int, levels: list[int], seed: int) -> pl.DataFrame:
    chance = np.random.default_rng(seed)
    return pl.DataFrame(
        {str(i): chance.integers(0, count, records) for i, count in enumerate(levels)}
    )


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    levels=st.lists(st.sampled_from([2, 5, 40, 500]), min_size=1, max_size=8),
    changed=st.floats(0, 0.6),
)
def test_links_are_one_to_one_and_rare_by_chance(seed, levels, changed):
    """Every link agrees in so much that no such pair is expected among all pairs."""
    old = draw_cells(60, levels, seed)
    chance = np.random.default_rng(seed + 1)
    order = chance.permutation(60)[:55]
    new = old[order]
    for name in new.columns:
        lost = chance.random(55) < changed
        new = new.with_columns(
            pl.when(pl.Series(lost)).then(-1).otherwise(pl.col(name)).alias(name)
        )
    left, right = link_records(new, old)
    assert len(set(left)) == len(left)
    assert len(set(right)) == len(right)
    both = pl.concat([new, old])
    for row, other in zip(left, right, strict=True):
        bits = 0.0
        for name in new.columns:  # slowly, cell by cell
            if new[name][int(row)] == old[name][int(other)]:
                bits += np.log2(115 / max(2, (both[name] == new[name][int(row)]).sum()))
        assert bits >= np.log2(60 * 55) + 10 - 1e-9
        assert order[row] == other, "with these margins a wrong link is one in a thousand"


def test_all_are_found_where_one_variable_of_many_changed():
    old = draw_cells(300, [200] * 8, 4)
    for name in old.columns:
        left, right = link_records(old.with_columns(pl.lit(7).cast(pl.Int64).alias(name)), old)
        assert sorted(left) == sorted(right) == list(range(300))
        assert (left == right).all()


def test_few_values_link_nobody():
    old = draw_cells(300, [2, 2, 3], 4)
    assert len(link_records(old, old)[0]) == 0


def test_nothing_in_common_links_nobody():
    old = draw_cells(30, [100] * 6, 4)
    assert len(link_records(old.rename(lambda name: f"x{name}"), old)[0]) == 0
    assert len(link_records(old.clear(), old)[0]) == 0
    assert len(link_records(pl.DataFrame(), old)[0]) == 0


@pytest.mark.parametrize("other", [sf.Key(bytes(range(32)))])
def test_hashes_need_the_key_and_leave_identifiers_out(cohort, other):
    cells = hash_cells(cohort, KEY)
    assert cells.height == len(cohort)
    assert not set(cells.columns) & set(cohort.columns)
    assert set(cells.dtypes) == {pl.UInt16}
    direct = cohort.schema.having("direct")
    assert cells.width == len(cohort.columns) - len(direct)
    assert not set(cells.columns) & set(hash_cells(cohort, other).columns)
