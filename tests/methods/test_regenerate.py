"""Masked cells get values whose numbers are those asked for."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.conftest import LIBRARIES, drawn, generalised, in_library

import sfumato as sf
from sfumato.methods._regeneration.allocation import allocate, apportion

KEY = bytes(range(32))
RACE = sf.Column(role="quasi", kind="nominal")
AGE = sf.Column(role="quasi", kind="integer")


def filled(values, column, **parameters):
    data = generalised(pl.DataFrame({"x": values}), sf.Schema({"x": column}))
    return sf.methods.Regenerate(variables=["x"], **parameters).apply(data, key=KEY)


@settings(max_examples=30)
@given(st.lists(st.sampled_from(["1", "2", "3", "*", None]), min_size=1, max_size=40), st.data())
def test_the_marginal_is_exactly_the_one_asked_for(values, chosen):
    masked = [at for at, value in enumerate(values) if value in ("*", None)]
    drawn = chosen.draw(
        st.lists(st.sampled_from("123456"), min_size=len(masked), max_size=len(masked))
    )
    counts = {**Counter(drawn), "9": 0}
    after = filled(values, RACE, counts={"x": counts}).frame["x"].to_list()
    assert Counter(after[at] for at in masked) == Counter(drawn)
    assert all(after[at] == value for at, value in enumerate(values) if at not in masked)


CELLS = {
    "*": range(10), "[0;4]": range(5), "[3;7]": range(3, 8), "{1;8}": (1, 8), "[8;9]": (8, 9),
}  # fmt: skip


@settings(max_examples=40)
@given(st.lists(st.sampled_from([*CELLS, "5", "6"]), min_size=1, max_size=12), st.data())
def test_partly_masked_cells_take_only_what_fits_and_all_numbers_are_met(values, chosen):
    masked = [value for value in values if value in CELLS]
    # Numbers that can be met for sure: those of one way of filling the cells.
    truth = [chosen.draw(st.sampled_from(list(CELLS[cell]))) for cell in masked]
    after = filled(
        values, AGE, counts={"x": {str(v): n for v, n in Counter(truth).items()} or {"0": 0}}
    )
    assert after.frame["x"].dtype == pl.Int64
    found = list(zip(values, after.frame["x"].to_list(), strict=True))
    assert all(value in CELLS[cell] for cell, value in found if cell in CELLS)
    assert Counter(value for cell, value in found if cell in CELLS) == Counter(truth)
    assert all(int(cell) == value for cell, value in found if cell not in CELLS)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(0, 3))), min_size=1, max_size=4),
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
)
def test_as_many_cells_are_filled_as_any_way_of_filling_could(sorts, wanted):
    cells = np.array([size for size, _ in sorts])
    fits = [np.array(sorted(held), np.int64) for _, held in sorts]
    given_out, without = allocate(cells, fits, np.array(wanted))
    each = np.zeros(4, int)
    for held, counts in zip(fits, given_out, strict=True):
        assert (counts >= 0).all()
        each[held] += counts
    assert (each <= wanted).all()
    assert [int(one.sum()) for one in given_out] == (cells - without).tolist()
    # Hall: the least, over all choices of sorts, that cannot be filled.
    worst = 0
    for chosen in product([False, True], repeat=len(sorts)):
        open_to = {v for one, held in zip(chosen, fits, strict=True) if one for v in held.tolist()}
        asked = sum(int(size) for one, size in zip(chosen, cells, strict=True) if one)
        worst = max(worst, asked - sum(wanted[v] for v in open_to))
    assert int(without.sum()) == worst


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.integers(0, 100))
def test_proportions_are_off_by_less_than_one(weights, total):
    assume(sum(weights) > 0)
    shares = apportion(np.array(weights), total)
    assert int(shares.sum()) == total
    exact = np.array(weights) * total / sum(weights)
    assert (np.abs(shares - exact) < 1).all()
    assert (shares[np.array(weights) == 0] == 0).all()


def test_masked_codes_and_groups_take_only_codes_that_fit():
    code = sf.Column(
        role="quasi", kind="nominal", hierarchy={"11": ("one",), "12": ("one",), "21": ("two",)}
    )
    values = ["one", "2*", "*", "12", "{11;21}"]
    after = filled(values, code, counts={"x": {"11": 2, "21": 1, "12": 1}}).frame["x"]
    assert after.dtype == pl.String
    assert after[0] in ("11", "12")
    assert after[1] == "21"
    assert after[3] == "12"
    assert after[4] == "11"


def test_counts_must_add_up_unless_they_are_proportions():
    values = ["*"] * 6 + ["1"]
    with pytest.raises(sf.SfumatoError, match="'x' add up to 3, and 6 of its cells"):
        filled(values, RACE, counts={"x": {"1": 2, "2": 1}})
    after = filled(values, RACE, counts={"x": {"1": 2, "2": 1}}, scale=True)
    assert Counter(after.frame["x"][:6].to_list()) == {"1": 4, "2": 2}
    after = filled(values, RACE, counts={"x": {"1": 0.5, "2": 0.5}}, scale=True)
    assert Counter(after.frame["x"][:6].to_list()) == {"1": 3, "2": 3}
    with pytest.raises(sf.SfumatoError, match="all 0"):
        filled(values, RACE, counts={"x": {"1": 0}}, scale=True)


def test_counts_that_no_filling_meets():
    values = ["[0;4]", "[0;4]", "*", "7"]
    with pytest.raises(sf.SfumatoError, match="'x' cannot be met: 1 masked cells"):
        filled(values, AGE, counts={"x": {"3": 1, "9": 2}})
    after = filled(values, AGE, counts={"x": {"3": 1, "9": 2}}, exact=False)
    assert after.frame["x"].to_list() == [3, 3, 9, 7]
    with pytest.raises(sf.SfumatoError, match="'x' has masked cells that fit none"):
        filled(values, AGE, counts={"x": {"8": 1, "9": 2}}, exact=False)


def test_the_observed_distribution():
    values = ["a"] * 6 + ["b"] * 3 + ["*"] * 6
    after = filled(values, RACE, marginal="observed").frame["x"]
    assert Counter(after[9:].to_list()) == {"a": 4, "b": 2}
    with pytest.raises(sf.SfumatoError, match="no unmasked value"):
        filled(["*", "*"], RACE, marginal="observed")


def test_the_parameters_must_go_together():
    for wrong, match in (
        ({"counts": {"x": {"1": 0.5}}}, "whole numbers"),
        ({"counts": {"x": {"1": -1}}}, "counts"),
        ({"counts": {"x": {"1": 1}}, "masked": ["stars"]}, "missing, wildcard, partial"),
    ):
        with pytest.raises(sf.SfumatoError, match=match):
            sf.methods.Regenerate(variables=["x"], **wrong)
    with pytest.raises(sf.SfumatoError, match="No counts are given for: x"):
        filled(["1", "*"], RACE)
    with pytest.raises(sf.SfumatoError, match="not filled: y"):
        filled(["1", "*"], RACE, counts={"x": {"1": 1}, "y": {"1": 1}})


def test_ranges_of_levels_follow_the_declared_order():
    grade = sf.Column(role="quasi", kind="ordinal", domain=("low", "mid", "high", "top"))
    values = ["[mid;top]", "[low;mid]", "*"]
    after = filled(values, grade, counts={"x": {"low": 2, "high": 1}}).frame["x"].to_list()
    assert after == ["high", "low", "low"]


def test_only_what_is_named_counts_as_masked():
    values = ["*", None, "[1;3]", "5"]
    kept = filled(values, AGE, counts={"x": {"2": 1}}, masked=["wildcard"]).frame["x"]
    assert kept.to_list() == ["2", None, "[1;3]", "5"]
    kept = filled(values, AGE, counts={"x": {"2": 2}}, masked=["wildcard", "partial"]).frame["x"]
    assert kept.to_list() == [2, None, 2, 5]


def test_codes_for_missing_are_filled_too():
    column = sf.Column(role="quasi", kind="integer", missing=(-9,))
    after = filled([1, -9, None, 3], column, counts={"x": {"2": 2}})
    assert after.frame["x"].to_list() == [1, 2, 2, 3]
    assert after.column("x").null_count() == 0
    left = filled([1, -9, 3], column, counts={"x": {"2": 0}}, masked=["wildcard"])
    assert left.frame["x"].to_list() == [1, -9, 3]
    assert left.schema["x"].missing == (-9,)


DAY = dt.date(2020, 1, 1)


@pytest.mark.parametrize(
    ("values", "text", "value"),
    [
        ([1, None, 3], "2", 2),
        ([1.5, None, 3.0], "2.5", 2.5),
        ([True, None, False], "true", True),
        ([DAY, None, DAY], "2021-02-03", dt.date(2021, 2, 3)),
        (["a", None, "b"], "c", "c"),
        ([b"a", None, b"b"], "c", b"c"),
        (pl.Series(["a", None, "b"], dtype=pl.Categorical), "b", "b"),
        (pl.Series([1, None, 3], dtype=pl.UInt8), "2", 2),
    ],
    ids=str,
)
def test_values_take_the_type_of_the_variable(values, text, value):
    before = pl.DataFrame({"x": values})["x"]
    after = filled(values, sf.Column(role="quasi"), counts={"x": {text: 1}}).frame["x"]
    assert after[1] == value
    if before.dtype != pl.Categorical:
        assert after.dtype == before.dtype


@pytest.mark.parametrize("text", ["2.5", "secret", "999", "-1"])
def test_a_value_of_another_type_is_refused_without_saying_it(text):
    values = pl.Series([1, None, 3], dtype=pl.UInt8)
    with pytest.raises(sf.SfumatoError, match="'x' name a value that it cannot take") as error:
        filled(values, AGE, counts={"x": {text: 1}})
    assert text not in str(error.value)


def test_text_that_stands_for_numbers_takes_numbers_only():
    with pytest.raises(sf.SfumatoError, match="'x' name a value that it cannot take"):
        filled(["26", "*"], AGE, counts={"x": {"many": 1}})


def test_ranges_of_dates_and_of_coarsened_numbers_become_what_they_were():
    dates = filled(
        ["2020-01-05", "[2020-01-01;2020-01-31]"],
        sf.Column(role="quasi", kind="date"),
        counts={"x": {"2020-01-07": 1}},
    )
    assert dates.frame["x"].to_list() == [dt.date(2020, 1, 5), dt.date(2020, 1, 7)]
    data = generalised(
        pl.DataFrame({"x": [3, 14]}),
        sf.Schema({"x": sf.Column(role="quasi", kind="integer", domain=(0, 19))}),
    )
    coarse = sf.methods.Coarsen(variables=["x"], intervals=2).apply(data)
    fine = sf.methods.Regenerate(variables=["x"], counts={"x": {"1": 1, "18": 1}}).apply(coarse)
    assert fine.frame["x"].to_list() == [1, 18]
    assert fine.schema["x"].kind == "integer"


@drawn("library", LIBRARIES)
def test_integers_masked_with_stars_become_integers(library):
    frame = in_library(pl.DataFrame({"x": ["26", "*", "[20;29]"]}), library)
    data = generalised(frame, sf.Schema({"x": AGE}))
    made = sf.methods.Regenerate(variables=["x"], counts={"x": {"21": 1, "70": 1}})
    after = made.apply(data, key=KEY)
    assert after.column("x").to_list() == [26, 70, 21]
    assert after.column("x").dtype.is_integer()


def test_which_record_gets_which_value_follows_the_record_and_the_key():
    frame = pl.DataFrame({"id": list(range(200)), "x": ["*"] * 200})
    data = generalised(frame, sf.Schema({"id": "direct", "x": RACE}))
    made = sf.methods.Regenerate(variables=["x"], counts={"x": {"a": 100, "b": 100}})
    straight = made.apply(data, key=KEY).frame
    order = np.random.default_rng(0).permutation(200)
    assert made.apply(data.take(order), key=KEY).frame.equals(straight[order])
    assert not made.apply(data, key=bytes(32)).frame.equals(straight)
    # Random means random: neither half of the file is favoured (5 standard deviations).
    assert abs(straight["x"][:100].to_list().count("a") - 50) < 25


def test_survives_the_plan_file_with_its_counts():
    step = sf.methods.Regenerate(variables=["x"], counts={"x": {"1": 5, "02": 3, "a b": 1}})
    assert sf.Plan.parse(sf.Plan(steps=[step]).text()).steps[0] == step


def test_nothing_masked_is_nothing_done():
    after = filled(["1", "2"], RACE, counts={"x": {"1": 0}})
    assert after.frame["x"].to_list() == ["1", "2"]
    assert filled(["1", "2"], RACE, marginal="observed").frame["x"].to_list() == ["1", "2"]
    with pytest.raises(sf.SfumatoError, match="add up to 1, and 0 of its cells"):
        filled(["1", "2"], RACE, counts={"x": {"1": 1}})


def test_what_was_masked_at_random_comes_back_in_number_and_nearly_in_correlation():
    random = np.random.default_rng(5)
    age = random.integers(20, 80, 3000)
    frame = pl.DataFrame(
        {"id": np.arange(3000), "age": age, "stay": age // 10 + random.integers(0, 3, 3000)}
    )
    gone = pl.Series(random.random(3000) < 0.2)
    masked = frame.with_columns(frame["age"].cast(pl.String).set(gone, "*"))
    numbers = sf.Column(role="quasi", kind="integer")
    schema = sf.Schema({"id": "direct", "age": numbers, "stay": numbers})
    data = generalised(masked, schema)
    counts = Counter(frame["age"].filter(gone).cast(pl.String).to_list())
    after = sf.methods.Regenerate(variables=["age"], counts={"age": counts}).apply(data, key=KEY)
    assert Counter(after.frame["age"].to_list()) == Counter(age.tolist())
    found = sf.utility.Correlations().measure(data, after).table.row(0, named=True)
    # A fifth of the values no longer goes with the stay.
    assert found["released"] == pytest.approx(0.8 * found["original"], abs=0.05)


def test_counts_may_be_given_by_number_or_date():
    made = sf.methods.Regenerate(variables=["x"], counts={"x": {25: 10, DAY: 1, 2.0: 3, "a": 1}})
    assert made.counts == {"x": {"25": 10, "2020-01-01": 1, "2": 3, "a": 1}}
    after = filled(["*", "7"], AGE, counts={"x": {25: 1}})
    assert after.frame["x"].to_list() == [25, 7]
    with pytest.raises(sf.SfumatoError, match="name a value twice"):
        sf.methods.Regenerate(variables=["x"], counts={"x": {25: 10, "25": 1}})
    with pytest.raises(sf.SfumatoError, match="counts"):
        sf.methods.Regenerate(variables=["x"], counts=[25])


def test_partial_cells_take_what_is_seen_and_fits():
    values = ["1"] * 60 + ["2"] * 20 + ["8"] * 20 + ["[0;4]"] * 400
    after = filled(values, AGE, marginal="observed").frame["x"][100:]
    counts = Counter(after.to_list())
    assert set(counts) == {1, 2}
    assert abs(counts[1] - 300) < 5 * (400 * 3 / 16) ** 0.5  # three in four


@pytest.mark.parametrize(
    ("column", "cell", "inside"),
    [
        (AGE, "[3;6]", [3, 4, 5, 6]),
        (AGE, "{3;7}", [3, 7]),
        (AGE, "1*", list(range(10, 20))),
        (sf.Column(role="quasi", kind="integer", domain=(0, 4)), "[3;6]", [3, 4]),
        (sf.Column(role="quasi", kind="integer", domain=(0, 1)), "[3;4]", [3, 4]),
        (sf.Column(role="quasi", kind="continuous"), "[1.5;2]", [1.5, 1.6, 1.7, 1.8, 1.9, 2.0]),
        (sf.Column(role="quasi", kind="date"), "[2020-02-28;2020-03-01]",
         [dt.date(2020, 2, 28), dt.date(2020, 2, 29), dt.date(2020, 3, 1)]),
        (sf.Column(role="quasi", kind="nominal"), "{b;c}", ["b", "c"]),
        (sf.Column(role="quasi", kind="text"), "93*", [f"93{digit}" for digit in range(10)]),
        (sf.Column(role="quasi", kind="ordinal", domain=("low", "mid", "top")), "[mid;top]",
         ["mid", "top"]),
        (sf.Column(role="quasi", kind="nominal", hierarchy={"b": ("g",), "c": ("g",)}), "g",
         ["b", "c"]),
        (sf.Column(role="quasi", kind="integer", domain=(0, 3)), "*", [0, 1, 2, 3]),
        (sf.Column(role="quasi", kind="nominal", domain=("b", "c")), "*", ["b", "c"]),
    ],
    ids=str,
)  # fmt: skip
def test_where_nothing_seen_fits_all_in_the_cell_is_as_likely(column, cell, inside):
    after = filled([cell] * 400, column, marginal="observed").frame["x"]
    counts = Counter(after.to_list())
    assert sorted(counts) == inside
    share = 1 / len(inside)
    far = 5 * (400 * share * (1 - share)) ** 0.5
    assert all(abs(count - 400 * share) < far for count in counts.values())


def test_wildcards_follow_the_cells_that_say_something_where_no_value_is_plain():
    code = sf.Column(role="quasi", kind="text")
    after = filled(["93*"] * 20 + ["*"] * 5, code, marginal="observed").frame["x"]
    assert all(one.startswith("93") and len(one) == 3 for one in after)


def test_a_cell_that_nothing_tells_of_says_what_helps():
    code = sf.Column(role="quasi", kind="text")
    with pytest.raises(sf.SfumatoError, match=r'masked = \["missing", "wildcard"\]') as error:
        filled(["abc*", "xyz"], code, marginal="observed")
    assert "abc" not in str(error.value)
    with pytest.raises(sf.SfumatoError, match=r'masked = \["missing", "wildcard"\]'):
        filled(["[0;4]"] * 2, AGE, counts={"x": {"3": 1, "9": 1}})


def test_what_k_anonymity_releases_can_be_filled(cohort):
    names = list(cohort.schema.having("quasi"))
    ranges = sf.methods.KAnonymity(k=3).apply(sf.methods.Drop().apply(cohort), key=KEY)
    made = sf.methods.Regenerate(variables=names, marginal="observed")
    after = made.apply(ranges, key=KEY)
    for name in names:
        cells = after.column(name).cast(pl.String)
        assert not cells.str.contains(r"[\[{;*]").any(), name
        assert cells.null_count() == 0, name
    # Every value fits its cell: nothing is lost from the ranges to the values.
    known = sf.utility.InformationLoss(variables=["birth_date", "height", "children"])
    assert known.measure(ranges, after).value == 0.0
    order = np.random.default_rng(1).permutation(len(cohort))
    shuffled = made.apply(ranges.take(order), key=KEY)
    for name in names:
        assert shuffled.column(name).to_list() == after.column(name).gather(order).to_list()
