"""Generalised cells into boxes, against sets of values written out."""

from __future__ import annotations

import datetime as dt
from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import generalised

import sfumato as sf
from sfumato.cells.boxes import read_boxes
from sfumato.errors import DataError, SchemaError
from sfumato.kernels.trees.boxes import COVERED, find_covered


def safe(frame, columns, missing="value"):
    """Which records others cover, by the code under test."""
    data = generalised(frame, sf.Schema(columns))
    made = read_boxes(data, list(columns), missing=missing)
    return (find_covered(made.cells, made.tables, budget=10**6) == COVERED).tolist()


def one(values, missing="value", **column):
    return safe(pl.DataFrame({"v": values}), {"v": sf.Column(**column)}, missing)


def slow(rows):
    """Every combination of values of a record must lie in another record."""

    def hidden(at):
        others = [row for other, row in enumerate(rows) if other != at]
        return all(
            any(all(v in cell for v, cell in zip(point, row, strict=True)) for row in others)
            for point in product(*rows[at])
        )

    return [hidden(at) for at in range(len(rows))]


ages = st.one_of(
    st.integers(0, 6).map(lambda v: (str(v), {v})),
    st.tuples(st.integers(0, 6), st.integers(0, 6)).map(
        lambda e: (f"[{min(e)};{max(e)}]", set(range(min(e), max(e) + 1)))
    ),
    st.sets(st.integers(0, 6), min_size=1, max_size=3).map(
        lambda s: ("{" + ";".join(map(str, s)) + "}", s)
    ),
    st.just(("*", set(range(7)))),
    st.just((None, None)),
)
# Steps of a half: between two whole numbers there is always something else.
lengths = st.one_of(
    st.integers(0, 4).map(lambda v: (str(v), {2 * v})),
    st.tuples(st.integers(0, 4), st.integers(0, 4)).map(
        lambda e: (f"[{min(e)};{max(e)}]", set(range(2 * min(e), 2 * max(e) + 1)))
    ),
    st.just(("*", set(range(9)))),
)
TREE = {"oak": ("leafy", "any"), "elm": ("leafy", "any"), "fir": ("bare", "any")}
trees = st.sampled_from(
    [(leaf, {leaf}) for leaf in TREE]
    + [("leafy", {"oak", "elm"}), ("bare", {"fir"}), ("any", set(TREE)), ("*", set(TREE))]
    + [("{oak;fir}", {"oak", "fir"}), ("{elm}", {"elm"})]
)
codes = st.sampled_from(
    [(code, {code}) for code in ("930", "931", "937", "850")]
    + [("93*", {f"93{d}" for d in range(10)}), ("9**", {f"9{d:02}" for d in range(100)})]
    + [("937", {"937"}), (None, None)]
)
KINDS = {
    "age": (ages, sf.Column(kind="integer", domain=(0, 6)), set(range(7))),
    "length": (lengths, sf.Column(kind="continuous", domain=(0, 4)), set(range(9))),
    "tree": (trees, sf.Column(kind="nominal", hierarchy=TREE), set(TREE)),
    "code": (codes, sf.Column(kind="text"), {f"9{d:02}" for d in range(100)} | {"850"}),
}


@st.composite
def files(draw):
    names = draw(st.sets(st.sampled_from(sorted(KINDS)), min_size=1, max_size=2).map(sorted))
    rows = draw(st.lists(st.tuples(*[KINDS[n][0] for n in names]), min_size=1, max_size=12))
    return names, rows


@given(files(), st.sampled_from(["value", "wildcard"]))
@settings(max_examples=300)
def test_same_as_writing_every_value_out(file, missing):
    names, rows = file
    frame = pl.DataFrame(
        {n: pl.Series([row[at][0] for row in rows], dtype=pl.String) for at, n in enumerate(names)}
    )
    written = [
        [
            cell if cell is not None else {"missing"} if missing == "value" else KINDS[n][2]
            for n, (_, cell) in zip(names, row, strict=True)
        ]
        for row in rows
    ]
    if missing == "wildcard" and "code" in names:
        # No levels are declared: anything is what occurs, could be behind a mask, or is new.
        at = names.index("code")
        known = {"new"}.union(*[row[at][1] for row in rows if row[at][1]])
        for row, (text, _) in zip(written, [r[at] for r in rows], strict=True):
            row[at] = known if text is None else row[at]
    assert safe(frame, {n: KINDS[n][1] for n in names}, missing) == slow(written)


def test_the_examples_of_the_paper():
    assert one(["26", "[24;28]"], kind="integer") == [True, False]
    assert one(["[24;26]", "24", "25", "26"], kind="integer") == [True] * 4
    assert one(["[24;26]", "24", "26"], kind="integer") == [False, True, True]
    masked = ["937**", *(f"{code}" for code in range(93700, 93800))]
    assert one(masked, kind="text") == [True] * 101
    assert one(masked[:-1], kind="text") == [False] + [True] * 99
    assert one(["937**", "[93700;93799]"], kind="text") == [True, True]
    assert one(["*", *map(str, range(86))], kind="integer", domain=(0, 85)) == [True] * 87
    assert one(["*", *map(str, range(85))], kind="integer", domain=(0, 85))[0] is False


def test_read_jointly_over_the_variables():
    """Each variable's values are found, but not all their combinations."""
    frame = pl.DataFrame({"a": ["*", "1", "2"], "b": ["*", "1", "2"]})
    columns = dict.fromkeys("ab", sf.Column(kind="integer", domain=(1, 2)))
    assert safe(frame, columns) == [False, True, True]


def test_missing_is_a_value_or_anything():
    ages = pl.Series([30, None, None, 41], dtype=pl.Int64)
    assert one(ages, kind="integer") == [False, True, True, False]
    assert one(ages, "wildcard", kind="integer") == [True] * 4
    assert one([30, None], "wildcard", kind="integer", domain=(0, 9)) == [True, False]
    assert one(["*", None], kind="nominal") == [False, False]
    assert one(["*", None], "wildcard", kind="nominal") == [True, True]


def test_coarsened_data_are_disjoint_even_where_ranges_share_an_end():
    frame = pl.DataFrame({"v": [0.5, 1.2, 9.9]})
    data = generalised(frame, sf.Schema({"v": sf.Column(kind="continuous", domain=(0, 10))}))
    made = sf.methods.Coarsen(variables=["v"], intervals=4).apply(data)
    table = read_boxes(made, ["v"]).tables[0]
    assert table.disjoint
    assert len(table) == 2


def test_dates_and_ranges_of_dates():
    days = sf.Column(kind="date", domain=(dt.date(2020, 1, 1), dt.date(2020, 1, 3)))
    texts = ["[2020-01-01;2020-01-03]", "2020-01-01", "2020-01-02", "2020-01-03"]
    assert safe(pl.DataFrame({"d": texts}), {"d": days}) == [True] * 4
    real = pl.Series("d", [dt.date(2020, 1, 1), None])
    assert safe(pl.DataFrame([real]), {"d": days}, "wildcard") == [True, False]


def test_ranges_of_ordered_levels():
    size = {"kind": "ordinal", "domain": ("small", "medium", "large")}
    assert one(["[small;medium]", "small", "medium", "large"], **size) == [True] * 3 + [False]
    with pytest.raises(DataError, match="Variable 'v' has a range whose ends"):
        one(["[large;small]"], **size)


def test_the_same_values_in_another_notation_are_the_same_cell():
    assert one(["26", "[26;26]"], kind="integer") == [True, True]
    assert one(["{1;2;4}", "{4;2;1}"], kind="integer") == [True, True]
    assert one(["{1;2}", "[1;2]"], kind="integer") == [True, True]


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([True, False, True]),
        pl.Series(["a", "b", "a"], dtype=pl.Categorical),
        pl.Series([b"x", b"y", b"x"]),
        pl.Series([1.5, 2.5, 1.5]),
        pl.Series([2**63 + 5, 2**63 + 6, 2**63 + 5], dtype=pl.UInt64),
        pl.Series([dt.date(2020, 1, 1), dt.date(2020, 1, 2), dt.date(2020, 1, 1)]),
        pl.Series([3, 4, 3]).cast(pl.Datetime),
        pl.Series([dt.time(1), dt.time(2), dt.time(1)]),
    ],
    ids=lambda one: str(one.dtype),
)
def test_any_type_of_value(values):
    assert safe(pl.DataFrame({"v": values}), {"v": sf.Column()}) == [True, False, True]


def test_errors_name_the_variable_and_never_a_value():
    for cells, kind in ((["12", "secret"], "integer"), (["[9;3]"], "integer"), (["13"], "date")):
        with pytest.raises(DataError, match="Variable 'v'") as caught:
            one(cells, kind=kind)
        assert "secret" not in str(caught.value)
        assert "[9;3]" not in str(caught.value)
    with pytest.raises(DataError, match="mixes ranges"):
        one(["[1;2]", "[2020-01-01;2020-02-01]"], kind="text")
    with pytest.raises(SchemaError, match="'w' is not in the data"):
        read_boxes(generalised(pl.DataFrame({"v": [1]})), ["w"])


def test_the_order_of_records_does_not_matter():
    random = np.random.default_rng(3)
    cells = [f"[{v};{v + random.integers(0, 3)}]" for v in random.integers(0, 40, 300)]
    order = random.permutation(300)
    found = one(cells, kind="integer")
    assert one([cells[at] for at in order], kind="integer") == [found[at] for at in order]


def test_what_nobody_declared_may_be_what_nobody_shows():
    # Whoever knows the one age of 99 finds the only blank among fives.
    assert one(["5", "5", "5", "*"], kind="integer") == [True, True, True, False]
    assert one(["5", "5", "5", "*"], kind="nominal") == [True, True, True, False]
    assert one([5, 5, 5, None], "wildcard", kind="integer") == [True, True, True, False]
    assert one(["5", "5", "*", "*"], kind="integer") == [True] * 4
    assert one(["5", "5", "5", "*"], kind="integer", domain=(5, 5)) == [True] * 4
    assert one(["a", "b", "*"], kind="nominal", domain=("a", "b")) == [True] * 3


def test_masks_of_letters_may_stand_for_codes_that_nobody_has():
    assert one(["SW*", "SWA", "X", "X"], kind="nominal") == [False, True, True, True]
    assert one(["A1*", "A12", "X", "X"], kind="nominal") == [False, True, True, True]
    assert one(["E1*", "E1*", "F2*"], kind="nominal") == [True, True, False]


def test_a_declared_level_is_a_value_whatever_it_looks_like():
    assert one(["A*", "AB", "C", "C"], kind="nominal", domain=("A*", "AB", "C")) == [
        False, False, True, True,
    ]  # fmt: skip
    assert one(["{a}", "a"], kind="nominal", domain=("{a}", "a")) == [False, False]
    scale = ("[a;b]", "c", "[d;e]", "f")
    assert one(["[a;c]", "[a;c]", "c", "f"], kind="ordinal", domain=scale) == [
        True, True, True, False,
    ]  # fmt: skip


def test_no_digit_is_lost():
    from decimal import Decimal

    exact = pl.Series([Decimal(9007199254740993000 + at) for at in range(3)], dtype=pl.Decimal(38))
    assert one(exact, kind="integer") == [False] * 3
    assert one([str(2**60), str(2**60 + 1), "0.5"], kind="continuous") == [False] * 3
    assert one(pl.Series([2**64 - 1, 2**64 - 2, 0], dtype=pl.UInt64), kind="continuous") == (
        [False] * 3
    )
    assert one(["1" + "0" * 400, "2"], kind="integer") == [False] * 2
    assert one(["0.10000000000000000001", "0.1"], kind="continuous") == [False] * 2
    assert one(["26.0", "26"], kind="integer") == [True] * 2
