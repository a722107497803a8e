"""Several releases together: against counting by hand, and what must always hold."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MeasureError
from sfumato.risk._composition.averaged_noise import average_noise
from sfumato.risk._composition.merged_cells import intersect_cells
from sfumato.risk.composition import Composition, EarlierRelease
from sfumato.schema import Column

AGE = Column(role="quasi", kind="integer", cells="generalised")
TOWN = Column(role="quasi", kind="nominal", cells="generalised")
ILL = Column(role="sensitive", kind="nominal")


def original(ages, ills=None) -> sf.Dataset:
    frame = pl.DataFrame({"id": range(len(ages)), "age": ages, "ill": ills or ["a"] * len(ages)})
    return sf.Dataset(frame, sf.Schema({"id": "direct", "age": AGE, "ill": ILL}))


def show(data: sf.Dataset, *, rows=None, **columns) -> sf.Dataset:
    """A release of some rows with these cells."""
    schema = {name: data.schema.get(name, TOWN) for name in columns}
    rows = np.arange(len(data)) if rows is None else np.asarray(rows)
    frame = pl.DataFrame({name: list(cells) for name, cells in columns.items()})
    return sf.Dataset(frame[rows], sf.Schema(schema), given_identity=data.identity.take(rows))


def compose(data: sf.Dataset, newest: sf.Dataset, *earlier: sf.Dataset, **options):
    named = [EarlierRelease(f"'{number}'", item) for number, item in enumerate(earlier)]
    return Composition(**options).compose(data, newest, named).evidence


def test_classes_are_intersected():
    data = original([20, 21, 30, 31], ["a", "b", "a", "b"])
    by_decade = show(data, age=["[20;29]", "[20;29]", "[30;39]", "[30;39]"])
    by_parity = show(data, town=["even", "odd", "even", "odd"])
    found = compose(data, by_decade, by_parity)
    assert (found.value, found.baseline) == (1, 2)
    assert found.details["composed_unique_records"] == 4
    assert found.records["composed_class_size"].to_list() == [1, 1, 1, 1]
    assert found.table.rows(named=True)[0]["k_together"] == 1


def test_ranges_that_overlap_leave_what_they_share():
    data = original([24, 27, 33, 36])
    first = show(data, age=["[20;29]", "[20;29]", "[30;39]", "[30;39]"])
    second = show(data, age=["[20;25]", "[26;35]", "[26;35]", "[36;39]"])
    best = Composition().compose(data, second, [EarlierRelease("x", first)]).best
    assert best.dataset.column("age").to_list() == ["[20;25]", "[26;29]", "[30;35]", "[36;39]"]
    assert compose(data, second, first).details["composed_k_by_fitting"] == 1


def test_who_was_added_is_a_cell():
    data = original([20, 21, 22])
    before = show(data, rows=[0, 1], age=["[20;29]"] * 3)
    after = show(data, age=["[20;29]"] * 3)
    found = compose(data, after, before)
    assert (found.baseline, found.value, found.details["composed_k_of_shared"]) == (3, 1, 2)


def test_several_records_of_one_person_are_one_person():
    frame = pl.DataFrame({"id": [1, *range(1, 12)], "age": [20, 20, 30, *[40] * 9]})
    column = Column(role="direct", identity=True)
    data = sf.Dataset(frame, sf.Schema({"id": column, "age": AGE}))
    found = compose(data, show(data, age=[f"[{age};{age + 9}]" for age in frame["age"]]))
    assert found.value == found.baseline == 1
    assert found.details["composed_unique_records"] == 3
    assert found.details["persons"] == 11


def test_a_variable_is_known_if_any_plan_says_so():
    data = original([20, 20, 20])
    plain = show(data, age=["[20;29]"] * 3)
    frame = pl.DataFrame({"town": ["x", "y", "z"]})
    other = sf.Dataset(
        frame, sf.Schema({"town": Column(role="quasi")}), given_identity=data.identity
    )
    assert compose(data, plain, other).value == 1
    harmless = sf.Dataset(
        frame, sf.Schema({"town": Column(role="other")}), given_identity=data.identity
    )
    assert compose(data, plain, harmless).value == 3
    assert compose(data, plain, harmless, known=["town"]).value == 1


def test_rows_are_matched_by_all_that_both_show_alike():
    data = original([20, 21, 22, 23], ["a", "b", "c", "c"])
    ages = ["[20;29]"] * 4
    first = show(data, age=ages, ill=["a", "b", "c", "c"])
    second = show(data, age=["*"] * 4, ill=["a", "b", "c", "c"])
    details = compose(data, second, first).details
    assert details["matched_rows"] == 0.5
    assert details["matched_by"] == "ill"
    kept = EarlierRelease("kept", first, keeps_order=True)
    both = Composition().compose(data, second, [kept], keeps_order=True).evidence
    assert (both.details["matched_rows"], both.details["matched_by"]) == (1, "the order of rows")


def test_what_cannot_be_paired_has_no_value():
    data = original([20, 21])
    gone = EarlierRelease("'gone'", reason="its folder is gone.")
    found = Composition().compose(data, show(data, age=["*", "*"]), [gone]).evidence
    assert math.isnan(found.value)
    assert "its folder is gone" in found.reason
    assert "Not measurable together with 'gone'" in found.warnings[0]
    stranger = EarlierRelease("stranger", sf.Dataset(pl.DataFrame({"age": ["*"]})))
    with pytest.raises(MeasureError, match="Nothing says which records of stranger"):
        Composition().compose(data, show(data, age=["*", "*"]), [stranger])


# What must always hold ---------------------------------------------------------------------------

cells = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from("abc"), st.booleans()),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60)
@given(cells)
def test_composition_against_counting_by_hand(rows):
    data = original([20] * len(rows), [row[2] for row in rows])
    first = show(data, town=[f"t{row[0]}" for row in rows], ill=[row[2] for row in rows])
    present = [i for i, row in enumerate(rows) if row[3]] or [0]
    second = show(
        data, rows=present, town=[f"u{row[1]}" for row in rows], ill=[row[2] for row in rows]
    )
    # By hand: the persons whose cells are equal in both, or who are absent from both.
    signature = [(row[0], row[1] if i in present else None) for i, row in enumerate(rows)]
    sizes = Counter(signature)
    found = compose(data, first, second)
    assert found.value == min(sizes.values())
    assert found.details["composed_unique_records"] == sum(n for n in sizes.values() if n == 1)
    # Never more than any release by itself.
    alone = [
        min(Counter(row[0] for row in rows).values()),
        min(Counter(rows[i][1] for i in present).values()),
    ]
    assert found.value <= min(alone)
    # The values that are left, without any join.
    values = [
        min(
            len(
                {rows[j][2] for j in range(len(rows)) if rows[j][0] == rows[i][0]}
                & {rows[j][2] for j in present if rows[j][1] == rows[i][1]}
            )
            for i in present
        )
    ]
    assert found.details["l_by_intersection"] == values[0]


@settings(max_examples=40)
@given(cells)
def test_a_release_with_itself_is_itself(rows):
    data = original([row[0] for row in rows], [row[2] for row in rows])
    release = show(
        data, age=[f"[{row[0]};{row[0] + row[1]}]" for row in rows], ill=[row[2] for row in rows]
    )
    alone, twice = compose(data, release), compose(data, release, release, release)
    for number in ("composed_k", "composed_uniqueness", "composed_k_by_fitting", "noise_left"):
        assert alone.details[number] == twice.details[number], number
    assert alone.value == alone.baseline == sf.risk.Uniqueness().measure(release).details["k"]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8
    ),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=8, max_size=8),
)
def test_an_intersection_holds_what_both_cells_hold(rows, others):
    truth = [row[0] for row in rows]
    first = [f"[{x - low};{x + high}]" for x, low, high in rows]
    second = [f"[{x - low};{x + high}]" for x, (low, high) in zip(truth, others, strict=False)]
    column = Column(kind="integer", cells="generalised")
    merged = intersect_cells(
        pl.Series("age", first), pl.Series("age", second), column, pl.Series("age", truth)
    )
    assert merged.contradictions == 0

    def members(cell: str) -> set[int]:
        low, high = ([int(end) for end in cell.strip("[]").split(";")] * 2)[:2]
        return set(range(low, high + 1))

    for one, other, both in zip(first, second, merged.values, strict=True):
        assert members(both) == members(one) & members(other)


def test_sets_groups_and_wildcards_are_intersected():
    column = Column(
        kind="nominal", cells="generalised", hierarchy={"x": ("xy",), "y": ("xy",), "z": ("zz",)}
    )
    first = pl.Series("town", ["{x;z}", "xy", "*", "x", None, "x"])
    second = pl.Series("town", ["xy", "{x;y}", "z", "x", "y", "z"])
    merged = intersect_cells(first, second, column, pl.Series("town", ["x", "y", "z"]))
    assert merged.values.to_list() == ["x", "xy", "z", "x", "y", "x"]
    assert merged.contradictions == 1
    dates = Column(kind="date", cells="generalised")
    merged = intersect_cells(
        pl.Series("d", ["[2020-01-01;2020-12-31]", "{2020-01-01;2020-05-01}"]),
        pl.Series("d", ["2020-05", "[2020-02-01;2020-12-31]"]),
        dates,
        pl.Series("d", ["2020-05-02"]),
    )
    assert merged.values.to_list() == ["2020-05", "2020-05-01"]


# Noise -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variances", "left"), [((1.0, 1.0), 0.5), ((1.0, 4.0), 0.8)])
def test_independent_noise_is_weighed_by_its_precision(variances, left):
    draw = np.random.default_rng(3)
    truth = draw.normal(10, 3, 40_000)
    versions = [truth + draw.normal(0, math.sqrt(v), len(truth)) for v in variances]
    averaged = average_noise(truth, versions)
    assert averaged is not None
    assert averaged.remaining_share == pytest.approx(left, abs=0.02)
    assert np.var(averaged.values - truth) == pytest.approx(averaged.together, rel=0.02)


def test_noise_on_one_path_leaves_the_smallest_and_two_scales_leave_nothing():
    draw = np.random.default_rng(4)
    truth, small, more = draw.normal(size=(3, 5000))
    path = average_noise(truth, [truth + small, truth + small + more])
    assert path is not None
    assert path.remaining_share == 1
    assert np.array_equal(path.values, truth + small)
    scaled = average_noise(truth, [truth + small, truth + 2 * small])
    assert scaled is not None
    assert scaled.remaining_share < 1e-9
    assert average_noise(truth[:2], [truth[:2], truth[1:3]]) is None


def test_noise_is_averaged_by_person_whatever_the_order():
    draw = np.random.default_rng(5)
    ages = draw.integers(20, 80, 500).astype(float).tolist()
    data = original(ages)
    shown = [show(data, age=np.array(ages) + draw.normal(0, 3, 500)) for _ in range(2)]
    shuffled = shown[1].take(draw.permutation(500))
    found = compose(data, shown[0], shuffled)
    assert found.details["noise_left"] == compose(data, shown[0], shown[1]).details["noise_left"]
    assert 0.4 < found.details["noise_left"] < 0.6
    assert found.details["noise_variable"] == "age"
