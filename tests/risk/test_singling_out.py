"""Statements that isolate one person: on data as they are, shuffled, generalised, and odd."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MeasureError, SchemaError
from sfumato.risk.attacks.attacker_view import view_release
from sfumato.risk.attacks.statements import isolation_chance, try_conjunctions, try_extremes

KNOWN = ["sex", "region", "education", "children", "height"]


def shuffled(data: sf.Dataset, names: list[str], seed: int = 1) -> sf.Dataset:
    rng = np.random.default_rng(seed)
    new = [data.frame[name].gather(rng.permutation(len(data))) for name in names]
    return sf.Dataset(data.frame.with_columns(new), data.schema)


@pytest.fixture(scope="module")
def people() -> sf.Dataset:
    return sf.Dataset(sf.datasets.cohort(600), sf.datasets.cohort_schema())


def test_data_as_they_are_are_singled_out_nearly_always(people):
    found = sf.risk.SinglingOut().measure(people, people)
    assert found.value > 0.99
    assert found.baseline < 0.5
    assert found.details["singling_out_excess"] > 0.98
    assert found.warnings
    low, high = found.interval
    assert low <= found.value <= high


def test_shuffled_columns_are_at_the_baseline(people):
    found = sf.risk.SinglingOut(known=KNOWN).measure(people, shuffled(people, KNOWN))
    assert abs(found.value - found.baseline) < 3 * math.sqrt(0.25 * 2 / 600)
    assert found.details["singling_out_excess"] < 0.1
    assert not found.warnings


def rates(found, words):
    """The rates of one family of statements, by variable."""
    rows = found.table.filter(pl.col("statement") == words)
    return dict(zip(rows["of"], rows["singling_out"], strict=True))


def test_k_anonymity_leaves_nothing_beyond_chance(people):
    method = sf.methods.KAnonymity(variables=KNOWN, k=5, clustering="mondrian", output="range")
    found = sf.risk.SinglingOut(known=KNOWN).measure(people, method.apply(people))
    # A class of five holds for five at least, and for nobody alone.
    assert rates(found, "the values as they stand") == {"": 0.0}
    assert rates(found, "this much or more, or less") == {"": 0.0}
    assert rates(found, "all cells, whoever shares them") == {"": 0.0}
    assert rates(found, "one cell, whoever shares it") == dict.fromkeys(KNOWN, 0.0)
    # Naming a value beside a class isolates somebody now and then, whichever value it is.
    assert found.details["singling_out_excess"] < 0.15
    assert not found.warnings


def test_ends_that_are_peoples_values_are_found(people):
    known = ["sex", "birth_date", "region", "education"]
    method = sf.methods.KAnonymity(variables=known, ends="observed")
    found = sf.risk.SinglingOut(known=known).measure(people, method.apply(people))
    assert found.details["best_way"] == "a class, and an end of its range: birth_date"
    assert found.value > 0.9
    assert found.baseline < 0.3
    assert any("an end of its range" in line for line in found.warnings)


def test_cells_that_several_released_records_share_are_tried():
    """Five released records have each weight; only one person has it."""
    weights = [1.0 + row / 100 for row in range(100)]
    frame = pl.DataFrame({"weight": weights, "sex": ["f", "m"] * 50})
    schema = sf.Schema({"weight": "quasi", "sex": "quasi"})
    averaged = frame.with_columns(
        pl.Series("weight", [weights[row // 5 * 5 + 2] for row in range(100)])
    )
    found = sf.risk.SinglingOut().measure(sf.Dataset(frame, schema), sf.Dataset(averaged, schema))
    assert rates(found, "one cell, whoever shares it")["weight"] == 1.0
    assert found.value == 1.0
    assert found.details["best_way"].endswith("whoever shares it: weight")
    assert found.details["singled_out_records"] >= 20


def test_sets_name_their_members():
    frame = pl.DataFrame({"town": ["a", "a", "a", "a", "b"] * 8, "part": list(range(8)) * 5})
    frame = frame.sort("part")
    schema = sf.Schema(
        {
            "town": sf.Column(role="quasi", kind="nominal"),
            "part": sf.Column(role="quasi", kind="nominal"),
        }
    )
    released = sf.methods.KAnonymity(k=5, strata=["part"], variables=["town"]).apply(
        sf.Dataset(frame, schema)
    )
    found = sf.risk.SinglingOut(known=["town", "part"]).measure(sf.Dataset(frame, schema), released)
    names = rates(found, "a class, and a member of its set")
    by_hand = isolated = 0
    for (part,), rows in frame.group_by("part"):
        counts = rows["town"].value_counts()["count"].to_list()
        by_hand += len(counts) if len(counts) > 1 else 0
        isolated += counts.count(1) if len(counts) > 1 else 0
        assert part is not None
    row = found.table.filter(pl.col("statement") == "a class, and a member of its set")
    assert names.keys() == {"town"}
    assert (row["attempts"][0], row["isolated"][0]) == (by_hand, isolated)


def test_where_no_cell_reaches_stands_whoever_was_left_out():
    frame = pl.DataFrame({"age": [20, 21, 22, 50, 80, 81, 82]})
    column = sf.Column(role="quasi", kind="integer")
    shown = pl.DataFrame({"age": ["[20;29]"] * 3 + ["*"] + ["[80;89]"] * 3})
    released = sf.Schema({"age": sf.Column(role="quasi", kind="integer", cells="generalised")})
    found = sf.risk.SinglingOut().measure(
        sf.Dataset(frame, sf.Schema({"age": column})), sf.Dataset(shown, released)
    )
    row = found.table.filter(pl.col("statement") == "where no cell reaches")
    assert (row["attempts"][0], row["isolated"][0]) == (3, 1)
    assert found.records["singled_out"].to_list()[3]


def test_ranges_sets_masks_and_wildcards_are_read():
    schema = sf.Schema(
        {
            "age": sf.Column(role="quasi", kind="integer"),
            "town": "quasi",
            "code": sf.Column(role="quasi", kind="text"),
        }
    )
    frame = pl.DataFrame(
        {
            "age": [26, 31, 44, 47, 70],
            "town": ["a", "b", "b", "c", "c"],
            "code": ["93701", "93702", "93815", "93816", "12000"],
        }
    )
    shown = pl.DataFrame(
        {
            "age": ["[20;29]", "[30;49]", "[30;49]", "[30;49]", "*"],
            "town": ["a", "{b;c}", "{b;c}", "{b;c}", "{b;c}"],
            "code": ["937**", "937**", "938**", "938**", "*"],
        }
    )
    made = schema.changed(list(schema), cells="generalised")
    original, released = sf.Dataset(frame, schema), sf.Dataset(shown, made)
    found = sf.risk.SinglingOut().measure(original, released)
    # By hand: [20;29] or town a is the first person, 937** with [30;49] or {b;c} the second; the
    # others share their cells, and {b;c} alone holds for four.
    assert found.table["isolated"].to_list()[0] == 2
    # Of the third and the fourth, who share [30;49] and 938**, one lives in b and one in c; the
    # fifth is in {b;c}, and outside [30;49].
    assert found.records["singled_out"].to_list() == [True, True, True, True, True]


def test_the_same_as_testing_every_statement_by_hand(people):
    """One variable: a statement isolates exactly if the released value occurs once, in both."""
    found = sf.risk.SinglingOut(known=["height"]).measure(people, people)
    counts = people.frame["height"].value_counts().filter(pl.col("height").is_not_null())
    alone = int((counts["count"] == 1).sum())
    by_cells = found.table.filter(pl.col("statement") == "the values as they stand")
    assert by_cells["isolated"][0] == alone


def test_extremes_find_the_oldest_and_the_lone_category():
    frame = pl.DataFrame({"age": [30, 40, 50, 99], "town": ["a", "a", "a", "b"]})
    data = sf.Dataset(frame, sf.Schema({"age": "quasi", "town": "quasi"}))
    seen, _ = view_release(data, data, ["age", "town"], owner="test")
    found = try_extremes(seen, data.units)
    assert sorted(found.isolates.tolist()) == [0, 3, 3]
    assert found.by_weight == pytest.approx(isolation_chance(np.array([0.25]), 4)[0])


def test_top_coding_hides_the_oldest():
    frame = pl.DataFrame({"age": [30, 30, 50, 80, 99], "sex": ["f", "f", "f", "m", "m"]})
    schema = sf.Schema({"age": "quasi", "sex": "quasi"})
    released = sf.Dataset(frame.with_columns(pl.col("age").clip(30, 80)), schema)
    found = sf.risk.SinglingOut(known=["age"]).measure(sf.Dataset(frame, schema), released)
    assert found.details["singled_out_by_extremes"] == 0.0


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.booleans()), min_size=1, max_size=25
    ),
    st.randoms(use_true_random=False),
)
def test_order_of_rows_is_no_matter_and_rates_are_shares(rows, random):
    schema = sf.Schema({"x": "quasi", "y": "quasi", "z": "quasi"})
    frame = pl.DataFrame(rows, schema=["x", "y", "z"], orient="row")
    order = list(range(len(rows)))
    random.shuffle(order)
    data, turned = sf.Dataset(frame, schema), sf.Dataset(frame[order], schema)
    found = sf.risk.SinglingOut().measure(data, data)
    again = sf.risk.SinglingOut().measure(turned, turned)
    assert found.plain() == again.plain()
    assert again.records.equals(found.records[order])
    assert 0 <= found.value <= 1
    assert 0 <= found.baseline <= 1
    # Whoever shares all values with somebody is isolated by nothing.
    twice = frame.is_duplicated().to_numpy()
    assert not (found.records["singled_out"].to_numpy() & twice).any()


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=20))
def test_a_statement_isolates_only_whom_it_holds_for(rows):
    schema = sf.Schema({"x": "quasi", "y": "quasi"})
    frame = pl.DataFrame(rows, schema=["x", "y"], orient="row")
    data = sf.Dataset(frame, schema)
    seen, _ = view_release(data, data, ["x", "y"], owner="test")
    for form in ("cells", "tails"):
        made = try_conjunctions(seen, form, 100, data.units)
        assert len(made.isolates) == len(rows)
        assert ((made.weights > 0) & (made.weights <= 1)).all()


def test_what_cannot_be_tried_says_so(people):
    none = people.with_schema(dict.fromkeys(people.columns, "other"))
    with pytest.raises(MeasureError, match="known to outsiders"):
        sf.risk.SinglingOut().measure(none, none)
    with pytest.raises(MeasureError, match="nothing to compare"):
        sf.risk.SinglingOut(known=["height"]).measure(people, people.without(["height"]))
    with pytest.raises(SchemaError, match="heigth"):
        sf.risk.SinglingOut(known=["heigth"]).measure(people, people)
    with pytest.raises(MeasureError, match="belong together"):
        sf.risk.SinglingOut().measure(people, people.take(np.arange(10)))


def test_what_was_dropped_or_renamed_is_told(people):
    found = sf.risk.SinglingOut(known=["height", "sex"]).measure(people, people.without(["sex"]))
    assert any("sex" in line for line in found.warnings)
    assert found.details["variables"] == ("height",)


def test_all_suppressed_isolates_nobody():
    schema = sf.Schema({"age": sf.Column(role="quasi", kind="integer"), "sex": "quasi"})
    frame = pl.DataFrame({"age": [1, 2, 3], "sex": ["a", "b", "c"]})
    stars = pl.DataFrame({"age": ["*"] * 3, "sex": ["*"] * 3})
    found = sf.risk.SinglingOut().measure(sf.Dataset(frame, schema), sf.Dataset(stars, schema))
    assert found.value == 0.0
    assert math.isnan(found.details["singled_out_by_extremes"])
    assert found.details["singled_out_by_extremes_reason"]
