"""The loss of every variable against a slow reference that writes out all values of a cell."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import LIBRARIES, drawn, generalised, in_library

import sfumato as sf

AGE = sf.Column(role="quasi", kind="integer", domain=(0, 9))
GRADE = sf.Column(role="quasi", kind="ordinal", domain=("low", "mid", "high", "top"))
CODE = sf.Column(
    role="quasi",
    kind="nominal",
    domain=("11", "12", "21", "22"),
    hierarchy={"11": ("one",), "12": ("one",), "21": ("two",), "22": ("two",)},
)
SCHEMA = sf.Schema({"age": AGE, "grade": GRADE, "code": CODE})
GRADES = ["low", "mid", "high", "top"]
CODES = ["11", "12", "21", "22"]

# What each released cell stands for, written out by hand.
AGES: dict[Any, Any] = {
    **{str(age): {age} for age in range(10)},
    "[2;5]": {2, 3, 4, 5},
    "[0;9]": set(range(10)),
    "{1;7}": {1, 7},
    "*": None,
    None: None,
}
LEVELS: dict[Any, Any] = {
    **{level: {level} for level in GRADES},
    "[mid;top]": {"mid", "high", "top"},
    "{low;high}": {"low", "high"},
    "*": None,
    None: None,
}
GROUPS: dict[Any, Any] = {
    **{code: {code} for code in CODES},
    "1*": {"11", "12"},
    "two": {"21", "22"},
    "{11;22}": {"11", "22"},
    "*": None,
    None: None,
}


def measured(original, released, **settings):
    return sf.utility.InformationLoss(**settings).measure(original, released)


def one(values, cells, column, **settings):
    """The loss of a single variable."""
    schema = sf.Schema({"x": column})
    return measured(
        generalised(pl.DataFrame({"x": values}), schema),
        generalised(pl.DataFrame({"x": cells}), sf.Schema({"x": "quasi"})),
        **settings,
    )


def slow_loss(values, cells, told, domain, scale):
    """Distances of one variable; `scale` turns a value into a number, None where nominal."""
    known = [value for value in values if value is not None]
    if scale is None:
        shares = [known.count(value) / len(known) for value in domain]
        far = math.sqrt(2 / (1 - sum(share**2 for share in shares)))
    else:
        spread = float(np.std([scale(value) for value in known]))
    found = []
    for value, cell in zip(values, cells, strict=True):
        held = told[cell] if told[cell] is not None else set(domain)
        if value is None:
            found.append(0.0)
        elif scale is None:
            found.append(0.0 if told[cell] is not None and held == {value} else far)
        else:
            found.append(max(abs(scale(other) - scale(value)) for other in held) / spread)
    return found


def slow_granularity(values, cells, told, domain, width):
    shares = []
    for value, cell in zip(values, cells, strict=True):
        held = len(told[cell] if told[cell] is not None else domain)
        shares.append(0.0 if value is None else (held - 1) / width)
    return sum(shares) / len(shares)


def slow_entropy(values, cells, told):
    known = [value for value in values if value is not None]
    bits = most = 0.0
    for value, cell in zip(values, cells, strict=True):
        if value is None:
            continue
        held = told[cell]
        inside = known if held is None or value not in held else [v for v in known if v in held]
        bits -= math.log2(known.count(value) / len(inside))
        most -= math.log2(known.count(value) / len(known))
    return bits, most


@st.composite
def pairs(draw):
    size = draw(st.integers(4, 12))

    def some(values):
        return draw(st.lists(st.sampled_from(values), min_size=size, max_size=size))

    original = {
        "age": some([*range(10), None]),
        "grade": some([*GRADES, None]),
        "code": some([*CODES, None]),
    }
    for name, two in {"age": [0, 9], "grade": ["low", "top"], "code": ["11", "22"]}.items():
        original[name][:2] = two  # so that there is a spread
    released = {"age": some(list(AGES)), "grade": some(list(LEVELS)), "code": some(list(GROUPS))}
    return original, released


@settings(max_examples=80)
@given(pairs())
def test_agrees_with_writing_out_every_value(pair):
    original, released = pair
    parts = {
        "age": (AGES, range(10), float, 9),
        "grade": (LEVELS, GRADES, GRADES.index, 3),
        "code": (GROUPS, CODES, None, 3),
    }
    found = measured(
        generalised(pl.DataFrame(original, schema_overrides={"age": pl.Int64}), SCHEMA),
        generalised(pl.DataFrame(released, schema_overrides=dict.fromkeys(parts, pl.String))),
    )
    distances, bits, most, table = [], 0.0, 0.0, {}
    for name, (told, domain, scale, width) in parts.items():
        sides = original[name], released[name], told
        distances.append(slow_loss(*sides, domain, scale))
        table[name] = slow_granularity(*sides, domain, width)
        lost = slow_entropy(*sides)
        bits, most = bits + lost[0], most + lost[1]
    each = np.sqrt((np.array(distances) ** 2).sum(axis=0)) / 3
    assert found.records["information_loss"].to_numpy() == pytest.approx(each)
    assert found.value == pytest.approx(each.mean())
    rows = {row["variable"]: row for row in found.table.rows(named=True)}
    for at, name in enumerate(parts):
        assert rows[name]["granularity"] == pytest.approx(table[name])
        assert rows[name]["information_loss"] == pytest.approx(np.mean(distances[at]))
    assert found.details["granularity"] == pytest.approx(np.mean(list(table.values())))
    assert found.details["entropy_loss"] == pytest.approx(bits / most)
    classes = pl.DataFrame(released, schema_overrides={"age": pl.String})
    sizes = classes.group_by("age", "grade", "code").len()["len"]
    assert found.details["discernibility"] == int((sizes**2).sum())
    assert found.details["average_class_size"] == pytest.approx(len(each) / len(sizes))


@settings(max_examples=40)
@given(pairs())
def test_unchanged_data_lost_nothing_at_all(pair):
    data = generalised(pl.DataFrame(pair[0], schema_overrides={"age": pl.Int64}), SCHEMA)
    found = measured(data, data)
    assert found.value == 0.0
    assert found.details["granularity"] == found.details["entropy_loss"] == 0.0
    assert found.details["generalised_cells"] == 0.0


@settings(max_examples=40)
@given(pairs(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_change_a_bit(pair, random):
    original, released = (
        pl.DataFrame(side, schema_overrides={"age": dtype})
        for side, dtype in zip(pair, (pl.Int64, pl.String), strict=True)
    )
    order = list(range(original.height))
    random.shuffle(order)
    straight = measured(generalised(original, SCHEMA), generalised(released))
    shuffled = measured(generalised(original[order], SCHEMA), generalised(released[order]))
    assert straight.plain() == shuffled.plain()
    assert shuffled.records.equals(straight.records[order])


def test_the_far_end_of_the_range_counts():
    # Eq. 4: 21 is 1 from the low end and 8 from the high end; the spread of 1 and -1 is 1.
    found = one([21.0, 23.0], ["[20;29]", "23"], sf.Column(role="quasi", kind="continuous"))
    assert found.records["information_loss"].to_list() == [8.0, 0.0]
    assert found.value == 4.0


def test_it_is_over_the_number_of_variables():
    frame = pl.DataFrame({"a": [0, 2], "b": [0, 2]})
    schema = sf.Schema({"a": "quasi", "b": "quasi"})
    released = generalised(pl.DataFrame({"a": [3, 2], "b": [4, 2]}), schema)
    found = measured(generalised(frame, schema), released)
    assert found.records["information_loss"].to_list() == [5 / 2, 0.0]


def test_points_between_the_values_count_as_points():
    found = one([20, 40, 60], [30.0, 30.0, 60.0], sf.Column(role="quasi", kind="integer"))
    assert found.table["information_loss"][0] == pytest.approx(20 / 3 / np.std([20, 40, 60]))
    assert found.details["granularity"] == 0.0
    # A mean does not hold the value it replaced: it tells nothing in terms of entropy.
    assert found.details["entropy_loss"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(("domain", "far"), [((0, 100), 80), (None, 40)])
def test_wildcards_take_the_domain_or_the_extremes(domain, far):
    column = sf.Column(role="quasi", kind="integer", domain=domain)
    for cells in (["*", "40", "60"], [None, "40", "60"]):
        found = one([20, 40, 60], cells, column)
        assert found.records["information_loss"][0] == pytest.approx(far / np.std([20, 40, 60]))
        said = [text for text in found.assumptions if "No domain is declared" in text]
        assert bool(said) == (domain is None)
    assert not [text for text in one([1, 2], [1, 2], column).assumptions if "No domain" in text]


def test_a_dropped_variable_counts_as_suppressed():
    schema = sf.Schema({"age": AGE, "sex": "quasi"})
    original = generalised(pl.DataFrame({"age": [0, 9], "sex": [0, 1]}), schema)
    gone = sf.methods.Drop(variables=["age"]).apply(original)
    stars = generalised(pl.DataFrame({"age": ["*", "*"], "sex": [0, 1]}))
    dropped, starred = measured(original, gone), measured(original, stars)
    assert dropped.value == starred.value > 0
    assert dropped.details["granularity"] == 0.5
    assert any("'age'" in text for text in dropped.warnings)


def test_removed_records_count_as_suppressed():
    frame = pl.DataFrame({"age": [0, 3, 6, 9]})
    original = generalised(frame, sf.Schema({"age": AGE}))
    released = original.take(np.array([3, 1]))
    found = measured(original, released)
    assert found.details["removed_records"] == 2
    spread = np.std([0, 3, 6, 9])
    assert found.value == pytest.approx((9 + 6) / spread / 4)
    assert found.records["information_loss"].to_list() == [0, 0]  # a row per released record
    assert found.details["discernibility"] == 1 + 1 + 2 * 4
    assert found.details["discernibility_share"] == pytest.approx((10 - 4) / 12)
    assert found.details["granularity"] == 0.5
    assert "2 records were removed" in " ".join(found.warnings)


def test_removed_records_count_in_a_release_too(tmp_path):
    frame = pl.DataFrame({"sex": ["f"] * 6 + ["x"], "x": [1.0, 2, 3, 4, 5, 6, 7], "age": range(7)})
    schema = sf.Schema({"sex": "quasi", "x": "other", "age": "quasi"})
    steps = [
        sf.methods.Deterministic(variables=["x"], strata=["sex"], small="suppress"),
        sf.methods.KAnonymity(k=2),
    ]
    data = generalised(frame, schema)
    plan = sf.Plan(schema=schema, steps=steps, targets={"removed_records.max": 1})
    release = sf.protect(data, plan, key=bytes(32))
    release.write(tmp_path / "out")
    found = sf.evaluate(data, tmp_path / "out", ["information_loss"])["information_loss"]
    assert found.details["removed_records"] == 1
    assert found.value == release.evidence["information_loss"].value


def test_released_records_that_carry_an_identity_are_paired_by_it():
    original = generalised(pl.DataFrame({"age": [0, 3, 9]}), sf.Schema({"age": AGE}))
    assert measured(original, original.take(np.array([2, 0, 1]))).value == 0.0


def test_a_binary_variable_is_the_same_as_a_number_and_as_a_category():
    values, cells = [0, 0, 0, 1, 1, 0], ["0", "1", "*", "1", "0", "0"]
    by_number = one(values, cells, sf.Column(role="quasi", kind="integer"))
    by_level = one(values, cells, sf.Column(role="quasi", kind="nominal"))
    assert by_number.value == pytest.approx(by_level.value, rel=1e-14)
    assert by_number.details["granularity"] == by_level.details["granularity"]


def count_bits_as_arx(values, levels, suppressed):
    """ARX's non-uniform entropy of one recoding for all, with suppressed records, and its most.

    All records lose the step to the level; the suppressed ones, among themselves, the step to `*`.
    """
    before, after = Counter(values), Counter(levels)
    bits = sum(math.log2(after[b] / before[a]) for a, b in zip(values, levels, strict=True))
    gone = [level for level, lost in zip(levels, suppressed, strict=True) if lost]
    bits += sum(math.log2(len(gone) / Counter(gone)[level]) for level in gone)
    return bits / sum(math.log2(len(values) / before[value]) for value in values)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=3, max_size=30))
def test_the_entropy_is_that_of_arx_unless_records_were_removed(records):
    values = [0, 9, *(value for value, _ in records)]
    suppressed = [False, False, *(lost for _, lost in records)]
    levels = [f"[{value // 5 * 5};{value // 5 * 5 + 4}]" for value in values]
    age = sf.Column(role="quasi", kind="integer")
    arx = count_bits_as_arx(values, levels, [False] * len(values))
    assert one(values, levels, age).details["entropy_loss"] == pytest.approx(arx)
    cells = ["*" if lost else level for level, lost in zip(levels, suppressed, strict=True)]
    before, after = Counter(values), Counter(levels)
    bits = [
        math.log2((len(values) if lost else after[level]) / before[value])
        for value, level, lost in zip(values, levels, suppressed, strict=True)
    ]
    most = sum(math.log2(len(values) / before[value]) for value in values)
    ours = one(values, cells, age).details["entropy_loss"]
    assert ours == pytest.approx(sum(bits) / most)


def test_a_removed_record_has_lost_all_its_bits_and_not_in_arx():
    values, suppressed = [1, 1, 2, 2], [True, False, False, False]
    age = sf.Column(role="quasi", kind="integer")
    cells = ["*", "1", "2", "2"]
    assert one(values, cells, age).details["entropy_loss"] == 1 / 4
    assert count_bits_as_arx(values, values, suppressed) == 0.0


def test_everything_suppressed_is_all_that_can_be_lost():
    found = one(list("abca"), ["*"] * 4, sf.Column(role="quasi", kind="nominal"))
    assert found.details["granularity"] == found.details["discernibility_share"] == 1.0
    assert found.details["entropy_loss"] == 1.0
    assert found.details["average_class_size"] == 4.0


def test_decimals_are_the_numbers_they_say():
    decimals = pl.Series(["1.50", "2.25", "4.00"]).cast(pl.Decimal(5, 2))
    column = sf.Column(role="quasi", kind="continuous")
    assert one(decimals, ["1.5", "2.25", "4"], column).value == 0.0


def test_what_the_original_leaves_open_is_no_loss():
    column = sf.Column(role="quasi", kind="integer", domain=(0, 99))
    assert one(["10", "*", "[20;29]", "90"], ["10", "7", "[22;25]", "90"], column).value == 0.0
    wider = one(["10", "*", "[20;29]", "90"], ["10", "7", "[20;39]", "90"], column)
    assert wider.records["information_loss"][2] == pytest.approx(10 / np.std([10, 24.5, 90]))
    nominal = sf.Column(role="quasi", kind="nominal")
    assert one(["a", "b", "{a;b}"], ["a", "b", "a"], nominal).value == 0.0
    assert one(["a", "b", "{a;b}"], ["a", "b", "{a;c}"], nominal).value > 0.0


def test_means_of_numeric_levels_lie_between_their_ranks():
    column = sf.Column(role="quasi", kind="ordinal", domain=(1, 2, 4))
    found = one([1, 2, 4], [1.0, 3.0, 4.0], column)
    assert found.records["information_loss"][1] == pytest.approx(0.5 / np.std([0, 1, 2]))


def test_a_mask_says_less_than_the_only_code_that_it_hides():
    found = one(["93722", "90001"], ["937**", "90001"], sf.Column(role="quasi", kind="text"))
    assert found.value > 0
    assert found.details["generalised_cells"] == 0.5
    assert found.details["granularity"] == 0.0  # of the codes that occur, it leaves one open


@pytest.mark.parametrize(
    ("cell", "ends"),
    [
        ("2020", ("2020-01-01", "2020-12-31")),
        ("2020-Q4", ("2020-10-01", "2020-12-31")),
        ("2020-02", ("2020-02-01", "2020-02-29")),
    ],
)
def test_periods_are_their_days(cell, ends):
    days = [dt.date(2020, 2, 20), dt.date(2020, 10, 3), dt.date(2020, 12, 31)]
    column = sf.Column(role="quasi", kind="date")
    by_period = one(days, [cell, *map(str, days[1:])], column)
    by_range = one(days, [f"[{ends[0]};{ends[1]}]", *map(str, days[1:])], column)
    assert by_period.plain() == by_range.plain()
    assert by_period.value > 0


def test_masked_codes_and_their_levels():
    column = sf.Column(role="quasi", kind="text")
    found = one(["93722", "93711", "90001"], ["937**", "937**", "90001"], column)
    assert found.details["granularity"] == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert found.details["generalised_cells"] == pytest.approx(2 / 3)
    lost = 2 * math.log2(2)
    assert found.details["bits_lost"] == pytest.approx(lost)


DAY = dt.date(2020, 1, 1)


@pytest.mark.parametrize(
    "values",
    [
        ["a", "b", "b"],
        pl.Series(["a", "b", "b"], dtype=pl.Categorical),
        pl.Series(["a", "b", "b"], dtype=pl.Enum(["a", "b"])),
        [True, False, False],
        [1, 2, 2],
        [1.5, 2.5, 2.5],
        [DAY, DAY + dt.timedelta(3), DAY],
        pl.Series([36.0, 80.5, 36.0]).cast(pl.Int64).cast(pl.Datetime("ms")),
        [b"\x00\xff", b"b", b"b"],
        [dt.timedelta(hours=1), dt.timedelta(hours=7), dt.timedelta(hours=7)],
        [dt.time(1), dt.time(7), dt.time(7)],
        pl.Series(["1.50", "2.25", "2.25"]).cast(pl.Decimal(5, 2)),
    ],
    ids=str,
)
def test_any_type_of_variable(values):
    data = generalised(pl.DataFrame({"x": values}), sf.Schema({"x": "quasi"}))
    assert measured(data, data).value == 0.0
    swapped = generalised(data.frame[[1, 0, 2]], data.schema)
    assert measured(data, swapped).value > 0.0
    stars = generalised(pl.DataFrame({"x": ["*"] * 3}), sf.Schema({"x": "quasi"}))
    assert measured(data, stars).details["granularity"] == 1.0


@drawn("library", LIBRARIES)
def test_numbers_with_gaps_in_every_library(library):
    frame = pl.DataFrame({"x": [1, None, 3], "y": [1, 2, None]})
    schema = sf.Schema({"x": "quasi", "y": sf.Column(role="quasi", kind="nominal")})
    released = pl.DataFrame({"x": ["1", None, "[1;3]"], "y": ["1", "{1;2}", None]})
    found = measured(
        generalised(in_library(frame, library), schema),
        generalised(in_library(released, library)),
        variables=["x", "y"],
    )
    rows = [row["information_loss"] for row in found.plain()["table"]]
    assert rows == [pytest.approx(2 / 3), pytest.approx(2 / 3)]


def test_a_constant_that_was_generalised_has_no_spread_to_count_in():
    column = sf.Column(role="quasi", kind="integer", domain=(0, 9))
    assert one([5, 5], [5, 5], column).value == 0.0
    with pytest.raises(sf.SfumatoError, match="'x' has one value in the original"):
        one([5, 5], ["*", "5"], column)
    with pytest.raises(sf.SfumatoError, match="'x' has one value in the original"):
        one(["a", "a"], ["{a;b}", "a"], sf.Column(role="quasi", kind="nominal"))


def test_a_variable_without_a_value_is_named():
    frame = pl.DataFrame({"x": [None, None], "y": [1, 2]}, schema_overrides={"x": pl.Int64})
    data = generalised(frame, sf.Schema({"x": "quasi", "y": "quasi"}))
    found = measured(data, data)
    assert "'x'" in found.warnings[0]
    assert found.details["variables"] == ("y",)
    with pytest.raises(sf.SfumatoError, match="no value that could be lost in: 'x'"):
        measured(data, data, variables=["x"])


def test_what_cannot_be_read_is_told_without_a_value():
    for cells, column in (
        (["secret", "1"], sf.Column(role="quasi", kind="integer")),
        (["secret", "1"], sf.Column(role="quasi", kind="ordinal", domain=("1", "2"))),
        (["[9;1]", "1"], sf.Column(role="quasi", kind="integer")),
        (["[a;secret]", "1"], sf.Column(role="quasi", kind="nominal")),
        ([dt.date(2020, 1, 1)] * 2, sf.Column(role="quasi", kind="integer")),
    ):
        with pytest.raises(sf.SfumatoError, match="'x'") as error:
            one(["1", "2"], cells, column)
        assert "secret" not in str(error.value)


def test_records_that_nothing_pairs_are_refused():
    data = generalised(pl.DataFrame({"age": [1, 2]}), sf.Schema({"age": AGE}))
    with pytest.raises(sf.SfumatoError, match="compares record by record"):
        measured(data, generalised(pl.DataFrame({"age": [1]}), data.schema))
    with pytest.raises(sf.SfumatoError, match="role"):
        measured(data.with_schema({"age": "other"}), data)


def test_coarsening_and_clusters_of_the_cohort(cohort):
    coarse = sf.methods.Coarsen(variables=["birth_date", "height"], intervals=5).apply(cohort)
    finer = sf.methods.Coarsen(variables=["birth_date", "height"], intervals=50).apply(cohort)
    losses = [measured(cohort, one) for one in (coarse, finer)]
    assert losses[0].value > losses[1].value > 0
    assert losses[0].details["granularity"] > losses[1].details["granularity"] > 0
    assert losses[0].details["entropy_loss"] > losses[1].details["entropy_loss"] > 0
