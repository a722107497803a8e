"""Cells that were changed, names that are new in the release, and periods in ranges and sets."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import LIBRARIES, drawn, generalised, in_library

import sfumato as sf

NOMINAL = sf.Column(role="quasi", kind="nominal")
GRADE = sf.Column(role="quasi", kind="ordinal", domain=("low", "mid", "high", "top"))
GROUPED = sf.Column(role="quasi", kind="ordinal", domain=("least", "high", "top"))


def loss(values, cells, column, after=None):
    return sf.utility.InformationLoss().measure(
        generalised(pl.DataFrame({"x": values}), sf.Schema({"x": column})),
        generalised(pl.DataFrame({"x": cells}), sf.Schema({"x": after or "quasi"})),
    )


def row(found):
    return found.table.row(0, named=True)


def test_other_stands_for_the_levels_that_became_it():
    values = ["a"] * 5 + ["b", "c", "d", "e"]
    cells = ["a"] * 5 + ["b", "other", "other", "other"]
    found = row(loss(values, cells, NOMINAL))
    assert found["generalised"] == pytest.approx(3 / 9)
    assert found["granularity"] == pytest.approx(3 * (3 - 1) / (5 - 1) / 9)
    as_set = row(loss(values, [*cells[:6], *["{c;d;e}"] * 3], NOMINAL))
    assert found == as_set


def test_the_bits_of_other_are_those_of_the_set():
    values = ["a", "a", "b", "c"]
    named, listed = (loss(values, ["a", "a", one, one], NOMINAL) for one in ("other", "{b;c}"))
    assert named.details["bits_lost"] == listed.details["bits_lost"] == 2.0


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("aXYZ")), min_size=3), st.data()
)
def test_new_names_against_a_slow_count(pairs, data):
    values = ["a", "b", *(value for value, _ in pairs)]
    cells = ["a", "b", *(value if name == "a" else name for value, name in pairs)]
    levels = set(values)
    slow = changed = 0.0
    for value, cell in zip(values, cells, strict=True):
        stands = {v for v, c in zip(values, cells, strict=True) if c == cell}
        slow += 0 if cell in levels else (len(stands) - 1) / (len(levels) - 1)
        changed += cell != value
    found = row(loss(values, cells, NOMINAL))
    assert found["granularity"] == pytest.approx(slow / len(values))
    assert found["generalised"] == pytest.approx(changed / len(values))
    order = data.draw(st.permutations(range(len(values))))
    again = loss([values[at] for at in order], [cells[at] for at in order], NOMINAL)
    assert row(again) == found


def test_a_name_that_one_level_became_says_nothing_more_than_that_it_changed():
    found = loss(["a", "b", "b"], ["x", "b", "b"], NOMINAL)
    assert row(found)["granularity"] == 0.0
    assert row(found)["generalised"] == pytest.approx(1 / 3)
    assert row(found)["information_loss"] > 0
    assert found.details["entropy_loss"] > 0


def test_sets_with_a_new_name():
    values = ["a", "b", "c", "d"]
    cells = ["a", "{b;other}", "{b;other}", "d"]
    assert row(loss(values, cells, NOMINAL))["granularity"] == pytest.approx(2 / 3 / 4)


def test_removed_records_do_not_count_for_a_name():
    data = generalised(pl.DataFrame({"x": list("aabbcd")}), sf.Schema({"x": NOMINAL}))
    renamed = sf.methods.Recode(variables=["x"], fewest=2).apply(data)
    assert renamed.frame["x"].to_list() == ["a", "a", "b", "b", "other", "other"]
    found = sf.utility.InformationLoss().measure(data, renamed.take(np.array([5, 4, 2, 0])))
    whole = [2 * 1.0, 2 * 1 / 3]  # two removed, and two that may be either of two
    assert row(found)["granularity"] == pytest.approx(sum(whole) / 6)


@drawn("library", LIBRARIES)
def test_rare_countries_of_adult(shared_data, library):
    frame = pl.read_csv(shared_data / "adult.csv").select("native_country", "age")
    schema = sf.Schema({"native_country": NOMINAL, "age": sf.Column(role="quasi", kind="integer")})
    data = generalised(in_library(frame, library), schema)
    rare = sf.methods.Recode(variables=["native_country"], fewest=200).apply(data)
    changed = (rare.column("native_country") != data.column("native_country")).sum()
    found = {one["variable"]: one for one in _rows(sf.utility.InformationLoss(), data, rare)}
    assert found["native_country"]["generalised"] == pytest.approx(changed / len(data))
    assert found["native_country"]["granularity"] > 0.9 * changed / len(data)
    assert found["age"]["generalised"] == 0.0


def _rows(measure, data, released):
    return measure.measure(data, released).plain()["table"]


@pytest.mark.parametrize("output", ["mean", "median"])
def test_means_of_clusters_are_changed_cells(output):
    frame = pl.DataFrame({"age": [20, 22, 24, 40, 41, 42], "stay": [1, 2, 3, 1, 2, 3]})
    numbers = sf.Column(role="quasi", kind="integer")
    data = generalised(frame, sf.Schema({"age": numbers, "stay": numbers}))
    made = sf.methods.KAnonymity(k=3, output=output).apply(data, key=bytes(32))
    found = {one["variable"]: one for one in _rows(sf.utility.InformationLoss(), data, made)}
    for name in ("age", "stay"):
        share = (made.column(name) != data.column(name)).mean()
        assert found[name]["generalised"] == pytest.approx(share)
    assert found["age"]["generalised"] > 0


@pytest.mark.parametrize(
    ("values", "cells", "share"),
    [
        (["1", "5", "9"], ["1", "{1;5}", "[1;9]"], 2 / 3),
        (["{1;9}", "[1;9]", "5"], ["{1;9}", "{1;9}", "5"], 1 / 3),
        (["{1;9}", "{1;5;9}", "5"], ["{1;9}", "{1;9}", "{5}"], 1 / 3),
        (["1", None, "*"], ["1", "7", "7"], 0.0),  # what was open is no loss
        (["1", "9", "9"], [None, "9", "*"], 2 / 3),
    ],
)
def test_which_numbers_are_no_longer_what_they_were(values, cells, share):
    column = sf.Column(role="quasi", kind="integer", domain=(0, 9))
    assert row(loss(values, cells, column))["generalised"] == pytest.approx(share)


@pytest.mark.parametrize(
    ("values", "cells", "share"),
    [
        (["a", "b", "c"], ["a", "c", "{a;b}"], 2 / 3),
        (["{a;b}", "{a;b}", "a", "b"], ["{b;a}", "a", "a", "b"], 1 / 4),
        (["a", None, "*", "b"], ["a", "b", "b", "*"], 1 / 4),
    ],
)
def test_which_levels_are_no_longer_what_they_were(values, cells, share):
    assert row(loss(values, cells, NOMINAL))["generalised"] == pytest.approx(share)


def test_grouped_levels_keep_their_ranks():
    values = ["low", "mid", "high", "top"]
    named = loss(values, ["least", "least", "high", "top"], GRADE, GROUPED)
    listed = loss(values, ["[low;mid]", "[low;mid]", "high", "top"], GRADE)
    assert row(named) == row(listed)
    wide = loss(values, ["[least;high]"] * 3 + ["top"], GRADE, GROUPED)
    assert row(wide) == row(loss(values, ["[low;high]"] * 3 + ["top"], GRADE))


def test_an_ordered_name_that_nobody_declared_is_refused():
    with pytest.raises(sf.SfumatoError, match="'x' is ordinal") as error:
        loss(["low", "mid", "top"], ["secret", "secret", "top"], GRADE)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("cell", "same"),
    [
        ("[2019;2020]", "[2019-01-01;2020-12-31]"),
        ("[2019-Q4;2020-Q1]", "[2019-10-01;2020-03-31]"),
        ("[2019-12;2020-02]", "[2019-12-01;2020-02-29]"),
        ("[2019;2020-02-20]", "[2019-01-01;2020-02-20]"),
        ("{2020-02;2020-03}", "{" + ";".join(f"2020-02-{d:02}" for d in range(1, 30))
         + ";" + ";".join(f"2020-03-{d:02}" for d in range(1, 32)) + "}"),
    ],
)  # fmt: skip
def test_ranges_and_sets_of_periods_are_their_days(cell, same):
    days = [dt.date(2020, 2, 20), dt.date(2019, 10, 3), dt.date(2021, 12, 31)]
    column = sf.Column(role="quasi", kind="date")
    by_period, by_day = (loss(days, [one, *map(str, days[1:])], column) for one in (cell, same))
    assert by_period.plain() == by_day.plain()
    assert by_period.value > 0


@pytest.mark.parametrize("period", ["year", "quarter", "month"])
@pytest.mark.parametrize("then", [[], [sf.methods.KAnonymity(k=3)]], ids=["alone", "and k"])
def test_a_plan_that_writes_periods_as_labels(cohort, period, then):
    recode = sf.methods.Recode(variables=["birth_date"], period=period, output="label")
    measures = {
        "loss": sf.utility.InformationLoss(variables=["birth_date"]),
        "risk": sf.risk.Reidentification(known=["birth_date"]),
    }
    steps = [sf.methods.Drop(), recode, *then]
    plan = sf.Plan(schema=cohort.schema, steps=steps, evaluate=measures)
    found = sf.protect(cohort, plan, key=bytes(32)).evidence
    assert found["loss"].value > 0, found["loss"].reason
    assert found["loss"].details["generalised_cells"] == 1.0
    assert not np.isnan(found["risk"].value)
