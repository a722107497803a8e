"""Re-identification by fitting."""

from __future__ import annotations

import datetime as dt
import math
from itertools import combinations, product

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import LIBRARIES, drawn, generalised, in_library

import sfumato as sf
from sfumato.errors import MeasureError, SchemaError, TargetError
from sfumato.io import frames
from sfumato.parameters import ParameterError


def found(frame, missing="value", budget=10_000, **columns):
    data = generalised(pl.DataFrame(frame), sf.Schema(columns))
    return sf.risk.Reidentification(missing=missing, budget=budget).measure(data)


AGE = sf.Column(role="quasi", kind="integer", domain=(0, 85))
ZIP = sf.Column(role="quasi", kind="text")


def test_a_value_within_a_range_of_another_is_hidden_and_the_range_is_not():
    told = found({"age": ["26", "[24;28]"]}, age=AGE)
    assert told.records["unique"].to_list() == [False, True]
    assert told.value == 0.5
    assert told.details["k_by_fitting"] == 1


def test_a_range_is_hidden_when_each_of_its_values_is():
    told = found({"age": ["[24;28]", "24", "25", "[26;27]", "28"]}, age=AGE)
    assert told.records["unique"].to_list() == [False] * 5
    assert told.details["k_by_fitting"] == 2
    assert told.details["guess"] == 0.5


def test_a_mask_stands_for_a_hundred_codes():
    every = [str(code) for code in range(93700, 93800)]
    assert found({"zip": ["937**", *every]}, zip=ZIP).value == 0
    assert found({"zip": ["937**", *every[:-1]]}, zip=ZIP).details["reidentifiable_records"] == 1


def test_variables_are_read_jointly():
    cells = {"a": ["{x;y}", "x", "y"], "b": ["{x;y}", "x", "y"]}
    columns = dict.fromkeys("ab", sf.Column(role="quasi", kind="nominal"))
    assert found(cells, **columns).records["unique"].to_list() == [True, False, False]


def test_both_readings_of_missing_are_reported():
    cells = {"age": [30, None, 41]}
    told = found(cells, age=AGE)
    assert told.value == 1
    assert told.details["reidentification_if_missing_is_wildcard"] == 1 / 3
    told = found(cells, "wildcard", age=AGE)
    assert told.value == 1 / 3
    assert told.details["reidentification_if_missing_is_value"] == 1


def test_what_the_budget_leaves_open_counts_as_unique_and_is_reported():
    told = found({"age": ["26", "[24;28]"]}, budget=0, age=AGE)
    assert told.value == 1
    assert told.details["undecided_records"] == 1
    assert told.records["undecided"].to_list() == [True, False]
    assert "1 records could not be decided" in told.warnings[0]


def test_without_generalised_cells_it_is_uniqueness(cohort):
    known = ["sex", "region", "education"]
    told = sf.risk.Reidentification(known=known).measure(cohort)
    exact = sf.risk.Uniqueness(known=known).measure(cohort)
    assert told.value == exact.value
    assert told.details["k_by_fitting"] == exact.details["k"]
    assert told.details["guess"] == pytest.approx(exact.details["marketer"])


def test_coarsened_data_by_fitting(cohort):
    coarse = sf.methods.Coarsen(variables=["birth_date", "household_size"], intervals=4)
    known = ["sex", "birth_date", "household_size"]
    told = sf.risk.Reidentification(known=known).measure(cohort, coarse.apply(cohort))
    assert told.baseline is not None
    assert told.value < told.baseline
    assert told.audience == "public"


def test_nothing_known_is_an_error():
    with pytest.raises(MeasureError, match="known to outsiders"):
        found({"age": [1]}, age=sf.Column(role="other"))


def depth(rows):
    """By brute force: how many records fit each one in its worst case, itself among them."""
    return [
        min(
            sum(all(v in cell for v, cell in zip(point, other, strict=True)) for other in rows)
            for point in product(*row)
        )
        for row in rows
    ]


NUMBERS, LETTERS = range(5), "abc"
WHOLE = sf.Column(role="quasi", kind="integer", domain=(0, 4))
NAMED = sf.Column(role="quasi", kind="nominal", domain=tuple(LETTERS))
number_cells = st.one_of(
    st.sampled_from(NUMBERS).map(lambda v: (str(v), frozenset([v]))),
    st.tuples(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS)).map(
        lambda e: (f"[{min(e)};{max(e)}]", frozenset(range(min(e), max(e) + 1)))
    ),
    st.just(("*", frozenset(NUMBERS))),
    st.just((None, None)),
)
letter_cells = st.one_of(
    st.sampled_from(LETTERS).map(lambda v: (v, frozenset([v]))),
    st.sets(st.sampled_from(LETTERS), min_size=2).map(
        lambda s: ("{" + ";".join(sorted(s)) + "}", frozenset(s))
    ),
    st.just(("*", frozenset(LETTERS))),
    st.just((None, None)),
)
people = st.lists(st.tuples(number_cells, letter_cells, number_cells), min_size=1, max_size=9)
GROUPS = {"census": ["age"], "spatial": ["zip", "age"], "temporal": ["month"]}
NAMES = ("age", "zip", "month")
EVERY = (frozenset(NUMBERS), frozenset(LETTERS), frozenset(NUMBERS))


def read_as(records, missing):
    """The values each cell may stand for, under one meaning of missing."""
    own = frozenset(["missing"])
    return [
        tuple(
            (own if missing == "value" else every) if held is None else held
            for (_, held), every in zip(record, EVERY, strict=True)
        )
        for record in records
    ]


@given(people, st.sampled_from(["value", "wildcard"]))
@settings(max_examples=80)
def test_every_combination_of_groups_against_brute_force(records, missing):
    frame = pl.DataFrame(
        [[text for text, _ in record] for record in records],
        schema=dict.fromkeys(NAMES, pl.String),
        orient="row",
    )
    data = generalised(frame, sf.Schema({"age": WHOLE, "zip": NAMED, "month": WHOLE}))
    told = sf.risk.Reidentification(groups=GROUPS, missing=missing).measure(data)
    table = told.table.rows(named=True)
    chosen = [names for size in (1, 2, 3) for names in combinations(GROUPS, size)]
    assert [row["known"] for row in table] == [" + ".join(names) for names in chosen]
    other = "wildcard" if missing == "value" else "value"
    for row, names in zip(table, chosen, strict=True):
        at = sorted({NAMES.index(one) for name in names for one in GROUPS[name]})
        deep, others = (
            depth([[row[place] for place in at] for row in read_as(records, one)])
            for one in (missing, other)
        )
        assert row["reidentification"] == deep.count(1) / len(records)
        assert row[f"reidentification_if_missing_is_{other}"] == others.count(1) / len(records)
        assert row["k_by_fitting"] <= min(deep)
        assert (row["k_by_fitting"] == 1) == (min(deep) == 1)
        true = math.fsum(1 / one for one in deep) / len(deep)
        assert row["guess"] >= true - 1e-12
        if row["class_sizes"] == "exact":
            assert row["guess"] == pytest.approx(true)
            assert row["k_by_fitting"] == min(deep)
        assert row["undecided_records"] == 0
    deep = depth(read_as(records, missing))
    assert told.value == table[-1]["reidentification"] == deep.count(1) / len(records)
    sizes = told.records["class_size_at_least"].to_list()
    assert all(size <= most for size, most in zip(sizes, deep, strict=True))
    # Who knows more finds no fewer.
    by_label = {row["known"]: row["reidentification"] for row in table}
    for names in chosen:
        for fewer in combinations(names, len(names) - 1):
            if fewer:
                assert by_label[" + ".join(fewer)] <= by_label[" + ".join(names)]


def test_the_examples_of_the_paper():
    columns = {"age": AGE, "sex": sf.Column(role="quasi", kind="nominal")}
    told = found({"age": ["26", "[24;28]"], "sex": ["1", "1"]}, **columns)
    assert told.records["unique"].to_list() == [False, True]
    told = found({"age": ["26", "[24;28]"], "sex": ["1", "2"]}, **columns)
    assert told.value == 1
    # The wildcard covers the whole declared range of ages, from 0 to 85.
    told = found({"age": ["*", "[0;84]", "85"]}, age=AGE)
    assert told.records["unique"].to_list() == [False] * 3
    told = found({"age": ["*", "[0;84]"]}, age=AGE)
    assert told.records["unique"].to_list() == [True, False]
    whole = sf.Column(role="quasi", kind="integer")
    told = found({"zip": ["937**", "[93700;93799]", "93722", "94928"]}, zip=whole)
    assert told.records["unique"].to_list() == [False, False, False, True]
    assert told.records["class_size_at_least"].to_list() == [2, 2, 3, 1]


KEYS = {
    "string": pl.Series(["a", "a", "b", None]),
    "category": pl.Series(["a", "a", "b", None], dtype=pl.Categorical),
    "enum": pl.Series(["a", "a", "b", None], dtype=pl.Enum(["c", "b", "a"])),
    "bool": pl.Series([True, True, False, None]),
    "int": pl.Series([1, 1, 2, None]),
    "small": pl.Series([1, 1, 255, None], dtype=pl.UInt8),
    "float": pl.Series([0.5, 0.5, 2.25, None]),
    "date": pl.Series([dt.date(2020, 1, 1)] * 2 + [dt.date(1969, 5, 5), None]),
    "datetime": pl.Series([dt.date(2020, 1, 1)] * 2 + [dt.date(1969, 5, 5), None]).cast(
        pl.Datetime("us")
    )
    + dt.timedelta(hours=9),
    "bytes": pl.Series([b"a", b"a", b"\x00", None]),
}


@drawn("library", LIBRARIES)
@pytest.mark.parametrize("key", KEYS)
def test_keys_of_every_type_and_both_readings_of_missing(key, library):
    # A missing value is unique as a value; as a wildcard it hides the one who is alone.
    frame = in_library(pl.DataFrame({"key": KEYS[key], "x": ["u", "u", "u", "u"]}), library)
    data = generalised(frame, sf.Schema({"key": "quasi", "x": "quasi"}))
    told = sf.risk.Reidentification(groups={"a": ["key"], "b": ["x"]}).measure(data)
    table = frames.wrap(told.table).to_polars()
    assert table["reidentification"].to_list() == [0.5, 0, 0.5]
    wild = table["reidentification_if_missing_is_wildcard"].to_list()
    assert wild[1] == 0
    assert wild[0] == wild[2] == told.details["reidentification_if_missing_is_wildcard"]
    # The wildcard itself stays unique where it may stand for a value that nobody has.
    assert wild[0] in (0, 0.25)


def test_the_value_is_that_of_what_is_known_and_more_in_the_groups_is_told():
    columns = {"age": AGE, "zip": sf.Column(role="other", kind="nominal")}
    frame = {"age": [30, 30, 41, 41], "zip": ["a", "b", "c", "d"]}
    data = generalised(pl.DataFrame(frame), sf.Schema(columns))
    told = sf.risk.Reidentification(groups={"years": ["age"], "place": ["zip"]}).measure(data)
    assert told.value == 0
    assert told.details["known"] == ("age",)
    assert told.table["reidentification"].to_list() == [0, 1, 1]
    assert "not among those known: zip" in told.warnings[0]


def test_what_the_release_left_out_nobody_compares_with():
    frame = pl.DataFrame({"age": [30, 31, 41, 41], "zip": ["a", "b", "c", "d"]})
    data = generalised(frame, sf.Schema({"age": AGE, "zip": ZIP}))
    measure = sf.risk.Reidentification(groups={"years": ["age"], "place": ["zip"]})
    told = measure.measure(data, data.without(["zip"]))
    assert told.baseline == 1
    assert told.table.select("known", "variables", "reidentification").rows() == [
        ("years", "age", 0.5),
        ("place", "", 0.0),
        ("years + place", "age", 0.5),
    ]
    assert told.table["k_by_fitting"].to_list() == [1, 4, 1]


def test_groups_that_cannot_be():
    with pytest.raises(ParameterError, match="7 groups, .* 6 groups at most. Hint: join some"):
        sf.risk.Reidentification(groups={f"g{at}": ["age"] for at in range(7)})
    some: list[dict[str, list[str]]] = [{"": ["age"]}, {"a": []}, {"a": ["age", "age"]}, {}]
    some.append({"a + b": ["age"]})
    for wrong in some:
        with pytest.raises(ParameterError, match="group"):
            sf.risk.Reidentification(groups=wrong)
    data = generalised(pl.DataFrame({"age": [1, 2]}), sf.Schema({"age": AGE}))
    with pytest.raises(SchemaError, match="agee"):
        sf.risk.Reidentification(groups={"a": ["agee"]}).measure(data)


def test_six_groups_give_every_combination_and_survive_a_plan(cohort):
    names = ["sex", "region", "education", "household_size", "smoking", "birth_date"]
    measure = sf.risk.Reidentification(groups={f"knows {name}": [name] for name in names})
    told = measure.measure(cohort)
    assert len(told.table) == 63
    assert told.table["known"].n_unique() == 63
    assert told.details["class_sizes"] == "exact"
    exact = sf.risk.Uniqueness(known=names).measure(cohort)
    assert told.table["reidentification"][-1] == exact.value
    assert told.table["k_by_fitting"][-1] == exact.details["k"]
    plan = sf.Plan(evaluate={"fits": measure})
    assert sf.Plan.parse(plan.text(comments=True)) == plan


HALVES = {"low": range(2), "high": range(2, 5)}
nested_cells = st.one_of(
    st.sampled_from(NUMBERS).map(lambda v: (str(v), frozenset([v]))),
    st.sampled_from(sorted(HALVES)).map(
        lambda name: (f"[{HALVES[name][0]};{HALVES[name][-1]}]", frozenset(HALVES[name]))
    ),
    st.just(("*", frozenset(NUMBERS))),
)


@given(st.lists(st.tuples(nested_cells, nested_cells, nested_cells), min_size=1, max_size=25))
@settings(max_examples=100)
def test_among_nested_cells_the_size_of_a_record_of_single_values_is_exact(records):
    frame = pl.DataFrame(
        [[text for text, _ in record] for record in records],
        schema=dict.fromkeys(NAMES, pl.String),
        orient="row",
    )
    data = generalised(frame, sf.Schema(dict.fromkeys(NAMES, WHOLE)))
    told = sf.risk.Reidentification().measure(data)
    rows = [tuple(held for _, held in record) for record in records]
    deep, sizes = depth(rows), told.records["class_size_at_least"].to_list()
    around = [
        sum(all(a <= b for a, b in zip(row, one, strict=True)) for one in rows) for row in rows
    ]
    for row, size, most, least in zip(rows, sizes, deep, around, strict=True):
        single = all(len(cell) == 1 for cell in row)
        assert size == most if single or most == 1 else least <= size <= most
    assert told.details["guess"] >= math.fsum(1 / one for one in deep) / len(deep) - 1e-12


def test_when_looking_would_take_too_long_the_sizes_stay_bounds(monkeypatch):
    cells = {"age": ["26", "*", "*", "*", "70"]}
    told = found(cells, age=AGE)
    assert told.records["class_size_at_least"].to_list() == [4, 3, 3, 3, 4]
    assert told.details["class_sizes"] == "lower bounds"
    monkeypatch.setattr("sfumato.cells.fitting._LOOKS", 0)
    told = found(cells, age=AGE)
    assert told.records["class_size_at_least"].to_list() == [2, 3, 3, 3, 2]


def test_a_budget_is_a_number_that_can_be_counted_to():
    data = generalised(pl.DataFrame({"a": ["1", "[1;2]", "3"]}), sf.Schema({"a": "quasi"}))
    with pytest.raises(ParameterError, match="budget"):
        sf.risk.Reidentification(budget=2**70)
    assert sf.risk.Reidentification(budget=2**62).measure(data).details["undecided_records"] == 0


def test_a_record_that_only_wider_ones_hide_counts_in_a_target():
    """39 ranges hide the record 50 from one side; from the other it is one person's."""
    told = found({"age": ["[0;100]"] * 39 + ["50"]}, age=AGE)
    assert told.value == 0
    assert told.details["k_by_fitting_at_worst"] == 1
    assert told.details["reidentifiable_records_at_worst"] == 1
    assert told.details["reidentification_at_worst"] == 1 / 40
    assert told.details["guess_at_worst"] > told.details["guess"]
    data = generalised(pl.DataFrame({"age": ["[0;100]"] * 39 + ["50"]}), sf.Schema({"age": AGE}))
    plan = sf.Plan(schema=dict(data.schema), targets={"reidentification.max": 0.0})
    with pytest.raises(TargetError, match="reidentification at most 0: MISSED, it is 0.025"):
        sf.protect(data, plan, key=bytes(32))


@given(
    st.lists(st.tuples(nested_cells, nested_cells), min_size=1, max_size=20),
    st.randoms(use_true_random=False),
)
@settings(max_examples=100)
def test_nobody_is_found_from_either_side_who_is_not_counted(records, chance):
    """Whatever the true values are: a record that fits one person, a person that fits one."""
    frame = pl.DataFrame(
        [[text for text, _ in record] for record in records],
        schema=dict.fromkeys(NAMES[:2], pl.String),
        orient="row",
    )
    data = generalised(frame, sf.Schema(dict.fromkeys(NAMES[:2], WHOLE)))
    told = sf.risk.Reidentification().measure(data)
    rows = [tuple(held for _, held in record) for record in records]
    truth = [tuple(chance.choice(sorted(cell)) for cell in row) for row in rows]
    fits = [
        [all(value in cell for value, cell in zip(person, row, strict=True)) for person in truth]
        for row in rows
    ]
    alone = {index for index, persons in enumerate(fits) if sum(persons) == 1}
    alone |= {index for index in range(len(rows)) if sum(persons[index] for persons in fits) == 1}
    assert len(alone) <= told.details["reidentifiable_records_at_worst"]
