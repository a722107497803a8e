"""k^m-anonymity of lists: against references that go through every combination of items."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MeasureError, MethodError
from sfumato.kernels.itemsets import ItemRows, count_itemsets
from sfumato.units import Units

GROUPS = {
    "a1": ("a", "*"), "a2": ("a", "*"), "a3": ("a", "*"), "b1": ("b", "*"), "b2": ("b", "*"),
    "c1": ("c", "*"),
}  # fmt: skip
LEAVES = {"a": {"a1", "a2", "a3"}, "b": {"b1", "b2"}, "c": {"c1"}}
CODES = sf.Column(role="quasi", cells="lists", hierarchy=GROUPS)
item = st.sampled_from(sorted(GROUPS))
lists = st.lists(st.lists(item, max_size=4), min_size=4, max_size=20)


def data_of(rows, people=None, column=CODES) -> sf.Dataset:
    frame = pl.DataFrame({"codes": [";".join(row) for row in rows]}, schema={"codes": pl.String})
    if people is None:
        return sf.Dataset(frame, sf.Schema({"codes": column}))
    frame = frame.with_columns(who=pl.Series(people))
    return sf.Dataset(frame, sf.Schema({"codes": column, "who": "person"}))


def read(text):
    return frozenset(one for one in (text or "").split(";") if one)


def fits(known, shown):
    """Whether a released list fits items that somebody knows: each is there, or its group is."""
    return all(
        one in shown or any(one in LEAVES.get(token, ()) for token in shown) for one in known
    )


def slow_k(released, known_lists, m, people=None):
    """The fewest persons with a list that fits m items of somebody's true list, or fewer."""
    people = list(range(len(released))) if people is None else people
    least = float("inf")
    for true in known_lists:
        for size in range(1, m + 1):
            for known in combinations(sorted(true), size):
                who = {p for shown, p in zip(released, people, strict=True) if fits(known, shown)}
                least = min(least, len(who))
    return least


@settings(max_examples=150)
@given(lists, st.integers(1, 3))
def test_the_measure_agrees_with_going_through_every_combination(rows, m):
    true = [frozenset(row) for row in rows]
    if not any(true):
        with pytest.raises(MeasureError, match="No record has an item"):
            sf.risk.KOfItems(m=m).measure(data_of(rows))
        return
    found = sf.risk.KOfItems(m=m).measure(data_of(rows))
    assert found.value == slow_k(true, true, m)
    alone = [
        any(
            sum(set(known) <= other for other in true) == 1
            for size in range(1, m + 1)
            for known in combinations(sorted(mine), size)
        )
        for mine in true
    ]
    assert found.details["singled_out_by_items"] == pytest.approx(sum(alone) / len(rows))
    assert found.table["known_items"].to_list() == list(range(1, m + 1))


tokens = st.sampled_from([*sorted(GROUPS), "a", "b"])


@settings(max_examples=150)
@given(st.lists(st.lists(tokens, max_size=3), min_size=2, max_size=12), st.integers(1, 2))
def test_groups_in_lists_fit_whoever_knows_one_of_their_items(rows, m):
    shown = [frozenset(row) for row in rows]
    if not any(shown):
        return
    found = sf.risk.KOfItems(m=m).measure(data_of(rows))
    # What somebody may know: any items that a list may stand for.
    possible = [{leaf for token in row for leaf in LEAVES.get(token, {token})} for row in shown]
    assert found.value == slow_k(shown, possible, m)


@settings(max_examples=150, deadline=None)
@given(
    lists,
    st.integers(2, 4),
    st.integers(1, 3),
    st.sampled_from(["both", "generalise", "suppress"]),
)
def test_any_known_items_fit_k_records_afterwards(rows, k, m, how):
    data = data_of(rows)
    after = sf.methods.KmAnonymity(k=k, m=m, how=how).apply(data)
    released = [read(text) for text in after.frame["codes"]]
    true = [frozenset(row) for row in rows]
    kept = frozenset().union(*released) if released else frozenset()
    visible = {leaf for token in kept for leaf in LEAVES.get(token, {token})}
    for mine, shown in zip(true, released, strict=True):
        # Truthful: what is shown is one's own item, or a group of it; the rest is left out.
        assert all(token in mine or LEAVES.get(token, set()) & mine for token in shown)
        left = mine & {one for one in mine if fits([one], shown)}
        for size in range(1, m + 1):
            for known in combinations(sorted(left), size):
                assert sum(fits(known, other) for other in released) >= k
    assert visible <= set(GROUPS)
    # An item is treated alike in all lists.
    for one in GROUPS:
        tokens_of = {
            next((t for t in shown if t == one or one in LEAVES.get(t, ())), None)
            for mine, shown in zip(true, released, strict=True)
            if one in mine
        }
        assert len(tokens_of) <= 1
    if any(released):
        assert sf.risk.KOfItems(m=m).measure(after).value >= k
    if how == "suppress":
        assert kept <= set(GROUPS)


@settings(max_examples=100, deadline=None)
@given(lists, st.integers(2, 3), st.integers(1, 2), st.integers(0, 2**32 - 1))
def test_persons_are_counted_by_row_and_over_all_their_rows(rows, k, m, seed):
    people = np.random.default_rng(seed).integers(0, 5, len(rows)).tolist()
    if len(set(people)) < k:
        return
    data = data_of(rows, people)
    after = sf.methods.KmAnonymity(k=k, m=m).apply(data)
    released = [read(text) for text in after.frame["codes"]]
    united = {
        p: frozenset().union(*(r for r, q in zip(released, people, strict=True) if q == p))
        for p in people
    }
    if not any(released):
        return

    def count(sets, who, m):
        return min(
            (
                len({p for other, p in zip(sets, who, strict=True) if set(known) <= other})
                for mine in sets
                for size in range(1, m + 1)
                for known in combinations(sorted(mine), size)
            ),
            default=float("inf"),
        )

    by_row = count(released, people, m)
    by_person = count(list(united.values()), list(united), m)
    assert min(by_row, by_person) >= k
    assert sf.risk.KOfItems(m=m).measure(after).value >= k


@given(
    st.lists(st.lists(st.integers(0, 6), max_size=6, unique=True), max_size=20), st.integers(1, 4)
)
def test_the_kernel_counts_every_combination_once(rows, size):
    rows = [sorted(row) for row in rows]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    flat = np.array([one for row in rows for one in row], np.int64)
    counted = {
        tuple(items): support
        for part in count_itemsets(ItemRows(starts, flat, 7, Units(len(rows))), size)
        for items, support in zip(part.items.tolist(), part.support.tolist(), strict=True)
    }
    expected: dict[tuple[int, ...], int] = {}
    for row in rows:
        for known in combinations(row, size):
            expected[known] = expected.get(known, 0) + 1
    assert counted == expected


def test_parts_of_the_items_give_the_same(monkeypatch):
    from sfumato.kernels import itemsets

    rng = np.random.default_rng(3)
    rows = [sorted(rng.choice(30, 5, replace=False).tolist()) for _ in range(60)]
    table = ItemRows(np.arange(0, 301, 5), np.array(rows).ravel(), 30, Units(60))
    at_once = [(p.items.tolist(), p.support.tolist()) for p in count_itemsets(table, 3)]
    monkeypatch.setattr(itemsets, "_AT_ONCE", 50)
    in_parts = [(p.items.tolist(), p.support.tolist()) for p in count_itemsets(table, 3)]
    assert len(in_parts) > 5
    for position in (0, 1):
        assert [one for part in in_parts for one in part[position]] == at_once[0][position]


def test_the_release_is_measured_with_what_the_step_promises():
    rng = np.random.default_rng(1)
    rows = [rng.choice(sorted(GROUPS), 3, replace=False).tolist() for _ in range(60)]
    data = data_of(rows)
    step = sf.methods.KmAnonymity(k=5, m=3)
    plan = sf.Plan(schema=data.schema, steps=[step], targets={"k_of_items.min": 5})
    assert plan.measures["k_of_items"] == sf.risk.KOfItems(m=3)
    release = sf.protect(data, plan, key=bytes(32))
    assert release.evidence["k_of_items"].value >= 5
    assert [judgement.met for judgement in release.verdict] == [True]
    # A target that the step does not promise is missed.
    weak = sf.Plan(
        schema=data.schema,
        steps=[sf.methods.KmAnonymity(k=2, m=1)],
        evaluate={"k_of_items": sf.risk.KOfItems(m=3)},
        targets={"k_of_items.min": 50},
    )
    with pytest.raises(sf.SfumatoError, match="targets missed"):
        sf.protect(data, weak, key=bytes(32))
    assert sf.Plan.parse(plan.text()) == plan


def test_mistakes_are_told():
    plain = sf.Dataset(pl.DataFrame({"codes": ["a"]}), sf.Schema({"codes": "quasi"}))
    with pytest.raises(MethodError, match="no variable with lists"):
        sf.methods.KmAnonymity().apply(plain)
    with pytest.raises(MeasureError, match="no variable with lists"):
        sf.risk.KOfItems().measure(plain)
    with pytest.raises(MethodError, match="there are 1"):
        sf.methods.KmAnonymity(k=2).apply(data_of([["a1"]]))
    odd = sf.Column(role="quasi", cells="lists", hierarchy={"a1": ("a;b",), "a2": ("a;b",)})
    with pytest.raises(MethodError, match="holds what stands between items"):
        sf.methods.KmAnonymity(k=2).apply(data_of([["a1"], ["a2"]], column=odd))
    numbers = sf.Dataset(pl.DataFrame({"codes": [1, 2]}), sf.Schema({"codes": "quasi"}))
    with pytest.raises(MethodError, match="'codes' holds no text"):
        sf.methods.KmAnonymity(variables=["codes"], k=2).apply(numbers)
