"""Local suppression: the promise is checked against a slow checker that knows no trick."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import LIBRARIES, drawn, in_library

import sfumato as sf
from sfumato.errors import MethodError, PlanError
from sfumato.io import frames
from sfumato.methods._suppression.local_suppression import DifferentRows, order_subsets

NAMES = ["a", "b", "c", "d"]
NOON = dt.datetime(2020, 1, 1, 12)  # noqa: DTZ001 - a time without a zone, as files hold it


def data_of(frame: pl.DataFrame, **columns) -> sf.Dataset:
    told = {name: columns.get(name, "quasi") for name in frame.columns}
    return sf.Dataset(frame, sf.Schema(told))


def smallest(frame: pl.DataFrame, names):
    """The smallest number of records that show the same, under either reading of missing."""
    rows = frame.select(names).rows()
    return min(rows.count(row) for row in rows)


def cells(before: pl.DataFrame, after: pl.DataFrame, spare=None):
    return sum(
        (spare or {}).get(name, 1) * (after[name].null_count() - before[name].null_count())
        for name in before.columns
    )


@st.composite
def frames_of(draw, least=5, most=14):
    width, records = draw(st.integers(1, 4)), draw(st.integers(least, most))
    gaps = draw(st.booleans())
    cell = st.one_of(st.integers(0, 2), st.none()) if gaps else st.integers(0, 2)
    rows = draw(st.lists(st.tuples(*[cell] * width), min_size=records, max_size=records))
    return pl.DataFrame(rows, schema=dict.fromkeys(NAMES[:width], pl.Int64), orient="row")


@settings(max_examples=100)
@given(frames_of(), st.integers(2, 5), st.sampled_from(["value", "wildcard"]), st.data())
def test_every_combination_holds_and_nothing_else_changes(frame, k, missing, more):
    some = st.lists(st.sampled_from(frame.columns), min_size=1, max_size=3, unique=True)
    asked = more.draw(st.none() | st.lists(some, min_size=1, max_size=3, unique_by=tuple))
    up_to = more.draw(st.none() | st.integers(1, 3))
    before = frame.with_columns(note=pl.int_range(pl.len()))
    data = data_of(before, note="other")
    variables = frame.columns
    method = sf.methods.Suppress(
        variables=variables, k=k, missing=missing, combinations=asked, up_to=up_to
    )
    after = method.apply(data).frame
    wanted = list(asked or [])
    if up_to:
        wanted += itertools.combinations(variables, min(up_to, len(variables)))
    for one in wanted or [variables]:
        assert smallest(after, list(one)) >= k
    assert after.columns == before.columns
    assert after["note"].equals(before["note"])
    for name in variables:
        for was, now in zip(before[name], after[name], strict=True):
            assert now is None or now == was


def naive(frame: pl.DataFrame, k: int) -> pl.DataFrame:
    """Blank every variable of whoever stands out; then of the smallest classes."""
    return stepwise(frame, k, [frame.columns])


def stepwise(frame, k, steps) -> pl.DataFrame:
    """The documented heuristic of sdcMicro: one variable after the other, of whoever stands out.

    In the end, where the few that are left have no company, the smallest class joins them.
    """
    rows = [list(row) for row in frame.rows()]
    places = [[frame.columns.index(name) for name in step] for step in steps]

    def counts():
        return [rows.count(row) for row in rows]

    for step in places:
        for row, size in zip(rows, counts(), strict=True):
            if size < k:
                for at in step:
                    row[at] = None
    for row, size in zip(rows, counts(), strict=True):
        row[:] = row if size >= k else [None] * len(row)
    while min(counts()) < k:
        join_smallest(rows, counts())
    return pl.DataFrame(rows, schema=frame.schema, orient="row")


def join_smallest(rows, sizes) -> None:
    shown = [(size, row) for row, size in zip(rows, sizes, strict=True) if any_shown(row)]
    least = min(shown, key=lambda one: (one[0], [str(cell) for cell in one[1]]))[1]
    for row in [row for row in rows if row == least]:
        row[:] = [None] * len(row)


def any_shown(row) -> bool:
    return any(cell is not None for cell in row)


def most_values_first(frame: pl.DataFrame) -> list[list[str]]:
    values = {name: frame[name].drop_nulls().n_unique() for name in frame.columns}
    return [[name] for name in sorted(frame.columns, key=lambda name: -values[name])]


@settings(max_examples=80)
@given(frames_of(), st.integers(2, 5), st.sampled_from(["value", "wildcard"]))
def test_never_more_cells_than_the_usual_heuristics(frame, k, missing):
    after = sf.methods.Suppress(k=k, missing=missing).apply(data_of(frame)).frame
    assert cells(frame, after) <= cells(frame, naive(frame, k))
    documented = stepwise(frame, k, most_values_first(frame))
    assert cells(frame, after) <= cells(frame, documented)


@settings(max_examples=40)
@given(frames_of(least=4, most=6), st.integers(2, 3))
def test_is_near_the_fewest_cells_there_are(frame, k):
    """Every choice for every distinct row of tiny frames: at most twice the fewest and a row."""
    after = sf.methods.Suppress(k=k).apply(data_of(frame)).frame
    rows = sorted(set(frame.rows()), key=str)
    if len(rows) * frame.width > 12:
        return
    width = frame.width
    subsets = [
        one for size in range(width + 1) for one in itertools.combinations(range(width), size)
    ]
    best = np.inf
    for chosen in itertools.product(subsets, repeat=len(rows)):
        new = {
            row: tuple(None if at in blank else cell for at, cell in enumerate(row))
            for row, blank in zip(rows, chosen, strict=True)
        }
        made = [new[row] for row in frame.rows()]
        if min(made.count(one) for one in made) >= k:
            table = pl.DataFrame(made, schema=frame.schema, orient="row")
            best = min(best, cells(frame, table))
    assert best <= cells(frame, after) <= 2 * best + width


@settings(max_examples=40)
@given(frames_of(), st.integers(2, 4), st.sampled_from(["value", "wildcard"]), st.data())
def test_the_order_of_records_does_not_matter(frame, k, missing, more):
    order = more.draw(st.permutations(range(len(frame))))
    method = sf.methods.Suppress(k=k, missing=missing, up_to=2)
    direct = method.apply(data_of(frame)).frame
    assert method.apply(data_of(frame[order])).frame.equals(direct[order])
    rows = dict(zip(frame.rows(), direct.rows(), strict=True))
    assert [rows[row] for row in frame.rows()] == direct.rows()  # the same row, the same blanks


def test_pairs_done_first_are_not_broken_by_those_done_later():
    """The trap: going through pairs one after the other undoes what was reached before."""
    chance = np.random.default_rng(1)
    frame = pl.DataFrame({name: chance.integers(0, 6, 120) for name in NAMES})
    for missing in ("value", "wildcard"):
        after = sf.methods.Suppress(k=5, up_to=2, missing=missing).apply(data_of(frame)).frame
        for pair in itertools.combinations(NAMES, 2):
            assert smallest(after, list(pair)) >= 5


def test_a_variable_to_spare_is_blanked_less_often():
    chance = np.random.default_rng(2)
    frame = pl.DataFrame({name: chance.integers(0, 4, 200) for name in NAMES})
    plain = sf.methods.Suppress(k=4).apply(data_of(frame)).frame
    spared = sf.methods.Suppress(k=4, spare={"a": 10}).apply(data_of(frame)).frame
    assert spared["a"].null_count() < plain["a"].null_count()
    assert cells(frame, spared, {"a": 10}) <= cells(frame, plain, {"a": 10})
    assert smallest(spared, NAMES) >= 4


def test_what_uniqueness_measures_is_what_was_promised():
    data = sf.Dataset(sf.datasets.cohort(500), sf.datasets.cohort_schema())
    known = ["sex", "region", "education", "marital_status"]
    for missing in ("value", "wildcard"):
        after = sf.methods.Suppress(variables=known, k=4, missing=missing).apply(data)
        found = sf.risk.Uniqueness(known=known, missing=missing).measure(after)
        assert found.details["k"] >= found.details.get("k_at_worst", 4) >= 4
        assert after.schema == data.schema


def test_codes_for_missing_are_values_in_the_strict_reading_and_blanks_in_the_other():
    """A release shows which code a cell holds, so -9 and -8 and a blank are three things."""
    frame = pl.DataFrame({"x": [-9, -9, -9, -8, 1, 1, 1, 2]})
    column = sf.Column(role="quasi", kind="integer", missing=(-9, -8))
    after = sf.methods.Suppress(k=2).apply(data_of(frame, x=column))
    assert after.frame["x"].to_list() == [-9, -9, -9, None, 1, 1, 1, None]
    assert sf.risk.Uniqueness().measure(after).details["k"] == 2
    assert after.schema["x"].missing == (-9, -8)
    lax = sf.methods.Suppress(k=2, missing="wildcard").apply(data_of(frame, x=column))
    assert lax.frame["x"].to_list() == [-9, -9, -9, -8, 1, 1, 1, None]
    found = sf.risk.Uniqueness(missing="wildcard").measure(lax)
    assert found.details["k"] == found.details["k_at_worst"] == 3


@drawn("library", LIBRARIES)
@pytest.mark.parametrize(
    "values",
    [
        ["x", "x", "y", "z"],
        [True, True, False, None],
        [1, 1, 2, 3],
        [1.5, 1.5, 2.5, 3.5],
        [dt.date(2020, 1, 1)] * 2 + [dt.date(2021, 1, 1), dt.date(2022, 1, 1)],
        [NOON] * 2 + [NOON + dt.timedelta(days=1), NOON + dt.timedelta(days=2)],
        [b"x", b"x", b"y", b"z"],
    ],
)
def test_any_type_of_variable(values, library):
    frame = in_library(pl.DataFrame({"x": values}), library)
    after = sf.methods.Suppress(k=2).apply(sf.Dataset(frame, sf.Schema({"x": "quasi"})))
    found = frames.get_column(after.frame, "x").to_list()
    assert found == [*frames.get_column(frame, "x").to_list()[:2], None, None]


def test_categories_of_pandas_and_polars():
    levels = pl.Series("x", ["u", "u", "v", "w"])
    for frame in (
        levels.cast(pl.Categorical).to_frame(),
        levels.cast(pl.Enum(["w", "v", "u"])).to_frame(),
        levels.to_frame().to_pandas().astype("category"),
    ):
        after = sf.methods.Suppress(k=2).apply(sf.Dataset(frame, sf.Schema({"x": "quasi"})))
        assert frames.get_column(after.frame, "x").to_list() == ["u", "u", None, None]


def test_nothing_to_do_leaves_the_very_frame():
    frame = pl.DataFrame({"x": [1, 1, 2, 2]}).to_pandas()
    data = sf.Dataset(frame, sf.Schema({"x": "quasi"}))
    assert sf.methods.Suppress(k=2).apply(data).frame["x"].dtype == frame["x"].dtype


def test_many_variables_are_bounded_and_hold():
    chance = np.random.default_rng(3)
    frame = pl.DataFrame({f"v{at:02}": chance.integers(0, 2, 60) for at in range(20)})
    for missing in ("value", "wildcard"):
        after = sf.methods.Suppress(k=3, missing=missing).apply(data_of(frame)).frame
        assert smallest(after, frame.columns) >= 3
    rows = DifferentRows(np.ones((1, 20), np.int64), np.array([1]))
    tried = [one for same in order_subsets(rows.codes, [1.0] * 20) for one in same]
    assert len(tried) <= 4096 + 21
    assert tried[0] == ()
    assert tried[-1] == tuple(range(20))


def test_large_and_small_data_are_compared_alike(monkeypatch):
    """Many rows are compared by another library; square tables once came back on their side."""
    chance = np.random.default_rng(4)
    for size in (4, 5, 30):
        frame = pl.DataFrame({name: chance.integers(0, 3, size) for name in NAMES})
        for missing in ("value", "wildcard"):
            method = sf.methods.Suppress(k=2, missing=missing, up_to=3)
            with monkeypatch.context() as patched:
                patched.setattr("sfumato.methods._suppression.local_suppression.FEW", 0)
                large = method.apply(data_of(frame)).frame
            assert large.equals(method.apply(data_of(frame)).frame)


def test_many_patterns_of_gaps_still_end():
    frame = pl.DataFrame(
        [[None if (row >> at) & 1 else row for at in range(5)] for row in range(32)],
        schema=list("abcde"), orient="row",
    )  # fmt: skip
    for k in (2, 16, 32):
        after = sf.methods.Suppress(k=k, missing="wildcard").apply(data_of(frame)).frame
        assert smallest(after, frame.columns) >= k


def test_what_cannot_be_is_refused():
    data = data_of(pl.DataFrame({"a": [1, 2, 3], "b": [1, 2, 3]}), b="other")
    with pytest.raises(MethodError, match="Clusters of k need at least k records: k is 4"):
        sf.methods.Suppress(k=4).apply(data)
    with pytest.raises(MethodError, match="'b' stands in combinations but may not"):
        sf.methods.Suppress(variables=["a"], k=2, combinations=[["a", "b"]]).apply(data)
    with pytest.raises(MethodError, match="'b' stands in spare but may not"):
        sf.methods.Suppress(k=2, spare={"b": 2}).apply(data)
    with pytest.raises(MethodError, match="no variable to blank"):
        sf.methods.Suppress(k=2).apply(sf.Dataset(pl.DataFrame({"a": [1, 2]})))
    cases: list[dict[str, Any]] = [
        {"k": 1},
        {"spare": {"a": 0}},
        {"up_to": 0},
        {"variables": []},
        {"missing": "x"},
    ]
    for wrong in cases:
        with pytest.raises(PlanError):
            sf.methods.Suppress(**wrong)


def test_combinations_name_the_variables_where_nobody_else_does():
    frame = pl.DataFrame({"a": [1, 1, 2], "b": [1, 2, 2], "c": [1, 2, 3]})
    method = sf.methods.Suppress(k=3, combinations=[["a"], ["b"]])
    after = method.apply(data_of(frame)).frame
    assert after["a"].null_count() == after["b"].null_count() == 3
    assert after["c"].null_count() == 0


@pytest.mark.parametrize(("k", "most"), [(3, 26_000), (5, 33_500)])
def test_adult_needs_a_fraction_of_the_cells(shared_data, k, most):
    frame = pl.read_csv(shared_data / "adult.csv", infer_schema=False).drop("salary")
    after = sf.methods.Suppress(k=k).apply(data_of(frame)).frame
    sizes = after.group_by(after.columns).len()["len"]
    assert sizes.min() >= k
    violating = frame.group_by(frame.columns).len()["len"]
    wholly = int(violating.filter(violating < k).sum()) * frame.width
    assert cells(frame, after) < most < wholly / 5
